//! `cargo xtask dist`: everything that a user can install, built and tried once.
//!
//! Out, below `target/distribution`: the binary, the wheel, an archive with manual pages and completions,
//! `SHA256SUMS`, and an image where podman, docker or buildah is installed. zig links the program against an
//! old glibc, so that it runs on systems older than this one; it comes from the Python registry. The gate does
//! not build this, because that takes link-time optimisation of the whole program: it packs the program that
//! it tested.

mod binary;
mod image;
mod pack;
mod target;
mod wheel;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::ci::{announce, root};
use target::{Libc, Target};

const USAGE: &str = "usage: cargo xtask dist [--target TRIPLE] [--host-libc]";

#[derive(Debug, PartialEq, Eq)]
struct DistOptions {
    /// `None` for this machine.
    triple: Option<String>,
    libc: Libc,
}

impl DistOptions {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { triple: None, libc: Libc::Old };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--target" => options.triple = Some(words.next().context(USAGE)?.clone()),
                "--host-libc" => options.libc = Libc::Host,
                other => bail!("cannot use `{other}`\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

/// Packs the program that the gate built, and tries the wheel.
pub(crate) fn try_built() -> Result<()> {
    let program = root().join("target/debug/tokometer");
    let folder = root().join("target/packed");
    std::fs::create_dir_all(&folder)?;
    let platform = format!("linux_{}", std::env::consts::ARCH);
    let wheel = wheel::pack(&program, &platform, &folder)?;
    wheel::try_out(&wheel, &folder)?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Builds, checks, packs and tries.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = DistOptions::parse(arguments)?;
    let host = target::host()?;
    let target = Target::find(options.triple.as_deref().unwrap_or(&host))?;
    target.require_standard_library()?;
    let folder = root().join("target/distribution");
    // What an earlier build left must not be packed with this one.
    match std::fs::remove_dir_all(&folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            return Err(why).with_context(|| format!("cannot empty {}", folder.display()));
        }
        _ => std::fs::create_dir_all(&folder)?,
    }
    let built = binary::build(target, options.libc)?;
    let facts = binary::check(&built, target, options.libc)?;
    let program = folder.join("tokometer");
    std::fs::copy(&built, &program)?;
    // pip installs a wheel for `linux` on any Linux, so it is not for a registry.
    let system = if options.libc == Libc::Host { "linux" } else { target.platform };
    let platform = format!("{system}_{}", target.processor());
    let wheel = wheel::pack(&program, &platform, &folder)?;
    let mut made = vec![program.clone(), wheel.clone()];
    if target.runs_on(&host) {
        // A wheel for musl cannot be installed on a system with glibc.
        match target.glibc {
            Some(_) => wheel::try_out(&wheel, &folder)?,
            None => wheel::measure(&program, &folder)?,
        }
        made.push(pack::archive(&program, target, &folder)?);
        image::build(&program, &folder)?;
    } else {
        announce(
            "skipped: trying the program, manual pages, completions and the image; it is built for another machine",
        );
    }
    pack::sums(&made, &folder)?;
    show(&made, &facts)
}

#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
fn show(made: &[PathBuf], facts: &str) -> Result<()> {
    for path in made {
        let bytes = std::fs::metadata(path)?.len();
        println!("{bytes:>12} bytes  {}", path.strip_prefix(root()).unwrap_or(path).display());
    }
    println!("{facts}");
    Ok(())
}

/// Runs a command to its end. What it prints is shown only if it fails.
fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{shown} did not pass ({})\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    Ok(text(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_and_a_target_without_its_name_are_refused() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            DistOptions::parse(&words)
        };
        assert_eq!(parse("").unwrap(), DistOptions { triple: None, libc: Libc::Old });
        let both = parse("--host-libc --target aarch64-unknown-linux-gnu").unwrap();
        assert_eq!(both.triple.as_deref(), Some("aarch64-unknown-linux-gnu"));
        assert_eq!(both.libc, Libc::Host);
        assert!(parse("--fast").unwrap_err().to_string().contains("--fast"));
        assert!(parse("--target").is_err());
    }
}
