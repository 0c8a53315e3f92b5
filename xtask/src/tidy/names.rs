//! One word, one meaning: no two types share a name that other files can see.
//!
//! A type counts as visible when it is `pub` in any form. A private type may not take the name of a
//! visible one either, or a reader would have to look at the imports to know which one a line means.
//! Two private types may share a name, because no file sees both. Types that pages name must exist.

use std::collections::{BTreeMap, BTreeSet};

use super::SourceFile;

/// Names that several definitions may share, and the folder that may hold one of them at most.
const SHARED: [(&str, Scope); 3] = [
    // Always written with the crate: `record::Error`.
    ("Error", Scope::Crate),
    ("Result", Scope::Crate),
    // Always written with the dataset: `sharegpt::Options`.
    ("Options", Scope::File),
];

#[derive(Clone, Copy)]
enum Scope {
    Crate,
    File,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    Visible,
    Private,
}

struct Definition {
    place: String,
    visibility: Visibility,
}

/// Types of one name, of which at least one is visible to other files.
pub(super) fn types_of_one_name(sources: &[SourceFile]) -> Vec<String> {
    let mut definitions: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        for (number, line) in (1..).zip(source.code().lines()) {
            let Some((visibility, name)) = definition(line) else { continue };
            let place = format!("{}:{number}", source.show());
            let key = key(name, &source.show());
            definitions.entry(key).or_default().push(Definition { place, visibility });
        }
    }
    let is_shared = |found: &[Definition]| {
        found.len() > 1 && found.iter().any(|one| one.visibility == Visibility::Visible)
    };
    definitions
        .into_iter()
        .filter(|(_, found)| is_shared(found))
        .map(|(name, found)| {
            let places: Vec<String> = found.into_iter().map(|one| one.place).collect();
            format!("type `{name}` is defined {} times: {}", places.len(), places.join(", "))
        })
        .collect()
}

/// Pages whose types must exist: they lead a reader through the code.
const MAPS: [&str; 4] =
    ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions.md", "docs/life-of-a-request.md"];

/// Names of the standard library that these pages use.
const STANDARD: [&str; 6] = ["Arc", "Box", "Default", "None", "Option", "Some"];

/// Types that a map names and no file defines.
pub(super) fn missing_types(sources: &[SourceFile], pages: &[(String, String)]) -> Vec<String> {
    let lines = sources.iter().flat_map(|source| source.text.lines());
    let defined: BTreeSet<&str> = lines
        .flat_map(|line| [definition(line).map(|(_, name)| name), partial_twin(line)])
        .flatten()
        .collect();
    let mut findings = Vec::new();
    for (page, text) in pages.iter().filter(|(page, _)| MAPS.contains(&page.as_str())) {
        for span in text.split('`').skip(1).step_by(2) {
            let Some(name) = type_name(span) else { continue };
            if !defined.contains(name) && !STANDARD.contains(&name) {
                findings.push(format!("{page}: names the type `{name}`, which does not exist"));
            }
        }
    }
    findings
}

/// The second name of `struct Whole / PartialWhole {`, the form of `partial!`.
fn partial_twin(line: &str) -> Option<&str> {
    let (head, rest) = line.split_once(" / ")?;
    head.contains("struct ").then(|| rest.trim_end_matches(" {"))
}

/// The type in a code span such as `Exchange::on_read`; `None` for a file, a flag or a constant.
fn type_name(span: &str) -> Option<&str> {
    let end = span.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(span.len());
    let (name, rest) = span.split_at(end);
    let is_type = name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.contains(|letter: char| letter.is_ascii_lowercase());
    let is_whole = rest.is_empty() || rest.starts_with("::") || rest.starts_with('<');
    (is_type && is_whole).then_some(name)
}

/// Code that a user gets, and the library of the whole-program tests.
fn is_product(source: &SourceFile) -> bool {
    let place = source.show();
    let is_library = place.starts_with("crates/") || place.starts_with("e2e/src/");
    let is_test = source.is_test() || place.ends_with("_tests.rs");
    is_library && !is_test
}

/// What a definition is compared by: its name, with the place that may have one of its own.
fn key(name: &str, place: &str) -> String {
    match SHARED.iter().find(|(shared, _)| *shared == name) {
        None => name.to_owned(),
        Some((_, Scope::File)) => format!("{place} {name}"),
        Some((_, Scope::Crate)) => {
            let folder: Vec<&str> = place.split('/').take(2).collect();
            format!("{} {name}", folder.join("/"))
        }
    }
}

/// The type that a line defines. Private types count at the top level only: below it stand local and
/// associated types.
fn definition(line: &str) -> Option<(Visibility, &str)> {
    let text = line.trim_start();
    let (visibility, text) = match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (Visibility::Visible, rest.split_once(") ")?.1),
        Some(rest) => (Visibility::Visible, rest.strip_prefix(' ')?),
        None if text.len() == line.len() => (Visibility::Private, text),
        None => return None,
    };
    let (keyword, rest) = text.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    // A macro's placeholder, such as `$Part`, is no name.
    (!name.is_empty()).then_some((visibility, name))
}

#[cfg(test)]
mod tests {
    use super::super::root;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| SourceFile {
            path: root().join(path),
            text: (*text).to_owned(),
        };
        types_of_one_name(&files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn a_visible_name_may_not_be_used_twice() {
        let first = ("crates/a/src/x.rs", "pub struct Point;\n");
        let check = |second: &str, expected: usize| {
            let files = [first, ("crates/b/src/y.rs", second)];
            assert_eq!(found(&files).len(), expected, "{second}");
        };
        check("//! y\npub(crate) enum Point<T> {\n", 1);
        check("struct Point {\n", 1);
        check("    pub struct Point / PartialPoint {\n", 1);
        check("pub type Point = u8;\n", 1);
        check("    type Point = u8;\n", 0);
        check("pub struct Points;\n", 0);
        check("#[cfg(test)]\nmod tests {}\n", 0);
        check("pub fn point() {}\n#[cfg(test)]\npub struct Point;\n", 0);
    }

    #[test]
    fn a_page_that_names_a_type_of_the_past_is_found() {
        let source = SourceFile {
            path: root().join("crates/a/src/x.rs"),
            text: "pub struct Point / PartialPoint {\nenum Step {\n".to_owned(),
        };
        let check = |text: &str, expected: usize| {
            let page = ("ARCHITECTURE.md".to_owned(), text.to_owned());
            assert_eq!(
                missing_types(std::slice::from_ref(&source), &[page]).len(),
                expected,
                "{text}"
            );
        };
        check("a `Point`, a `PartialPoint`, `Step::next` and `Box<dyn Step>`", 0);
        check("a `Place`", 1);
        check("`Cargo.toml`, `OPENAI_API_KEY`, `--flag`, `VALID` and `point`", 0);
    }

    #[test]
    fn private_types_and_tests_may_share_a_name() {
        assert!(
            found(&[
                ("crates/a/src/x.rs", "struct State;\n"),
                ("crates/b/src/x.rs", "struct State;\n"),
                ("crates/c/src/tests.rs", "pub struct State;\n"),
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_crate_has_one_error_and_a_dataset_has_one_set_of_options() {
        let error = "pub enum Error {\n";
        assert!(found(&[("crates/a/src/x.rs", error), ("crates/b/src/x.rs", error)]).is_empty());
        assert_eq!(found(&[("crates/a/src/x.rs", error), ("crates/a/src/y.rs", error)]).len(), 1);
        let options = "pub struct Options {\n";
        assert!(
            found(&[("crates/a/src/x.rs", options), ("crates/a/src/y.rs", options)]).is_empty()
        );
    }
}
