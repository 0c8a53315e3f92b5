//! `cargo xtask manifest`: the Kubernetes manifest against the schemas of the API, which a Python package has with it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::ci::{announce, finish, root};
use crate::provision;

/// The schemas of Kubernetes 1.37.
const PACKAGE: &str = "kubernetes-validate==1.37.0";

fn environment() -> PathBuf {
    root().join("target/launchers/venv")
}

fn program() -> PathBuf {
    environment().join("bin/kubernetes-validate")
}

pub(crate) fn run() -> Result<()> {
    install()?;
    check()
}

pub(crate) fn is_installed() -> bool {
    program().is_file()
}

pub(crate) fn install() -> Result<()> {
    provision::environment(&environment(), &[PACKAGE]).map(drop)
}

/// Checks the manifest. Unknown fields are errors.
pub(crate) fn check() -> Result<()> {
    announce("kubernetes-validate --strict deploy/kubernetes.yaml");
    let file = root().join("deploy/kubernetes.yaml");
    finish(Command::new(program()).arg("--strict").arg(file))
}
