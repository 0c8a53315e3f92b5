//! What some of the tests need besides a Rust toolchain, and how it is installed when that is asked for.
//!
//! A browser with its driver and Python's `venv` come from Debian's packages; the real inference server
//! and the check of the Kubernetes manifest come from the Python registry. Nothing is installed unasked:
//! a part that is missing is skipped, and named as skipped.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::ci::announce;
use crate::{manifest, servers};

/// A part of the tests that needs more than a Rust toolchain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The report's page in a browser.
    Browser,
    /// The program against llama.cpp's server.
    RealServer,
    /// The Kubernetes manifest against the API's schemas.
    Manifest,
    /// The program as a wheel, installed in a fresh environment.
    Package,
}

/// A command that succeeds where a program is there, and the Debian package that brings it.
type Needed = (&'static str, &'static str);

const BROWSER: [Needed; 2] =
    [("chromium --version", "chromium"), ("chromedriver --version", "chromium-driver")];
const VENV: [Needed; 1] = [("python3 -c 'import venv, ensurepip'", "python3-venv")];

impl Part {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::Browser, Self::RealServer, Self::Manifest, Self::Package];

    /// The feature of the end-to-end tests that adds it; `None` for a step of its own.
    pub(crate) fn feature(self) -> Option<&'static str> {
        match self {
            Self::Browser => Some("tokometer-e2e/browser"),
            Self::RealServer => Some("tokometer-e2e/real"),
            Self::Manifest | Self::Package => None,
        }
    }

    /// Its name and what it needs.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Browser => "browser tests (chromium, chromedriver)",
            Self::RealServer => "real-server tests (llama.cpp's server, below target/real)",
            Self::Manifest => {
                "the Kubernetes manifest's check (kubernetes-validate, below target/launchers)"
            }
            Self::Package => "the wheel (Python's venv)",
        }
    }

    fn is_installed(self) -> bool {
        match self {
            Self::Browser => missing(&BROWSER).is_empty(),
            Self::RealServer => servers::is_installed(),
            Self::Manifest => manifest::is_installed(),
            Self::Package => missing(&VENV).is_empty(),
        }
    }

    fn install(self) -> Result<()> {
        match self {
            Self::Browser => install_packages(&BROWSER),
            Self::RealServer => {
                install_packages(&VENV)?;
                servers::install_tested()
            }
            Self::Manifest => {
                install_packages(&VENV)?;
                manifest::install()
            }
            Self::Package => install_packages(&VENV),
        }
    }
}

/// Whether missing parts are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Install {
    Asked,
    Unasked,
}

/// The parts that can be run, once what is missing is installed if that was asked for.
pub(crate) fn parts(install: Install) -> Result<Vec<Part>> {
    let mut present = Vec::new();
    for part in Part::ALL {
        if install == Install::Asked && !part.is_installed() {
            part.install().with_context(|| format!("cannot install {}", part.describe()))?;
        }
        present.extend(part.is_installed().then_some(part));
    }
    Ok(present)
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
