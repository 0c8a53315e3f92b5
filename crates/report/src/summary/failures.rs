//! The failures of a run by cause: how many, and one example each.

use tokometer_figures::Summary;
use tokometer_figures::summary::FailureGroup;
use tokometer_record::FailureKind;

use super::{LABEL, SummaryPage, WIDTH, count, line};
use crate::style::Tone;

/// Bytes of a server's error body that are shown.
const BODY_SHOWN: usize = 300;

impl SummaryPage<'_> {
    pub(super) fn failures(&self) -> Vec<String> {
        let groups = self.summary.failures.iter();
        groups.map(|group| line("failed", &failure_text(group))).collect()
    }

    /// The same within the width of a terminal.
    pub(super) fn wrapped_failures(&self) -> Vec<String> {
        let wrap = |group: &FailureGroup| {
            let cause = failure_cause(group);
            let mut lines = wrapped(&failure_text(group), WIDTH - LABEL).into_iter();
            let first = lines.next().unwrap_or_default();
            let first = first.replacen(&cause, &self.style.paint(Tone::Bad, &cause), 1);
            let rest = lines.map(|text| line("", &text));
            std::iter::once(line("failed", &first)).chain(rest).collect::<Vec<_>>()
        };
        self.summary.failures.iter().flat_map(wrap).collect()
    }
}

/// How many failed of what.
fn failure_cause(group: &FailureGroup) -> String {
    let number = count(group.count);
    match (group.kind, group.status) {
        (FailureKind::Status, Some(status)) => format!("{number} × status {status}"),
        (kind, Some(status)) => format!("{number} × {} (status {status})", kind.describe()),
        (kind, None) => format!("{number} × {}", kind.describe()),
    }
}

/// One cause of failures with its count and an example, on one line.
pub(super) fn failure_text(group: &FailureGroup) -> String {
    let body = shortened(&group.example, BODY_SHOWN);
    let cause = failure_cause(group);
    if body.is_empty() { cause } else { format!("{cause}: {body}") }
}

/// The causes of a run's failures, most frequent first, in lines of a terminal's width.
pub fn failure_lines(summary: &Summary) -> Vec<String> {
    let indented = |group: &FailureGroup| {
        let lines = wrapped(&failure_text(group), WIDTH - 4);
        let lines = lines.into_iter().enumerate();
        lines
            .map(|(number, line)| format!("{}{line}", if number == 0 { "  " } else { "    " }))
            .collect::<Vec<_>>()
    };
    summary.failures.iter().flat_map(indented).collect()
}

/// Text in lines of at most `width` characters, broken between words where there are any.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let fits = lines.last().is_some_and(|line| line.chars().count() + 1 + word.len() <= width);
        if let Some(line) = lines.last_mut().filter(|_| fits) {
            line.push(' ');
            line.extend(word);
            continue;
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        lines.push(word.into_iter().collect());
    }
    lines
}

/// The first bytes of a server's body on one line.
fn shortened(text: &str, limit: usize) -> String {
    let end = text.floor_char_boundary(limit);
    let flat = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    if end < text.len() { flat + " …" } else { flat }
}

#[cfg(test)]
mod tests {
    use super::super::print_summary;
    use super::*;
    use crate::style::Style;
    use crate::testing::{info, summary};

    #[test]
    fn causes_of_failure_fit_a_terminal_and_lose_nothing() {
        let group = |kind, status, count, example: &str| FailureGroup {
            kind,
            status,
            count,
            example: example.to_owned(),
        };
        let long = "the server answered with an HTML page (title: 502 Bad Gateway), not an API \
                    response; check `--base-url` and `--endpoint`";
        let failures = vec![
            group(FailureKind::Status, Some(502), 1_200, long),
            group(FailureKind::Cut, Some(200), 3, "the stream ended without its end marker"),
            group(FailureKind::Connect, None, 1, &"x".repeat(200)),
        ];
        let run = Summary { failures, ..summary() };
        let text = print_summary(&run, &info(), None, Style::default());
        let shown: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with("failed "))
            .take_while(|line| line.starts_with("failed ") || line.starts_with("    "))
            .collect();
        assert!(shown.iter().all(|line| line.chars().count() <= WIDTH), "{shown:#?}");
        let joined: Vec<&str> = shown.iter().flat_map(|line| line.split_whitespace()).collect();
        assert!(joined.join(" ").starts_with(&format!("failed 1,200 × status 502: {long}")));
        assert!(text.contains("3 × the response was cut off (status 200): the stream"), "{text}");
        assert!(failure_lines(&run).iter().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn long_bodies_are_cut_at_a_character() {
        assert_eq!(shortened("a\n b", 300), "a b");
        assert_eq!(shortened("ééé", 3), "é …");
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
