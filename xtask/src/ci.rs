//! Everything that must pass before a change is taken, in the order that fails fastest.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::provision::{self, Install, Part};
use crate::{dist, manifest, tidy};

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// Runs cargo with the words of `line`, showing what it prints.
pub(crate) fn cargo(line: &str) -> Result<()> {
    announce(&format!("cargo {line}"));
    finish(Command::new(env!("CARGO")).args(line.split_whitespace()).current_dir(root()))
}

/// Runs a command that must succeed, showing what it prints.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    ensure!(status.success(), "{shown} did not pass ({status})");
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

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CiOptions {
    install: Install,
    /// Whether a part of the tests may be skipped.
    may_skip: bool,
}

impl CiOptions {
    /// From the task's words, and from the variable `CI` of the environment: what runs unattended
    /// installs what it needs, and skips nothing.
    fn parse(arguments: &[String], ci: Option<&OsStr>) -> Result<Self> {
        let is_ci = ci.is_some_and(|value| value == "true");
        let install = match arguments {
            [] if !is_ci => Install::Unasked,
            [] => Install::Asked,
            [word] if word == "--install" => Install::Asked,
            _ => bail!("usage: cargo xtask ci [--install]"),
        };
        Ok(Self { install, may_skip: !is_ci })
    }
}

/// One line per part of the tests that cannot run here.
fn skipped(present: &[Part]) -> Vec<String> {
    let absent = Part::ALL.into_iter().filter(|part| !present.contains(part));
    absent
        .map(|part| format!("skipped: {}; `cargo xtask ci --install` installs", part.describe()))
        .collect()
}

/// Runs all steps.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let asked = CiOptions::parse(arguments, std::env::var_os("CI").as_deref())?;
    cargo("fmt --all --check")?;
    cargo("fmt --check --manifest-path lab/Cargo.toml")?;
    tidy::run()?;
    let all = features(&Part::ALL);
    cargo(&format!("clippy --workspace --all-targets {all} -- -D warnings"))?;
    // Studies and long tasks compile against the crates as they are, and share what is compiled.
    cargo("check --manifest-path lab/Cargo.toml --target-dir target")?;
    let present = provision::parts(asked.install)?;
    let skipped = skipped(&present);
    if !skipped.is_empty() && !asked.may_skip {
        bail!("nothing may be skipped where CI=true is set:\n  {}", skipped.join("\n  "));
    }
    if present.contains(&Part::Manifest) {
        announce("kubernetes-validate --strict deploy/kubernetes.yaml");
        manifest::check()?;
    }
    // The end-to-end tests drive the built program. Built here, with the workspace's own choice of
    // features, because a build of the one package would compile half of its parts again.
    cargo("build --workspace --bins")?;
    if present.contains(&Part::Package) {
        dist::try_built(&root().join("target/debug/tokometer"))?;
    }
    let runner = if has_cargo_command("nextest") { "nextest run" } else { "test" };
    cargo(format!("{runner} --workspace {}", features(&present)).trim_end())?;
    document()?;
    for line in &skipped {
        announce(line);
    }
    Ok(())
}

/// The flag that adds parts to the end-to-end tests.
fn features(parts: &[Part]) -> String {
    let names: Vec<&str> = parts.iter().filter_map(|part| part.feature()).collect();
    if names.is_empty() { String::new() } else { format!("--features {}", names.join(",")) }
}

fn document() -> Result<()> {
    announce("cargo doc --workspace --no-deps --document-private-items");
    finish(
        Command::new(env!("CARGO"))
            .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .current_dir(root()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str], ci: Option<&str>) -> Result<CiOptions> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        CiOptions::parse(&words, ci.map(OsStr::new))
    }

    #[test]
    fn nothing_is_installed_unasked_and_nothing_is_skipped_unattended() {
        let check = |words: &[&str], ci: Option<&str>, install: Install, may_skip: bool| {
            let asked = parse(words, ci).unwrap();
            assert_eq!(asked, CiOptions { install, may_skip }, "{words:?} {ci:?}");
        };
        check(&[], None, Install::Unasked, true);
        check(&[], Some("false"), Install::Unasked, true);
        check(&["--install"], None, Install::Asked, true);
        check(&[], Some("true"), Install::Asked, false);
        assert!(parse(&["--yes"], None).unwrap_err().to_string().contains("[--install]"));
    }

    #[test]
    fn a_part_that_is_absent_is_named_and_its_tests_are_not_asked_for() {
        let lines = skipped(&[Part::RealServer]);
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("kubernetes-validate"), "{lines:?}");
        assert!(lines[0].starts_with("skipped: browser tests"), "{lines:?}");
        assert!(lines[0].contains("--install"), "{lines:?}");
        assert_eq!(features(&[Part::RealServer]), "--features tokometer-e2e/real");
        assert_eq!(features(&[Part::Manifest]), "", "it is a step of its own");
    }
}
