//! Types that pages name exist.

use std::collections::BTreeSet;

use super::SourceFile;

/// Pages whose types must exist: they lead a reader through the code.
pub(super) const MAPS: [&str; 4] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "lab/data/decisions.md",
    "lab/data/life-of-a-request.md",
];

/// Names of the standard library that these pages use.
const STANDARD: [&str; 6] = ["Arc", "Box", "Default", "None", "Option", "Some"];

/// Types that a map names and no file defines.
pub(super) fn missing_types(sources: &[SourceFile], pages: &[(String, String)]) -> Vec<String> {
    let lines = sources.iter().flat_map(|source| source.text.lines());
    let defined: BTreeSet<&str> =
        lines.flat_map(|line| [definition(line), partial_twin(line)]).flatten().collect();
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

fn definition(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => text,
    };
    let (keyword, rest) = text.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::super::root;
    use super::*;

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
}
