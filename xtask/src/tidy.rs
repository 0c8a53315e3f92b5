//! The project's own rules, checked from files alone.
//!
//! Each rule gives findings, one line each with its file; any finding fails the task. The rules hold
//! what a compiler cannot: the table in ARCHITECTURE.md against the crates, file sizes, words that
//! must not stay in the code, fixtures that no test reads.

mod book;
mod cycles;
mod hints;
mod names;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::ci::{announce, root};
use crate::licences;

/// Lines of code a file may have without its tests. Files are divided where their meaning divides; this
/// only stops one that nobody can read in one go.
const FILE_LINES_MAX: usize = 800;

const UNFINISHED: [&str; 4] = ["TODO", "FIXME", "XXX:", "dbg!("];

struct SourceFile {
    path: PathBuf,
    text: String,
}

impl SourceFile {
    /// The part before the tests at the foot.
    fn code(&self) -> &str {
        self.text.split("\n#[cfg(test)]").next().unwrap_or(&self.text)
    }

    fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests" || part == "tests.rs")
    }

    fn show(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        // Build folders; a file such as `target.rs` is a source like any other.
        let is_build = |name: &str| path.is_dir() && name.starts_with("target");
        let is_skipped = name.is_some_and(|name| is_build(&name) || name.starts_with('.'));
        if is_skipped {
            continue;
        }
        if path.is_dir() { files_below(&path, found)? } else { found.push(path) }
    }
    Ok(())
}

fn sources() -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    for folder in ["crates", "e2e", "fuzz", "lab", "xtask"] {
        files_below(&root().join(folder), &mut paths)?;
    }
    paths.sort();
    let rust = paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    rust.map(|path| Ok(SourceFile { text: fs::read_to_string(&path)?, path })).collect()
}

fn read(name: &str) -> Result<String> {
    fs::read_to_string(root().join(name)).with_context(|| format!("cannot read {name}"))
}

/// The documentation for readers: pages at the root and below `docs`, with their names.
fn pages() -> Result<Vec<(String, String)>> {
    let mut names = Vec::new();
    for folder in [root(), root().join("docs"), root().join("lab")] {
        for entry in fs::read_dir(&folder)? {
            names.push(entry?.path());
        }
    }
    names.retain(|name| name.extension().is_some_and(|end| end == "md"));
    names.sort();
    let page = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        Ok((name, fs::read_to_string(&path)?))
    };
    names.into_iter().map(page).collect()
}

/// Runs all rules and fails when one has a finding.
pub(crate) fn run() -> Result<()> {
    announce("tidy");
    let sources = sources()?;
    let mut findings = Vec::new();
    findings.extend(file_sizes(&sources));
    findings.extend(unfinished(&sources));
    findings.extend(module_heads(&sources));
    findings.extend(cycles::findings(&sources));
    let pages = pages()?;
    findings.extend(names::missing_types(&sources, &pages));
    findings.extend(hints::missing(&sources, &pages));
    findings.extend(crates()?);
    findings.extend(named_files(&pages));
    findings.extend(book::findings(&pages, |file| root().join(file).exists()));
    findings.extend(unused_fixtures(&sources)?);
    findings.extend(licences::findings()?);
    if findings.is_empty() {
        return Ok(());
    }
    bail!("tidy has {} findings:\n  {}", findings.len(), findings.join("\n  "))
}

fn file_sizes(sources: &[SourceFile]) -> Vec<String> {
    let code = sources.iter().filter(|source| !source.is_test());
    code.map(|source| (source, source.code().lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(source, lines)| {
            format!("{}: {lines} lines, at most {FILE_LINES_MAX}", source.show())
        })
        .collect()
}

fn unfinished(sources: &[SourceFile]) -> Vec<String> {
    let this_file = Path::new("xtask/src/tidy.rs");
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !source.path.ends_with(this_file)) {
        for (number, line) in (1..).zip(source.text.lines()) {
            let word = UNFINISHED.iter().find(|word| line.contains(**word));
            findings.extend(word.map(|word| format!("{}:{number}: has `{word}`", source.show())));
        }
    }
    findings
}

fn module_heads(sources: &[SourceFile]) -> Vec<String> {
    let headless = |source: &&SourceFile| !source.text.starts_with("//!") && !source.is_test();
    sources
        .iter()
        .filter(headless)
        .map(|source| format!("{}: does not start by saying what it holds", source.show()))
        .collect()
}

/// Where the imports of a crate are not those that the table allows.
fn differences(manifest: &str, used: &[&str], allowed: &[&str]) -> Vec<String> {
    if allowed == ["all"] {
        return Vec::new();
    }
    let unlisted = used
        .iter()
        .filter(|name| !allowed.contains(*name))
        .map(|name| format!("{manifest}: imports `{name}`, which ARCHITECTURE.md does not allow"));
    let unused = allowed.iter().filter(|name| **name != "–" && !used.contains(*name)).map(|name| {
        format!("ARCHITECTURE.md: lists the import `{name}`, which {manifest} does not have")
    });
    unlisted.chain(unused).collect()
}

