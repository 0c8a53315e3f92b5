//! The program that studies measure with, and the checkout that it is built from.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

#[expect(clippy::print_stderr, reason = "a study reports its progress to whoever started it")]
pub(crate) fn announce(step: &str) {
    eprintln!("── {step}");
}

/// The release build of the program, brought up to date.
pub(crate) fn built() -> Result<PathBuf> {
    let line = "build --release --package tokometer";
    announce(&format!("cargo {line}"));
    let status = Command::new(env!("CARGO"))
        .args(line.split_whitespace())
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start `cargo {line}`"))?;
    if !status.success() {
        bail!("`cargo {line}` did not pass ({status})");
    }
    let target =
        option_env!("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/tokometer"))
}

/// The program named by a study's argument, else the release build.
pub(crate) fn named(argument: Option<&String>) -> Result<PathBuf> {
    match argument {
        Some(path) => Ok(std::path::absolute(path)?),
        None => built(),
    }
}
