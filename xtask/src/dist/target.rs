//! Systems that the program is built for.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Libc {
    /// The oldest that Rust supports, from zig: the program runs on systems older than this one.
    Old,
    /// That of this machine: the program runs here and on newer systems.
    Host,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Its name in Rust.
    pub(super) triple: &'static str,
    /// Its name in Python's wheels.
    pub(super) platform: &'static str,
    /// The newest glibc that the program may need. `None` for musl, which is linked statically.
    pub(super) glibc: Option<(u32, u32)>,
}

const fn row(triple: &'static str, platform: &'static str, glibc: Option<(u32, u32)>) -> Target {
    Target { triple, platform, glibc }
}

/// glibc 2.17 is Rust's own minimum, and the one of manylinux2014.
const TARGETS: [Target; 4] = [
    row("x86_64-unknown-linux-gnu", "manylinux_2_17", Some((2, 17))),
    row("aarch64-unknown-linux-gnu", "manylinux_2_17", Some((2, 17))),
    row("x86_64-unknown-linux-musl", "musllinux_1_2", None),
    row("aarch64-unknown-linux-musl", "musllinux_1_2", None),
];

impl Target {
    pub(super) fn find(triple: &str) -> Result<&'static Self> {
        let found = TARGETS.iter().find(|target| target.triple == triple);
        found.with_context(|| {
            let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
            format!("cannot build for `{triple}`: the known targets are {}", known.join(", "))
        })
    }

    pub(super) fn processor(&self) -> &'static str {
        self.triple.split('-').next().unwrap_or_default()
    }

    /// Fails, with what to install, where rustc has no standard library for it.
    pub(super) fn require_standard_library(&self) -> Result<()> {
        let libraries = output(Command::new("rustc").args([
            "--print",
            "target-libdir",
            "--target",
            self.triple,
        ]))?;
        let is_there = std::fs::read_dir(Path::new(libraries.trim())).is_ok_and(|files| {
            let names = files.flatten().map(|file| file.file_name());
            names.into_iter().any(|name| name.to_string_lossy().starts_with("libstd-"))
        });
        ensure!(
            is_there,
            "cannot build for `{0}`: its standard library is not installed\n  \
             install it with `rustup target add {0}`",
            self.triple
        );
        Ok(())
    }

    /// Whether its programs run on this machine.
    pub(super) fn runs_on(&self, host: &str) -> bool {
        host.split('-').next() == Some(self.processor()) && host.contains("linux")
    }
}

/// This machine's target, as rustc calls it.
pub(super) fn host() -> Result<String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    let Some(host) = text.lines().find_map(|line| line.strip_prefix("host: ")) else {
        bail!("`rustc -vV` names no host:\n{text}");
    };
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_same_processor_runs_here() {
        let check = |target: &str, host: &str, expected: bool| {
            assert_eq!(Target::find(target).unwrap().runs_on(host), expected, "{target} on {host}");
        };
        check("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-gnu", true);
        check("x86_64-unknown-linux-musl", "x86_64-unknown-linux-gnu", true);
        check("aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu", false);
        check("aarch64-unknown-linux-gnu", "aarch64-apple-darwin", false);
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let why = Target::find("x86_64-pc-windows-msvc").unwrap_err().to_string();
        assert!(why.contains("x86_64-unknown-linux-musl"), "{why}");
    }

    #[test]
    fn a_target_without_a_standard_library_is_refused_with_the_command_that_installs_it() {
        // Rust has no standard library for this one on any machine.
        let bare = Target { triple: "x86_64-unknown-none", platform: "", glibc: None };
        let why = bare.require_standard_library().unwrap_err().to_string();
        assert!(why.contains("rustup target add x86_64-unknown-none"), "{why}");
    }
}
