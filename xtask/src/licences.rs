//! Licences and sources of all dependencies, from cargo's own tree.
//!
//! The lists are those of `deny.toml`, so that machines without cargo-deny hold the same line.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::ci::root;

fn names(table: &toml::Value, section: &str, key: &str) -> Vec<String> {
    let list = table.get(section).and_then(|section| section.get(key));
    let items = list.and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let name = |item: &toml::Value| {
        item.as_str().or_else(|| item.get("crate")?.as_str()).map(str::to_owned)
    };
    items.iter().filter_map(name).collect()
}

/// Whether an SPDX expression can be met by allowed licences alone. `AND` binds tighter than `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let meets = |licence: &str| allowed.iter().any(|name| name == licence.trim());
    if expression.contains('(') {
        // `A AND (B OR C)`: every alternative of every part is checked, which only errs on the
        // strict side when a part names a licence that is not allowed beside one that is.
        return plain.split(" AND ").all(|part| part.split(" OR ").any(meets));
    }
    plain.split(" OR ").any(|choice| choice.split(" AND ").all(meets))
}

/// One line per dependency that breaks a rule of `deny.toml`.
pub(crate) fn findings() -> Result<Vec<String>> {
    let rules: toml::Value = fs::read_to_string(root().join("deny.toml"))?
        .parse::<toml::Table>()
        .map(toml::Value::Table)
        .context("cannot read deny.toml")?;
    let (allowed, banned) = (names(&rules, "licenses", "allow"), names(&rules, "bans", "deny"));
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
    Ok(lines.into_iter().filter_map(|line| finding(line, &allowed, &banned)).collect())
}

/// What is wrong with one package, given as `name version (source)|licence`.
fn finding(line: &str, allowed: &[String], banned: &[String]) -> Option<String> {
    let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
    let name = package.split(' ').next()?;
    if banned.iter().any(|other| other == name) {
        return Some(format!("{name} is banned by deny.toml"));
    }
    // Packages of the workspace carry their folder, those from elsewhere their address.
    if package.contains("://") {
        return Some(format!("{package} does not come from the registry"));
    }
    (!is_allowed(licence, allowed)).then(|| format!("{name} has the licence `{licence}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_by_allowed_licences_only() {
        let allowed = ["MIT".to_owned(), "ISC".to_owned()];
        let check =
            |text: &str, expected: bool| assert_eq!(is_allowed(text, &allowed), expected, "{text}");
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
        let (allowed, banned) = (["MIT".to_owned()], ["openssl".to_owned()]);
        let check = |line: &str, is_found: bool| {
            assert_eq!(finding(line, &allowed, &banned).is_some(), is_found, "{line}");
        };
        check("itoa v1.0.0|MIT", false);
        check("itoa v1.0.0|MIT (*)", false);
        check("openssl v0.1.0|MIT", true);
        check("itoa v1.0.0 (https://example.invalid/x)|MIT", true);
        check("itoa v1.0.0|", true);
    }
}
