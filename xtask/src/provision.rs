//! What the tests need besides a Rust toolchain: installed where it is missing.
//!
//! A browser with its driver and Python's `venv` come from Debian's packages where those can be had;
//! the real inference server comes from the Python registry, by the test that uses it. A machine with
//! another package manager is told what to install.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::ci::announce;

/// A program, and the Debian packages that bring it.
const NEEDED: [(&str, &str); 3] = [
    ("chromium --version", "chromium"),
    ("chromedriver --version", "chromium-driver"),
    ("python3 -c 'import venv, ensurepip'", "python3-venv"),
];

fn succeeds(line: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Installs what is missing.
pub(crate) fn run() -> Result<()> {
    let missing = || {
        let absent = NEEDED.iter().filter(|(line, _)| !succeeds(line));
        absent.map(|(_, package)| *package).collect::<Vec<_>>().join(" ")
    };
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    announce(&format!("installing {packages}"));
    let line = format!(
        "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq {packages}"
    );
    let _status = Command::new("sh").args(["-c", &line]).status();
    let still = missing();
    if still.is_empty() {
        return Ok(());
    }
    bail!("the tests need what these Debian packages bring, and it is missing: {still}")
}
