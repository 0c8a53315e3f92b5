//! Licences and sources of all dependencies, from cargo's own tree.
//!
//! Read from `cargo tree`, so that the gate needs no further tool for it.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::ci::root;

const ALLOWED: [&str; 15] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages that must not be built, and why.
const BANNED: [(&str, &str); 5] = [
    ("openssl", "TLS is rustls: no system library is needed to build or run"),
    ("openssl-sys", "TLS is rustls: no system library is needed to build or run"),
    ("aws-lc-sys", "ring is the one cryptography provider: it builds without cmake"),
    (
        "icu_normalizer",
        "25 packages to look up host names: `cargo update idna_adapter --precise 1.1.0` avoids them",
    ),
    ("tokio", "no crate has a runtime: workers poll their own sockets"),
];

/// Whether an SPDX expression can be met by allowed licences alone. `AND` binds tighter than `OR`.
fn is_allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let meets = |licence: &str| ALLOWED.contains(&licence.trim());
    if expression.contains('(') {
        // `A AND (B OR C)`: every alternative of every part is checked, which only errs on the
        // strict side when a part names a licence that is not allowed beside one that is.
        return plain.split(" AND ").all(|part| part.split(" OR ").any(meets));
    }
    plain.split(" OR ").any(|choice| choice.split(" AND ").all(meets))
}

/// One line per dependency that breaks a rule.
pub(crate) fn findings() -> Result<Vec<String>> {
    // The tree of what is really built; cargo's metadata also lists what optional features would add.
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}|{l}"])
        .current_dir(root())
        .output()
        .context("cannot start `cargo tree`")?;
    let tree = String::from_utf8(output.stdout).context("cannot read what `cargo tree` printed")?;
    let lines: BTreeSet<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    ensure!(lines.len() > 50, "`cargo tree` shows only {} packages", lines.len());
    Ok(lines.into_iter().filter_map(finding).collect())
}

/// What is wrong with one package, given as `name version (source)|licence`.
fn finding(line: &str) -> Option<String> {
    let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
    let name = package.split(' ').next()?;
    if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name) {
        return Some(format!("{name} is banned: {why}"));
    }
    // Packages of the workspace carry their folder, those from elsewhere their address.
    if package.contains("://") {
        return Some(format!("{package} does not come from the registry"));
    }
    (!is_allowed(licence)).then(|| format!("{name} has the licence `{licence}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_allowed_licences_only() {
        let check = |text: &str, expected: bool| assert_eq!(is_allowed(text), expected, "{text}");
        check("MIT", true);
        check("MIT OR GPL-3.0", true);
        check("MIT AND ISC", true);
        check("MIT AND GPL-3.0", false);
        check("ISC AND (MIT OR GPL-3.0)", true);
        check("Apache-2.0/MIT", true);
        check("GPL-3.0", false);
    }

    #[test]
    fn banned_foreign_and_unlicensed_packages_are_found() {
        let check = |line: &str, is_found: bool| {
            assert_eq!(finding(line).is_some(), is_found, "{line}");
        };
        check("itoa v1.0.0|MIT", false);
        check("itoa v1.0.0|MIT (*)", false);
        check("openssl v0.1.0|MIT", true);
        check("itoa v1.0.0 (https://example.invalid/x)|MIT", true);
        check("itoa v1.0.0|", true);
    }
}
