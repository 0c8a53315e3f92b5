//! `cargo xtask book`: the pages of `docs` as a site, built with mdBook into `target/book`.
//!
//! Not part of the gate: mdBook takes minutes to compile, and the pages are readable without it.
//! `cargo xtask tidy` checks what a build would find: the table of contents and the links.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::ci::{announce, cargo, root};

/// Fixed, so that two builds of one commit give one site.
const VERSION: &str = "0.5.4";

/// Builds the site.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let is_install = match arguments {
        [] => std::env::var_os("CI").is_some_and(|value| value == "true"),
        [word] if word == "--install" => true,
        _ => bail!("usage: cargo xtask book [--install]"),
    };
    let program = match mdbook() {
        Some(program) => program,
        None if is_install => install()?,
        None => bail!(
            "mdBook is not installed\n  `cargo xtask book --install` compiles it into target/tools \
             (minutes); `cargo install mdbook` works too"
        ),
    };
    announce("mdbook build");
    let status = Command::new(&program).arg("build").current_dir(root()).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("`mdbook build` did not pass ({status})");
    }
    announce(&format!("the site is {}", root().join("target/book/index.html").display()));
    Ok(())
}

/// An mdBook that runs: that of `--install`, else one on the path.
fn mdbook() -> Option<PathBuf> {
    let own = root().join("target/tools/bin/mdbook");
    [own, PathBuf::from("mdbook")].into_iter().find(|program| {
        let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    })
}

fn install() -> Result<PathBuf> {
    let tools = root().join("target/tools");
    // Without `serve` and `watch`, which bring an asynchronous runtime.
    cargo(&format!(
        "install mdbook --version {VERSION} --locked --no-default-features --features search \
         --root {}",
        tools.display()
    ))?;
    mdbook().context("mdBook was installed and does not start")
}
