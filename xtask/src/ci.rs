//! Everything that must pass before a change is taken, in the order that fails fastest.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{provision, tidy};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// Runs cargo with the words of `line`, showing what it prints.
pub(crate) fn cargo(line: &str) -> Result<()> {
    announce(&format!("cargo {line}"));
    let status = Command::new(env!("CARGO"))
        .args(line.split_whitespace())
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start `cargo {line}`"))?;
    if !status.success() {
        bail!("`cargo {line}` did not pass ({status})");
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
pub(crate) fn announce(step: &str) {
    eprintln!("── {step}");
}

fn has_cargo_command(name: &str) -> bool {
    let found = Command::new(env!("CARGO"))
        .args([name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

/// Runs all steps.
pub(crate) fn run() -> Result<()> {
    cargo("fmt --all --check")?;
    tidy::run()?;
    cargo("clippy --workspace --all-targets -- -D warnings")?;
    provision::run()?;
    // The end-to-end tests drive the built program. Built here, with the workspace's own choice of
    // features, because a build of the one package would compile half of its parts again.
    cargo("build --workspace --bins")?;
    if has_cargo_command("nextest") {
        cargo("nextest run --workspace")?;
    } else {
        cargo("test --workspace")?;
    }
    document()?;
    if has_cargo_command("deny") {
        cargo("deny --offline check licenses bans sources")?;
    }
    Ok(())
}

fn document() -> Result<()> {
    announce("cargo doc --workspace --no-deps --document-private-items");
    let status = Command::new(env!("CARGO"))
        .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .current_dir(root())
        .status()
        .context("cannot start `cargo doc`")?;
    if !status.success() {
        bail!("`cargo doc` did not pass ({status})");
    }
    Ok(())
}
