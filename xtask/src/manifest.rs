//! `cargo xtask manifest`: the Kubernetes manifest against the schemas of the API, which a Python package has with it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::ci::{finish, root};

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

/// Whether the package is installed.
pub(crate) fn is_installed() -> bool {
    program().is_file()
}

/// Installs the package from the Python registry.
pub(crate) fn install() -> Result<()> {
    let folder = environment();
    finish(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    finish(Command::new(folder.join("bin/pip")).args(["install", "--quiet", PACKAGE]))
}

/// Checks the manifest. Unknown fields are errors.
pub(crate) fn check() -> Result<()> {
    let file = root().join("deploy/kubernetes.yaml");
    finish(Command::new(program()).arg("--strict").arg(file))
}
