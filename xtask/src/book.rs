//! `cargo xtask book`: the pages of `docs` as a site, built with mdBook into `target/book`.
//!
//! Not part of the gate: mdBook takes minutes to compile, and the pages are readable without it.
//! `cargo xtask tidy` checks what a build would find: the table of contents and the links.
//!
//! Pages link to files outside `docs` (`../ARCHITECTURE.md`), which a site does not have. The site is
//! therefore built from a copy in `target/book-source` that contains these files, and Markdown among them
//! becomes pages of a last part.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::ci::{announce, cargo, finish, root};

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
    let source = root().join("target/book-source");
    stage(&root(), &source)?;
    announce("mdbook build");
    let book = root().join("target/book");
    finish(Command::new(&program).arg("build").arg(&source).arg("--dest-dir").arg(book))?;
    announce(&format!("the site is {}", root().join("target/book/index.html").display()));
    Ok(())
}

/// Copies the pages, and the files outside of `docs` that they link to, into `source`.
fn stage(root: &Path, source: &Path) -> Result<()> {
    if source.exists() {
        fs::remove_dir_all(source)?;
    }
    let pages = source.join("docs");
    fs::create_dir_all(&pages)?;
    let _bytes = fs::copy(root.join("book.toml"), source.join("book.toml"))?;
    let mut linked = BTreeSet::new();
    for entry in fs::read_dir(root.join("docs"))? {
        let path = entry?.path();
        let copy = pages.join(path.file_name().unwrap_or_default());
        if path.extension().is_some_and(|ending| ending == "md") {
            let (text, outside) = with_links_inside(&fs::read_to_string(&path)?);
            linked.extend(outside);
            fs::write(copy, text)?;
        } else {
            let _bytes = fs::copy(&path, copy)?;
        }
    }
    let mut contents = fs::read_to_string(pages.join("SUMMARY.md"))?;
    contents.push_str("\n# Files of the repository\n\n");
    for file in &linked {
        let copy = pages.join(OUTSIDE).join(file);
        fs::create_dir_all(copy.parent().unwrap_or(&pages))?;
        let _bytes = fs::copy(root.join(file), copy).with_context(|| format!("no `{file}`"))?;
        if Path::new(file).extension().is_some_and(|ending| ending == "md") {
            writeln!(contents, "- [{file}]({OUTSIDE}/{file})")?;
        }
    }
    Ok(fs::write(pages.join("SUMMARY.md"), contents)?)
}

/// Folder of the site for files from outside `docs`.
const OUTSIDE: &str = "repository";

/// A page whose links to `../FILE` lead to a copy inside the site, and those files.
fn with_links_inside(page: &str) -> (String, Vec<String>) {
    let mut files = Vec::new();
    let mut pieces = page.split("](../");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let _ = write!(text, "]({OUTSIDE}/{piece}");
        let target = piece.split(')').next().unwrap_or_default();
        files.push(target.split('#').next().unwrap_or_default().to_owned());
    }
    (text, files)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Links to files outside of `docs` led nowhere on the site.
    #[test]
    fn a_link_to_a_file_outside_of_the_pages_leads_into_the_site() {
        let page = "See [map](../ARCHITECTURE.md), [x](other.md) and [y](../lab/data/y.md#part).";
        let (text, files) = with_links_inside(page);
        let expected = "See [map](repository/ARCHITECTURE.md), [x](other.md) and \
                        [y](repository/lab/data/y.md#part).";
        assert_eq!(text, expected);
        assert_eq!(files, ["ARCHITECTURE.md", "lab/data/y.md"]);
    }
}
