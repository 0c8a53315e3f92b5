//! What some of the tests need besides a Rust toolchain, and how it is installed when that is asked for.
//!
//! A browser with its driver and Python's `venv` come from Debian's packages; the real inference server
//! and the check of the Kubernetes manifest come from the Python registry. Nothing is installed unasked:
//! a part that is missing is skipped, and named as skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::ci::{announce, finish};
use crate::{dist, manifest, servers};

/// A part of the tests that needs more than a Rust toolchain.
pub(crate) struct Part {
    /// What it is, and what it needs.
    pub(crate) name: &'static str,
    /// The feature of the end-to-end tests that adds it.
    pub(crate) feature: Option<&'static str>,
    /// What the gate runs besides these tests, once the program is built.
    pub(crate) step: Option<fn() -> Result<()>>,
    is_installed: fn() -> bool,
    /// Debian packages first.
    needed: &'static [Needed],
    install: fn() -> Result<()>,
}

/// A command that succeeds where a program is there, and the Debian package that brings it.
type Needed = (&'static str, &'static str);

const BROWSER: [Needed; 2] =
    [("chromium --version", "chromium"), ("chromedriver --version", "chromium-driver")];
const VENV: [Needed; 1] = [("python3 -c 'import venv, ensurepip'", "python3-venv")];

pub(crate) const PARTS: [Part; 4] = [
    Part {
        name: "browser tests (chromium, chromedriver)",
        feature: Some("tokometer-e2e/browser"),
        step: None,
        is_installed: || missing(&BROWSER).is_empty(),
        needed: &BROWSER,
        install: || Ok(()),
    },
    Part {
        name: "real-server tests (llama.cpp's server, below target/real)",
        feature: Some("tokometer-e2e/real"),
        step: None,
        is_installed: servers::is_installed,
        needed: &VENV,
        install: servers::install_tested,
    },
    Part {
        name: "the Kubernetes manifest's check (kubernetes-validate, below target/launchers)",
        feature: None,
        step: Some(manifest::check),
        is_installed: manifest::is_installed,
        needed: &VENV,
        install: manifest::install,
    },
    Part {
        name: "the wheel (Python's venv)",
        feature: None,
        step: Some(dist::try_built),
        is_installed: || missing(&VENV).is_empty(),
        needed: &VENV,
        install: || Ok(()),
    },
];

pub(crate) fn install() -> Result<()> {
    for part in PARTS.iter().filter(|part| !(part.is_installed)()) {
        let installed = install_packages(part.needed).and_then(|()| (part.install)());
        installed.with_context(|| format!("cannot install {}", part.name))?;
    }
    Ok(())
}

/// The parts that can be run.
pub(crate) fn present() -> Vec<&'static Part> {
    PARTS.iter().filter(|part| (part.is_installed)()).collect()
}

/// A virtual environment of Python with these packages from its registry, made unless it is there. Returns
/// the folder of its programs.
pub(crate) fn environment(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let (mark, wanted) = (folder.join("ready"), packages.join(" "));
    if !std::fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        announce(&format!("pip install {wanted}"));
        finish(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))
            .context("cannot make a virtual environment; Debian has it in `python3-venv`")?;
        finish(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).args(packages))?;
        std::fs::write(&mark, wanted)?;
    }
    Ok(folder.join("bin"))
}

fn succeeds(line: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// The Debian packages of what is not there.
fn missing(needed: &[Needed]) -> Vec<&'static str> {
    needed.iter().filter(|(line, _)| !succeeds(line)).map(|(_, package)| *package).collect()
}

fn install_packages(needed: &[Needed]) -> Result<()> {
    let packages = missing(needed).join(" ");
    if packages.is_empty() {
        return Ok(());
    }
    announce(&format!("apt-get install {packages}"));
    let line = format!(
        "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq {packages}"
    );
    let _ = Command::new("sh").args(["-c", &line]).status();
    let still = missing(needed);
    if still.is_empty() {
        return Ok(());
    }
    bail!("these Debian packages, or what they bring, are missing: {}", still.join(" "))
}
