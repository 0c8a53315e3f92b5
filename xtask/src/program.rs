//! The program that tasks measure with, and its simulated server.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::ci::{cargo, root};

/// The release build, made when it is old.
pub(crate) fn built() -> Result<PathBuf> {
    cargo("build --release --package tokometer")?;
    let target =
        option_env!("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/tokometer"))
}

/// The program named by a task's second argument, else the release build.
pub(crate) fn named(argument: Option<&String>) -> Result<PathBuf> {
    match argument {
        Some(path) => Ok(std::path::absolute(path)?),
        None => built(),
    }
}

/// A simulated server on a port of its own, and its address. It ends with the pipe that it follows.
pub(crate) fn simulator<W: AsRef<OsStr>>(program: &Path, flags: &[W]) -> Result<(Child, String)> {
    let mut child = Command::new(program)
        .args(["sim", "--port", "0", "--follow-stdin"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the simulated server")?;
    let stdout = child.stdout.take().context("the simulated server has no stdout")?;
    let mut line = String::new();
    let _length = BufReader::new(stdout).read_line(&mut line)?;
    let url = line.split_whitespace().last().unwrap_or_default().to_owned();
    Ok((child, url))
}
