//! Everything that must pass before a change is taken, in the order that fails fastest.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::provision::{self, PARTS, Part};
use crate::tidy;

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

/// Runs all steps. What runs unattended (`CI=true`) installs what it needs, and skips nothing.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    let is_install = match arguments {
        [] => is_ci,
        [word] if word == "--install" => true,
        _ => bail!("usage: cargo xtask ci [--install]"),
    };
    cargo("fmt --all --check")?;
    cargo("fmt --check --manifest-path lab/Cargo.toml")?;
    tidy::run()?;
    let all = features(&PARTS.each_ref());
    cargo(&format!("clippy --workspace --all-targets {all} -- -D warnings"))?;
    // Studies and long tasks compile against the crates as they are, and share what is compiled.
    cargo("check --manifest-path lab/Cargo.toml --target-dir target")?;
    if is_install {
        provision::install()?;
    }
    let present = provision::present();
    let skipped = skipped(&present);
    if !skipped.is_empty() && is_ci {
        bail!("nothing may be skipped where CI=true is set:\n  {}", skipped.join("\n  "));
    }
    // The end-to-end tests drive the built program. Built here, with the workspace's own choice of
    // features, because a build of the one package would compile half of its parts again.
    cargo("build --workspace --bins")?;
    for step in present.iter().filter_map(|part| part.step) {
        step()?;
    }
    let runner = if has_cargo_command("nextest") { "nextest run" } else { "test" };
    cargo(format!("{runner} --workspace {}", features(&present)).trim_end())?;
    document()?;
    for line in &skipped {
        announce(line);
    }
    Ok(())
}

/// One line per part of the tests that cannot run here.
fn skipped(present: &[&Part]) -> Vec<String> {
    let is_absent = |part: &&Part| present.iter().all(|other| other.name != part.name);
    let line = |part: &Part| format!("skipped: {}; `cargo xtask ci --install` installs", part.name);
    PARTS.iter().filter(is_absent).map(line).collect()
}

/// The flag that adds parts to the end-to-end tests.
fn features(parts: &[&Part]) -> String {
    let names: Vec<&str> = parts.iter().filter_map(|part| part.feature).collect();
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

    #[test]
    fn a_part_that_is_absent_is_named_and_its_tests_are_not_asked_for() {
        let [_, real_server, manifest, _] = PARTS.each_ref();
        let lines = skipped(&[real_server]);
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("kubernetes-validate"), "{lines:?}");
        assert!(lines[0].starts_with("skipped: browser tests"), "{lines:?}");
        assert!(lines[0].contains("--install"), "{lines:?}");
        assert_eq!(features(&[real_server]), "--features tokometer-e2e/real");
        assert_eq!(features(&[manifest]), "", "it is a step of its own");
    }
}
