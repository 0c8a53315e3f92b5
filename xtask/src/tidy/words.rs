//! Words that the project does not use, in pages, messages and comments.
//!
//! Readers know the field's terms and often read English as a second language. Each phrase here was
//! once ours and has a usual term instead. CONTRIBUTING.md has the rules under *Words*.

use super::SourceFile;

/// A phrase and what to write instead. Compared word by word, in any case.
const PHRASES: [(&str, &str); 24] = [
    ("guessed tokens", "draft tokens"),
    ("for want of", "because … ran out"),
    ("engines of their own", "disaggregated engines"),
    ("met a fault", "internal error"),
    ("fault of its own", "internal error"),
    ("whose rules", "which tool's conventions"),
    ("stands above", "see … above"),
    ("stand above", "see … above"),
    ("is there already", "skipping …: already measured"),
    ("spoke up", "fired"),
    ("speaks up", "fires"),
    ("in vain", "failed"),
    ("sees to it", "ensures"),
    ("falls upon", "is distributed over"),
    ("fall upon", "are distributed over"),
    ("for good", "permanently"),
    ("torn", "truncated"),
    ("mend", "repair"),
    ("mends", "repairs"),
    ("mended", "repaired"),
    ("patience", "timeout"),
    ("anew", "again"),
    ("befalls", "happens to"),
    ("betrays", "shows"),
];

/// What does not do what people do.
const PROGRAMS: [&str; 12] = [
    "client", "clients", "engine", "kernel", "machine", "program", "proxy", "run", "runs",
    "server", "servers", "tool",
];
/// Verbs of people, and what programs do instead.
const HUMAN_VERBS: [(&str, &str); 11] = [
    ("meets", "reaches, reads or hits"),
    ("met", "reached, read or hit"),
    ("tells", "reports"),
    ("told", "reported"),
    ("wishes", "requests"),
    ("rests", "waits"),
    ("guesses", "estimates"),
    ("guessed", "estimated"),
    ("believes", "trusts"),
    ("hears", "receives"),
    ("heard", "received"),
];

/// Phrases outside the field's terms. `pages` are names and texts of documentation.
pub(super) fn outside_the_terms(sources: &[SourceFile], pages: &[(String, String)]) -> Vec<String> {
    let is_table = |source: &&SourceFile| !source.path.ends_with("xtask/src/tidy/words.rs");
    let code = sources.iter().filter(is_table).map(|source| (source.show(), source.text.as_str()));
    let pages = pages.iter().map(|(name, text)| (name.clone(), text.as_str()));
    let mut findings = Vec::new();
    for (name, text) in code.chain(pages) {
        for (number, line) in (1..).zip(text.lines()) {
            let found = problems(line);
            findings.extend(found.into_iter().map(|what| format!("{name}:{number}: {what}")));
        }
    }
    findings
}

fn problems(line: &str) -> Vec<String> {
    let lower = line.to_lowercase();
    let words: Vec<&str> =
        lower.split(|letter: char| !letter.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let says = |phrase: &str, instead: &str| format!("says `{phrase}`; write `{instead}`");
    let mut found = Vec::new();
    for (phrase, instead) in PHRASES {
        let parts: Vec<&str> = phrase.split(' ').collect();
        if words.windows(parts.len()).any(|window| window == parts) {
            found.push(says(phrase, instead));
        }
    }
    for pair in words.windows(2) {
        let verb = HUMAN_VERBS.iter().find(|(verb, _)| *verb == pair[1]);
        if let Some((verb, instead)) = verb.filter(|_| PROGRAMS.contains(&pair[0])) {
            found.push(says(&format!("{} {verb}", pair[0]), instead));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_word_by_word_in_any_case() {
        let check = |line: &str, expected: usize| {
            assert_eq!(problems(line).len(), expected, "{line}: {:?}", problems(line));
        };
        check("/// Guessed tokens that a step checks.", 1);
        check("Mend the torn end of a record first", 2);
        check("the program met a fault of its own", 3);
        check("the server tells its version", 1);
        check("its own message stands above", 1);
        check("a recommended amendment, mental models", 0);
        check("the client reads, sends, times out and reports", 0);
        check("the figures that the runs have met", 0);
    }

    #[test]
    fn pages_are_read_with_their_line_numbers() {
        let page = ("docs/x.md".to_owned(), "# Title\n\nPoint 3 is there already.\n".to_owned());
        let found = outside_the_terms(&[], &[page]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/x.md:3: says `is there already`"), "{found:?}");
    }
}
