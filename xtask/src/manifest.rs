//! `cargo xtask manifest`: the Kubernetes manifest against the schemas of the API, which a Python package has with it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::ci::root;

/// The schemas of Kubernetes 1.37.
const PACKAGE: &str = "kubernetes-validate==1.37.0";

fn environment() -> PathBuf {
    root().join("target/launchers/venv")
}

fn program() -> PathBuf {
    environment().join("bin/kubernetes-validate")
}

/// Installs what the check needs, and checks.
pub(crate) fn run() -> Result<()> {
    if !is_installed() {
        install()?;
    }
    check()
}

fn shell(line: &str) -> Result<()> {
    let status = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).status()?;
    ensure!(status.success(), "`{line}` did not pass ({status})");
    Ok(())
}

/// Whether the package is installed.
pub(crate) fn is_installed() -> bool {
    program().is_file()
}

/// Installs the package from the Python registry.
pub(crate) fn install() -> Result<()> {
    let folder = environment();
    shell(&format!("python3 -m venv {}", folder.display()))?;
    let python = folder.join("bin/python");
    shell(&format!("{} -m pip install --quiet {PACKAGE}", python.display()))
}

/// Checks the manifest. Unknown fields are errors.
pub(crate) fn check() -> Result<()> {
    let file = root().join("deploy/kubernetes.yaml");
    shell(&format!("{} --strict {}", program().display(), file.display()))
}
