//! Licences and sources of all dependencies, from cargo's own metadata.
//!
//! The lists are those of `deny.toml`, so that machines without cargo-deny hold the same line.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

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
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .context("cannot start `cargo metadata`")?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .context("cannot read what `cargo metadata` printed")?;
    let used: Vec<&str> = metadata["resolve"]["nodes"]
        .as_array()
        .map(|nodes| nodes.iter().filter_map(|node| node["id"].as_str()).collect())
        .unwrap_or_default();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_used = |package: &&Value| package["id"].as_str().is_some_and(|id| used.contains(&id));
    Ok(packages
        .iter()
        .filter(is_used)
        .filter_map(|package| finding(package, &allowed, &banned))
        .collect())
}

fn finding(package: &Value, allowed: &[String], banned: &[String]) -> Option<String> {
    let name = package["name"].as_str()?;
    if banned.iter().any(|other| other == name) {
        return Some(format!("{name} is banned by deny.toml"));
    }
    let source = package["source"].as_str()?;
    if !source.starts_with("registry+") {
        return Some(format!("{name} comes from {source}, not from the registry"));
    }
    let licence = package["license"].as_str().unwrap_or("none given");
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
}
