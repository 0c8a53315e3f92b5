//! A line of a report in any spelling: as a cell of a table, an item of a list, behind a quote mark.

use super::decimal::DecimalMark;
use super::labels::{self, Label, SectionTitle};
use super::lines::TextLine;
use super::number::{self, Reading};
use crate::model::{Field, Key, Metric};

/// A labelled value, read or not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LooseValue<'a> {
    /// What the label stands for.
    pub(super) meaning: Label,
    /// The label as it stands.
    pub(super) label: &'a str,
    /// What stands where the value should be.
    pub(super) text: &'a str,
    /// The value; `None` when it cannot be read.
    pub(super) reading: Option<Reading>,
}

/// Vertical bars of tables.
pub(super) fn is_bar(letter: char) -> bool {
    matches!(letter, '|' | '│' | '┃' | '║' | '¦')
}

/// Marks that quotations, lists, comments and emphasis put around a text.
fn is_around(letter: char) -> bool {
    letter.is_whitespace() || is_bar(letter) || "#>*-•+/;`\"_~".contains(letter)
}

fn trimmed(text: &str) -> &str {
    text.trim_matches(is_around)
}

/// A label and what follows it, as a value.
pub(super) fn value<'a>(label: &'a str, meaning: Label, text: &'a str) -> LooseValue<'a> {
    let text = text.trim().trim_end_matches(|letter| is_bar(letter) || letter == ' ');
    let reading = number::read(meaning, DecimalMark::Unknown, text);
    LooseValue { meaning, label, text, reading }
}

impl LooseValue<'_> {
    /// Whether this is a count, the duration or a throughput, in the exact spelling of a layout.
    fn is_of_run(&self, line: &TextLine<'_>) -> bool {
        let is_known = matches!(
            self.meaning.key,
            Key::Field(
                Field::Successful
                    | Field::Failed
                    | Field::Duration
                    | Field::InputTokens
                    | Field::OutputTokens
                    | Field::RequestThroughput
                    | Field::InputThroughput
                    | Field::OutputThroughput
                    | Field::TotalThroughput
            )
        );
        is_known && labels::start_of_printed(line.text) == Some(0)
    }

    /// Reads it again, in a block whose decimals stand behind this mark.
    pub(super) fn read_with(&mut self, mark: DecimalMark) {
        if mark != DecimalMark::Unknown && self.text.contains(['.', ',']) {
            self.reading = number::read(self.meaning, mark, self.text);
        }
    }
}

/// The value of this line; `None` when it has no known label.
pub(super) fn read(text: &str, section: Option<Metric>) -> Option<LooseValue<'_>> {
    by_cells(text, section)
        .or_else(|| by_separator(text, section))
        .or_else(|| by_blanks(text, section))
}

/// `| Mean TTFT (ms) | 463.85 |`, or the same with tabs.
fn by_cells(text: &str, section: Option<Metric>) -> Option<LooseValue<'_>> {
    let is_edge = |letter: char| is_bar(letter) || letter == '\t';
    if !text.contains(is_edge) {
        return None;
    }
    let mut cells = text.split(is_edge).filter(|cell| !cell.trim().is_empty());
    while let Some(cell) = cells.next() {
        let name = trimmed(cell);
        if let Some(found) = labels::label(name, section) {
            return Some(value(name, found, cells.next()?));
        }
    }
    None
}

/// `Mean TTFT (ms): 463.85`, where a prefix may have colons of its own, or with an equals sign.
fn by_separator(text: &str, section: Option<Metric>) -> Option<LooseValue<'_>> {
    let mut begin = 0;
    for (at, sign) in text.match_indices([':', '=', '：']) {
        let name = trimmed(&text[begin..at]);
        begin = at + sign.len();
        if let Some(found) = labels::label(name, section) {
            // `**Mean TTFT (ms):** 463.85` closes its emphasis behind the colon.
            return Some(value(name, found, text[begin..].trim_start_matches(['*', '_', '`'])));
        }
    }
    None
}

/// `Mean TTFT (ms)      463.85`: two blanks part the columns.
fn by_blanks(text: &str, section: Option<Metric>) -> Option<LooseValue<'_>> {
    let text = text.trim_start_matches(is_around);
    let (name, rest) = text.split_once("  ")?;
    let name = trimmed(name);
    let found = labels::label(name, section)?;
    Some(value(name, found, rest))
}

/// The title of a line that opens a section: `-----Time to First Token-----`. Empty for a bare rule.
pub(super) fn rule_title(text: &str) -> Option<&str> {
    let is_fill = |letter: char| matches!(letter, '-' | '=' | '─' | '━' | '═');
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || is_corner(letter));
    let inner = text.trim_start_matches(is_fill);
    let title = inner.trim_end_matches(is_fill);
    let fills = |longer: &str, shorter: &str| longer.chars().count() - shorter.chars().count();
    let is_rule = fills(text, inner) >= 3 && (title.is_empty() || fills(inner, title) >= 3);
    (is_rule && !is_table_rule(text)).then(|| title.trim())
}