/// The table of crates in ARCHITECTURE.md: crate, and what it may import.
fn crates() -> Result<Vec<String>> {
    let map = read("ARCHITECTURE.md")?;
    let mut findings = Vec::new();
    let mut listed = Vec::new();
    for line in map.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _holds, imports, ..] = cells.as_slice() else { continue };
        let name = name.trim_matches('`');
        let manifest = format!("crates/{name}/Cargo.toml");
        if !root().join(&manifest).is_file() {
            continue;
        }
        listed.push(name.to_owned());
        let allowed: Vec<&str> =
            imports.split(',').map(|name| name.trim().trim_matches('`')).collect();
        let text = read(&manifest)?;
        let normal = text.split("[dev-dependencies]").next().unwrap_or(&text);
        let used = normal.lines().filter_map(|line| line.strip_prefix("tokometer-"));
        let used: Vec<&str> = used.filter_map(|rest| rest.split(['.', ' ', '=']).next()).collect();
        findings.extend(differences(&manifest, &used, &allowed));
    }
    for entry in fs::read_dir(root().join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !listed.contains(&name) {
            findings.push(format!("ARCHITECTURE.md: the crate `{name}` is missing from its table"));
        }
    }
    Ok(findings)
}

/// Files and folders that pages name exist.
fn named_files(pages: &[(String, String)]) -> Vec<String> {
    const FOLDERS: [&str; 8] =
        ["crates/", "docs/", "e2e/", "xtask/", "fixtures/", "experiments/", "lab/", "packaging/"];
    let mut findings = Vec::new();
    for (page, text) in pages {
        for word in text.split('`').skip(1).step_by(2) {
            let is_file = FOLDERS.iter().any(|folder| word.starts_with(folder))
                && !word.contains([' ', '<', '*', '{', '…', '\n']);
            if is_file && !root().join(word).exists() {
                findings.push(format!("{page}: names `{word}`, which does not exist"));
            }
        }
    }
    findings
}

/// Every fixture is named by some source file: by its stem, or by its folder where a test walks it.
fn unused_fixtures(sources: &[SourceFile]) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    files_below(&root().join("fixtures"), &mut paths)?;
    let is_named = |word: &str| sources.iter().any(|source| source.text.contains(word));
    let unused = paths.iter().filter(|path| {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        // A test walks all inputs that a fuzzer found.
        let is_walked = path.iter().any(|part| part == "regressions");
        !is_walked && stem.as_deref() != Some("README") && !stem.is_some_and(|stem| is_named(&stem))
    });
    Ok(unused.map(|path| format!("{}: no test names it", path.display())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: root().join(path), text: text.to_owned() }
    }

    #[test]
    fn the_table_of_crates_lists_what_each_imports_and_nothing_else() {
        let check = |used: &[&str], allowed: &[&str], expected: &[&str]| {
            let found = differences("crates/a/Cargo.toml", used, allowed);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (finding, words) in found.iter().zip(expected) {
                assert!(finding.contains(words), "{finding}");
            }
        };
        check(&["base", "record"], &["base", "record"], &[]);
        check(&["base", "client"], &["base"], &["imports `client`"]);
        check(&["base"], &["base", "record"], &["lists the import `record`"]);
        check(&[], &["–"], &[]);
        check(&["base", "client"], &["all"], &[]);
    }

    #[test]
    fn long_files_are_found_and_their_tests_do_not_count() {
        let long = "//! x\n".to_owned() + &"a\n".repeat(FILE_LINES_MAX);
        let tested = "//! x\n#[cfg(test)]\n".to_owned() + &"a\n".repeat(FILE_LINES_MAX);
        assert_eq!(file_sizes(&[source("crates/a/src/x.rs", &long)]).len(), 1);
        assert!(file_sizes(&[source("crates/a/src/x.rs", &tested)]).is_empty());
    }

    /// Files named like a build folder were once not read at all.
    #[test]
    fn a_source_file_called_target_is_read() {
        let is_read = |name: &str| sources().unwrap().iter().any(|one| one.path.ends_with(name));
        assert!(is_read("crates/measure/src/target.rs"));
    }

    #[test]
    fn unfinished_work_is_found_with_its_line() {
        let found = unfinished(&[source("crates/a/src/x.rs", "//! x\n// FIXME later\n")]);
        assert_eq!(found, ["crates/a/src/x.rs:2: has `FIXME`"]);
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        assert_eq!(module_heads(&[source("crates/a/src/x.rs", "use a;\n")]).len(), 1);
        assert!(module_heads(&[source("crates/a/src/x.rs", "//! Holds x.\n")]).is_empty());
    }
}
