//! Modules of a crate import each other in one direction only.
//!
//! The modules are those beside the crate's root; a folder is one module. An import is the name behind
//! `crate::`, or behind `super::` in a file beside the root. A name that the root re-exports stands for
//! the module that it comes from. Tests may import what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::SourceFile;
use crate::ci::root;

/// Crates whose modules still form circles. A crate without any leaves this list.
const NOT_YET: [&str; 2] = ["campaign", "plan"];

/// Module by module, the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of every crate, and crates that need no exception any more.
pub(super) fn findings(sources: &[SourceFile]) -> Vec<String> {
    let mut crates: BTreeMap<String, Vec<(String, &SourceFile)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let path = source.path.strip_prefix(root()).unwrap_or(&source.path);
        let parts: Vec<String> =
            path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if let ["crates", name, "src", file, ..] =
            parts.iter().map(String::as_str).collect::<Vec<_>>()[..]
        {
            let module = file.trim_end_matches(".rs").to_owned();
            crates.entry(name.to_owned()).or_default().push((module, source));
        }
    }
    crates.iter().filter_map(|(name, files)| finding(name, files)).collect()
}

fn finding(name: &str, files: &[(String, &SourceFile)]) -> Option<String> {
    let circle = circle(&imports(files));
    match (circle.is_empty(), NOT_YET.contains(&name)) {
        (true, true) => {
            Some(format!("crates/{name}: no circles left; remove it from `NOT_YET` in cycles.rs"))
        }
        (false, false) => {
            Some(format!("crates/{name}/src: modules import each other: {}", circle.join(", ")))
        }
        _ => None,
    }
}

fn imports(files: &[(String, &SourceFile)]) -> Imports {
    let is_root = |module: &str| matches!(module, "lib" | "main");
    let modules: BTreeSet<&str> =
        files.iter().map(|(module, _)| module.as_str()).filter(|module| !is_root(module)).collect();
    let roots = files.iter().filter(|(module, _)| is_root(module));
    let exported: BTreeMap<String, String> =
        roots.flat_map(|(_, source)| exports(&source.text)).collect();
    let mut found = Imports::new();
    for (module, source) in files.iter().filter(|(module, _)| !is_root(module)) {
        let is_beside_root = source.path.parent().and_then(Path::file_name) == Some("src".as_ref());
        let code: String = source.code().lines().filter(|line| !is_comment(line)).collect();
        let mut names = named_behind(&code, "crate::");
        if is_beside_root {
            names.extend(named_behind(&code, "super::"));
        }
        let of = |name: &String| exported.get(name).unwrap_or(name).clone();
        let others = names.iter().map(of).filter(|name| modules.contains(name.as_str()));
        found.entry(module.clone()).or_default().extend(others.filter(|name| name != module));
    }
    found
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// What a root re-exports, with the module that it comes from.
fn exports(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for statement in text.split(';') {
        let Some((_, path)) = statement.split_once("use ") else { continue };
        let Some((module, names)) = path.trim_start_matches("crate::").split_once("::") else {
            continue;
        };
        let names = names.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        let names = names.filter(|name| !name.is_empty());
        found.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    found
}

/// The first names of all paths behind this prefix, also of those in braces.
fn named_behind(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in code.split(prefix).skip(1) {
        if !rest.starts_with('{') {
            found.insert(first_name(rest));
            continue;
        }
        let mut depth = 0;
        for (at, letter) in rest.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && matches!(letter, '{' | ',') {
                found.insert(first_name(rest[at + 1..].trim_start()));
            }
        }
    }
    found
}

fn first_name(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// The modules that reach themselves; empty without a circle.
fn circle(imports: &Imports) -> Vec<String> {
    let reaches = |from: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut open: Vec<&String> = imports[from].iter().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(imports.get(next).into_iter().flatten());
            }
        }
        seen.contains(from)
    };
    imports.keys().filter(|module| reaches(module)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<(String, SourceFile)> = files
            .iter()
            .map(|(path, text)| {
                let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
                let path = Path::new("crates/a/src").join(path);
                (module.to_owned(), SourceFile { path, text: (*text).to_owned() })
            })
            .collect();
        let files: Vec<(String, &SourceFile)> =
            sources.iter().map(|(module, source)| (module.clone(), source)).collect();
        circle(&imports(&files))
    }

    #[test]
    fn a_circle_is_found_through_folders_braces_and_re_exports() {
        let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::{Shown, other};");
        let a = ("a.rs", "use crate::{\n    b::One,\n    base::Two,\n};");
        let b = ("b/inner.rs", "use crate::Shown;");
        assert!(found(&[lib, a, b, ("c.rs", "// crate::a\nuse super::d;")]).is_empty());
        assert_eq!(found(&[lib, a, b, ("c.rs", "use super::a::X;")]), ["a", "b", "c"]);
        let tests = ("c.rs", "fn c() {}\n#[cfg(test)]\nmod tests { use crate::a; }");
        assert!(found(&[lib, a, b, tests]).is_empty());
    }
}