/// Whether this is the line below the head of a table, `|---|:---:|`, which opens no section.
pub(super) fn is_table_rule(text: &str) -> bool {
    let is_line = |letter: char| matches!(letter, '-' | '=' | '─' | '━' | '═' | ':' | ' ' | '\t');
    let inside = text.trim_matches(|letter: char| is_line(letter) || is_corner(letter));
    let columns = text.trim().trim_matches(is_corner);
    inside.is_empty() && columns.contains(is_corner)
}

/// Corners and edges of drawn boxes.
pub(super) fn is_corner(letter: char) -> bool {
    is_bar(letter) || matches!(letter, '+' | '\u{250c}'..='\u{254b}' | '\u{2552}'..='\u{256c}')
}

/// A line with what is known of it whatever the layout.
#[derive(Debug, Clone)]
pub(super) struct KnownLine<'a> {
    pub(super) line: TextLine<'a>,
    /// Which section it stands in, from zero.
    pub(super) section: usize,
    /// It stands in a section that no layout has, and is carried as it is.
    pub(super) is_carried: bool,
    pub(super) value: Option<LooseValue<'a>>,
    /// The value of a carried line, if it may be one of the whole run.
    pub(super) in_other_section: Option<LooseValue<'a>>,
}

/// The lines of a block, each in its section.
pub(super) fn known_lines<'a>(lines: &[TextLine<'a>]) -> Vec<KnownLine<'a>> {
    let mut title = SectionTitle::Known(None);
    let mut section = 0;
    // A second part of the report, as of the steady state, has rows with the labels of the first.
    let mut is_first_part = true;
    let known = |line: &TextLine<'a>| {
        if let Some(words) = rule_title(line.text) {
            title = labels::title(words);
            section += 1;
            is_first_part &= words.is_empty() || !line.text.contains("==");
        } else if let Some(words) = heading(line.text) {
            title = words;
        }
        let value = match title {
            SectionTitle::Known(metric) => read(line.text, metric),
            SectionTitle::Unknown => None,
        };
        // A tool's own section may stand before rows that every report has; their exact labels show them.
        let is_carried = title == SectionTitle::Unknown;
        let in_other_section = Some(line.text)
            .filter(|_| is_carried && is_first_part)
            .and_then(|text| read(text, None))
            .filter(|value| value.is_of_run(line));
        KnownLine { line: *line, section, is_carried, value, in_other_section }
    };
    let mut found: Vec<KnownLine<'a>> = lines.iter().map(known).collect();
    let mark = decimal_mark(&found);
    for known in &mut found {
        for value in known.value.iter_mut().chain(&mut known.in_other_section) {
            value.read_with(mark);
        }
    }
    found
}

/// The mark before the decimals of a block.
pub(super) fn decimal_mark(lines: &[KnownLine<'_>]) -> DecimalMark {
    DecimalMark::of(lines.iter().filter_map(|known| Some(known.value.as_ref()?.text)))
}

/// A Markdown heading or an emphasised line that names a metric: `### Time to First Token`.
fn heading(text: &str) -> Option<SectionTitle> {
    let words = text.trim();
    let is_marked = words.starts_with('#') || (words.starts_with("**") && words.ends_with("**"));
    let found = labels::title(words.trim_matches(['#', '*', ' ', ':']));
    (is_marked && matches!(found, SectionTitle::Known(Some(_)))).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Stat;

    #[test]
    fn one_value_is_read_in_every_frame() {
        for text in [
            "Mean TTFT (ms):                          463.85    ",
            "mean ttft (ms): 463.85",
            "> - **Mean TTFT (ms):** 463.85",
            "| Mean TTFT (ms) | 463.85 |",
            "│ Mean TTFT (ms) │ 463.85 │",
            "║ Mean TTFT (ms):      463.85   ║",
            "Mean TTFT (ms)\t463.85",
            "Mean TTFT (ms)        463.85",
            "// Mean TTFT (ms): 463.85",
            "mean_ttft_ms = 463.85",
            "x[3]: Mean TTFT: 463.85 ms",
            "* `Mean TTFT` : 0.46385 s",
        ] {
            let found = read(text, None).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(found.meaning.key, Key::Latency(Metric::Ttft, Stat::Mean), "{text}");
            let number = found.reading.and_then(|read| read.scalar.as_f64()).unwrap();
            assert!((number - 463.85).abs() < 1e-9, "{text}");
        }
        assert_eq!(read("no label here: 5", None), None);
    }

    #[test]
    fn rules_are_told_from_text() {
        assert_eq!(rule_title("-----Time to First Token-----"), Some("Time to First Token"));
        assert_eq!(rule_title("║ ──── Throughput ──── ║"), Some("Throughput"));
        assert_eq!(rule_title("--------"), Some(""));
        for text in [
            "|---|---|",
            "|:---:|---:|",
            "+----+----+",
            "- item",
            "---- open",
            "text ----",
            "",
            "--flag--",
        ] {
            assert_eq!(rule_title(text), None, "{text}");
        }
    }
}
