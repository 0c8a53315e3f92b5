//! Commands between backticks in texts and tables. Those that are complete are run once, as those in
//! blocks; the words that a reader fills in are filled.

use std::collections::BTreeMap;

use super::block::Page;
use super::small::{Reader, words};

/// Words that a reader fills in, and what replaces them.
const FILLED: [(&str, &str); 13] = [
    ("A", "old-1"),
    ("B", "new-1"),
    ("FOLDER", "RUN"),
    ("DIR", "RUN"),
    ("BEFORE", "old-1"),
    ("THIS", "new-1"),
    ("SWEEP", "sweep-tp4"),
    ("SWEEP_A", "sweep-tp4"),
    ("SWEEP_B", "sweep-tp8"),
    ("PATH", "server.sock"),
    ("NOTE", "late-sends"),
    ("first", "RUN"),
    ("sweep", "sweep-tp4"),
];

/// Commands that are only parsed, by a part of them, and why.
const PARSED_ONLY: [(&str, &str); 3] = [
    ("tokometer merge", "needs shards without a merged run; e2e/tests/it/shards.rs merges them"),
    ("tokometer help", "is run by e2e/tests/it/help.rs"),
    ("COMMAND", "is run by e2e/tests/it/help.rs"),
];

/// A command that says all that it needs, filled in. `None` for a name and for one with an ellipsis.
fn complete(command: &str) -> Option<String> {
    let is_parsed_only = PARSED_ONLY.iter().any(|(part, _)| command.contains(part));
    if is_parsed_only || command.contains('…') || command.split(' ').count() < 3 {
        return None;
    }
    let mut words = words(command);
    for at in 0..words.len() {
        let before = at.checked_sub(1).map_or("", |before| words[before].as_str());
        let filled = FILLED.iter().find(|(word, _)| *word == words[at]).map(|(_, value)| *value);
        let filled = filled.or(match words[at].as_str() {
            "FILE" if before.starts_with("--") => Some("written.out"),
            "FILE" => Some("report.txt"),
            "NAME" if before == "--backend" => Some("openai"),
            "NAME" => Some("default"),
            _ => None,
        });
        if let Some(filled) = filled {
            filled.clone_into(&mut words[at]);
        }
    }
    Some(words.join(" "))
}

/// Runs the complete commands of these pages, each once, and returns those that fail.
pub(super) fn failures(pages: &[Page]) -> Vec<String> {
    let mut origins: BTreeMap<String, String> = BTreeMap::new();
    // The help of the command line has examples too, of which other pages have the same.
    for page in pages.iter().filter(|page| page.name != "docs/cli.md") {
        for (line, command) in page.commands_in_text() {
            if let Some(command) = complete(&command) {
                let _ = origins.entry(command).or_insert_with(|| format!("{}:{line}", page.name));
            }
        }
    }
    let mut reader = Reader::new();
    origins.iter().filter_map(|(command, origin)| reader.failure(command, origin)).collect()
}

#[test]
fn complete_commands_between_backticks_work() {
    let failures = failures(&super::all_pages());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn a_complete_command_has_flags_and_files() {
    let check = |command: &str, expected: Option<&str>| {
        assert_eq!(complete(command).as_deref(), expected, "{command}");
    };
    check("tokometer compare", None);
    check("tokometer capacity --slo …", None);
    check("tokometer report FOLDER", Some("tokometer report RUN"));
    check("tokometer doctor FILE", Some("tokometer doctor report.txt"));
    check(
        "tokometer report DIR --parquet FILE",
        Some("tokometer report RUN --parquet written.out"),
    );
    check("tokometer predict --engine NAME", Some("tokometer predict --engine default"));
    check("tokometer bench --backend NAME -n 4", Some("tokometer bench --backend openai -n 4"));
    check("tokometer merge RUN --overwrite", None);
}

/// A reason that no command has any more hides a command that could be run.
#[test]
fn every_reason_to_parse_only_has_a_command() {
    let pages = super::all_pages();
    let commands: Vec<String> = pages
        .iter()
        .flat_map(|page| page.commands_in_text().into_iter().map(|(_, command)| command))
        .collect();
    for (part, why) in PARSED_ONLY {
        assert!(commands.iter().any(|command| command.contains(part)), "remove `{part}`");
        let file = why.split_whitespace().find(|word| word.contains('/'));
        assert!(file.is_none_or(|file| crate::program::root().join(file).exists()), "{why}");
    }
}
