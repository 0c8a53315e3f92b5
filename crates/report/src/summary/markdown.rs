//! The summary as Markdown, for an issue or a page of a wiki.
//!
//! The same facts in the same order as the text: what stands in columns there is a table here, what has
//! a label there is an item of a list.

use tokometer_figures::Summary;
use tokometer_record::RunInfo;

use super::{LABEL, SummaryPage};
use crate::style::Style;

pub fn summary_markdown(summary: &Summary, info: &RunInfo) -> String {
    let page = SummaryPage { summary, info, style: Style::default() };
    let mut parts = Vec::new();
    for (number, line) in page.head().iter().enumerate() {
        let mark = if number == 0 { "## " } else { "" };
        parts.push(format!("{mark}{}", escaped(line)));
    }
    parts.push(format!("**{}**", escaped(&page.verdict())));
    let items = [
        page.requests(),
        page.throughput().into_iter().collect(),
        page.tokens().into_iter().collect(),
    ];
    parts.push(list(&items.concat()));
    let latencies = page.latency_grid(escaped);
    if !latencies.is_empty() {
        parts.push(latencies.markdown().trim_end().to_owned());
    }
    let explained = page.doubts().into_iter().chain(page.affected_items());
    parts.push(list(&explained.collect::<Vec<_>>()));
    let intervals = page.interval_grid(escaped);
    if !intervals.is_empty() {
        parts.push(intervals.markdown().trim_end().to_owned());
    }
    let lines = [page.goodput(), page.steady(), page.ttft_split(), page.steps(), page.server()];
    let more = [page.server_ttft(), page.speculation(), page.gpu()];
    let lines: Vec<String> =
        lines.into_iter().chain(more).flatten().chain(page.failures()).collect();
    parts.push(list(&lines));
    let note = |note: &tokometer_figures::Note| {
        let advice =
            if note.action.is_empty() { String::new() } else { format!("; {}", note.action) };
        format!(
            "- `{}` {}: {}",
            note.code,
            escaped(&note.found),
            escaped(&(note.why.clone() + &advice))
        )
    };
    parts.push(summary.notes.iter().map(note).collect::<Vec<_>>().join("\n"));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

/// Lines that begin with a label of fixed width, as items.
fn list(lines: &[String]) -> String {
    let item = |line: &String| {
        // Labels are of plain letters, so the cut falls between characters.
        let (label, text) = line.split_at_checked(LABEL).unwrap_or((line, ""));
        format!("- **{}** {}", label.trim(), escaped(text))
    };
    lines.iter().map(item).collect::<Vec<_>>().join("\n")
}

/// Characters that Markdown would take for its own.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '|' | '*' | '_' | '<' | '>' | '`' | '\\' | '[' | ']') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{info, summary};

    #[test]
    fn a_fixed_run_s_summary_in_markdown() {
        insta::assert_snapshot!("markdown", summary_markdown(&summary(), &info()));
    }

    #[test]
    fn an_empty_run_has_no_table_and_no_empty_items() {
        let text = summary_markdown(&Summary::default(), &info());
        assert!(!text.contains("| ms |") && !text.contains("****"), "{text}");
    }
}
