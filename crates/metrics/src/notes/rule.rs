//! One rule per note, the search for notes, and the page generated from the rules.

use std::fmt::Write as _;

use super::note::{CheckInput, Note, Severity};
use super::table::{INVALIDATING, RULES};

/// One row: when a note appears, which figures it affects, and what to do.
pub(crate) struct NoteRule {
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    /// Key of the affected figure, or a group of figures.
    pub(crate) figure: &'static str,
    /// Replaces `{}` in `threshold`; also passed to the check.
    pub(crate) limit: f64,
    pub(crate) threshold: &'static str,
    pub(crate) why: &'static str,
    pub(crate) action: &'static str,
    /// Returns what was found, or `None`.
    pub(crate) check: fn(&CheckInput<'_>, f64) -> Option<String>,
}

impl NoteRule {
    /// The threshold with its number. Shares below one are shown in percent.
    fn threshold_text(&self) -> String {
        let number = if self.threshold.contains("{} %") {
            format!("{}", (self.limit * 1e4).round() / 1e2)
        } else {
            format!("{}", self.limit)
        };
        self.threshold.replace("{}", &number)
    }
}

/// All rules, in the order in which notes of one severity are shown.
pub(crate) fn rules() -> impl Iterator<Item = &'static NoteRule> {
    INVALIDATING.iter().chain(RULES)
}

/// All notes of a run, the most severe first.
pub(crate) fn find(evidence: &CheckInput<'_>) -> Vec<Note> {
    let mut notes: Vec<Note> = rules()
        .filter_map(|rule| {
            (rule.check)(evidence, rule.limit).map(|found| Note {
                code: rule.code.to_owned(),
                severity: rule.severity,
                figure: rule.figure.to_owned(),
                found,
                why: rule.why.to_owned(),
                action: rule.action.to_owned(),
            })
        })
        .collect();
    notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    notes
}

/// The content of `docs/notes.md`.
pub fn notes_markdown() -> String {
    let mut page = String::from(
        "# Notes and the verdict\n\n\
         Generated from the program's table of notes; do not edit by hand. The worst note sets the verdict.\n\
         INVALID: the measurement failed. SUSPECT: the figures are correct but do not support the obvious\n\
         conclusion. VALID: no such note. A remark does not change the verdict.\n\n\
         | note | severity | affects | appears when | why | what to do |\n|---|---|---|---|---|---|\n",
    );
    for rule in rules() {
        let NoteRule { code, figure, why, action, .. } = rule;
        let (severity, threshold) = (rule.severity.name(), rule.threshold_text());
        // Writing to a string cannot fail.
        let _ =
            writeln!(page, "| `{code}` | {severity} | {figure} | {threshold} | {why} | {action} |");
    }
    page
}
