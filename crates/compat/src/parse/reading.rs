//! Reads the lines of a block by their labels, and finds the layout that fits best.

use tokometer_base::printable;

use super::labels::{MAIN, Meanings, TAIL, tables};
use super::text::TextLine;
use crate::layout::Layout;
use crate::layout::table::{Element, Format, LayoutTable, When, centred, label_of};
use crate::model::{Field, Key, Scalar, UnreadValue, Value, Values};

#[derive(Debug, Default)]
pub(super) struct Reading<'a> {
    pub(super) values: Values,
    pub(super) unread: Vec<UnreadValue>,
    /// Line on which a value stands for the second time, differently.
    pub(super) repeated: Option<usize>,
    /// Lines that look like a label with a number, and have a label that no layout has.
    pub(super) unknown: Vec<usize>,
    /// Known labels and rules as they stand.
    seen: Vec<&'a str>,
}

const SUCCESSFUL: Key = Key::Field(Field::Successful);

pub(super) fn read<'a>(lines: &[TextLine<'a>]) -> Reading<'a> {
    let mut found = Reading::default();
    let mut vocabulary = &*MAIN;
    let mut is_carried = false;
    for line in lines {
        if is_tail_header(line.text) {
            vocabulary = &*TAIL;
        } else if let Some(title) = rule_title(line.text) {
            // A section that no layout has, as of a warm-up, is carried as it is.
            is_carried = !title.is_empty() && !vocabulary.has_title(title);
            found.seen.push(line.text.trim_end());
        } else if !is_carried {
            match labelled(line.text).map(|parts| (parts, vocabulary.meanings(parts.label))) {
                Some((parts, meanings)) if !meanings.is_empty() => {
                    found.seen.push(parts.label);
                    found.take(line.number, parts, meanings);
                }
                _ if is_labelled_number(line.text) => found.unknown.push(line.number),
                _ => {}
            }
        }
    }
    found
}

impl Reading<'_> {
    /// Takes a value. One label may belong to two fields that differ in format: the unfilled one is used.
    pub(super) fn take(&mut self, line: usize, parts: Labelled<'_>, meanings: Meanings) {
        let Labelled { label, text } = parts;
        let readable = |(key, format): (Key, Format)| {
            let value = Value::printed(read_value(format, text)?, text);
            let unit = if format == Format::Seconds { 1e3 } else { 1.0 };
            Some((key, Value { half_unit: value.half_unit * unit, ..value }))
        };
        let mut is_readable = false;
        let is_of_requests = meanings.iter().any(|(key, _)| *key == SUCCESSFUL);
        for (key, value) in meanings.into_iter().filter_map(readable) {
            let Some(earlier) = self.values.get(key) else {
                return self.values.set(key, value);
            };
            if earlier.text.as_deref() == Some(text) {
                return;
            }
            is_readable = true;
        }
        if is_of_requests && self.take_share(text) {
            return;
        }
        if is_readable {
            self.repeated = self.repeated.or(Some(line));
        } else {
            let label = printable::short(label.trim().trim_end_matches(':'));
            self.unread.push(UnreadValue { line, label, text: printable::short(text) });
        }
    }

    /// `Successful requests: 18/20`, as SGLang prints it for diffusion models: 2 have failed.
    fn take_share(&mut self, text: &str) -> bool {
        let count = |text: &str| text.trim().parse::<u64>().ok();
        let counts = text.split_once('/').and_then(|(some, all)| count(some).zip(count(all)));
        let Some((successful, all)) = counts.filter(|(some, all)| some <= all) else {
            return false;
        };
        self.values.set(SUCCESSFUL, Value::printed(Scalar::Count(successful), text));
        let failed = all - successful;
        // As a line of its own would have it: one that agrees is no second value.
        let failed = Value::printed(Scalar::Count(failed), &failed.to_string());
        self.values.set(Key::Field(Field::Failed), failed);
        true
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Labelled<'a> {
    /// With its colon, as the layouts have it.
    pub(super) label: &'a str,
    pub(super) text: &'a str,
}

/// Characters around a value that belong to a table, a quotation or an emphasis.
fn is_mark(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '|' | '│' | '`' | '*' | ',')
}

/// `Mean TTFT (ms): 463.85`, also with an equals sign, or as two cells of a table.
pub(super) fn labelled(text: &str) -> Option<Labelled<'_>> {
    let is_before = |letter: char| is_mark(letter) || letter == '>';
    let begin = text.len() - text.trim_start_matches(is_before).len();
    let at = begin + text[begin..].find([':', '=', '|', '\t'])?;
    let (label, text) = text.split_at(at + 1);
    Some(Labelled { label, text: text.trim_matches(is_mark) })
}

/// The value of a text in this format, also with separated thousands.
fn read_value(format: Format, text: &str) -> Option<Scalar> {
    format.read(text).or_else(|| {
        let (whole, _) = text.split_once('.').unwrap_or((text, ""));
        let mut groups = whole.split(',');
        let is_grouped = groups.next().is_some_and(|first| (1..=3).contains(&first.len()))
            && groups.all(|group| group.len() == 3);
        format.read(&text.replacen(',', "", whole.len())).filter(|_| is_grouped)
    })
}

/// `Temps moyen : 12`: words, a colon, a blank and a number. Times and line numbers of code (`a.py:12`) have no
/// blank there.
pub(super) fn is_labelled_number(text: &str) -> bool {
    let Some((label, value)) = text.rsplit_once(':') else { return false };
    let number = value.trim();
    number.len() < value.len()
        && label.contains(char::is_alphabetic)
        && number.starts_with(|letter: char| letter.is_ascii_digit())
        && !number.contains(char::is_whitespace)
}

/// The title of a line that opens a section: `-----Time to First Token-----`. Empty for a bare rule.
pub(super) fn rule_title(text: &str) -> Option<&str> {
    let is_fill = |letter: char| matches!(letter, '-' | '=');
    let text = text.trim_matches(is_mark);
    let inner = text.trim_start_matches(is_fill);
    let title = inner.trim_end_matches(is_fill);
    let (left, right) = (text.len() - inner.len(), inner.len() - title.len());
    let is_titled = right >= 3 && title.contains(char::is_alphanumeric);
    (left >= 3 && (title.is_empty() || is_titled)).then(|| title.trim())
}

pub(super) fn is_tail_header(text: &str) -> bool {
    let mut tails = tables().filter_map(|(_, table)| table.tail);
    tails.any(|tail| text.trim_end() == centred(tail.title, '=', tail.widths.header))
}

/// The layout that has the most of what was seen, lacks the fewest values, and misses the fewest lines
/// that it always prints; of those as wide as the header, where there are any.
pub(super) fn layout_of(found: &Reading<'_>, width: usize) -> Option<Layout> {
    let is_as_wide = |table: &LayoutTable| table.widths.header == width;
    let has_width = tables().any(|(_, table)| is_as_wide(table));
    let distance = |table: &LayoutTable| {
        let unknown = found.seen.iter().filter(|text| !has_line(table, text)).count();
        let lacking = found.values.iter().filter(|(key, _)| label_of(table, *key).is_none());
        (unknown, lacking.count(), missing(table.rows, &found.values))
    };
    let fitting = tables().filter(|(_, table)| !has_width || is_as_wide(table));
    fitting.min_by_key(|(_, table)| distance(table)).map(|(layout, _)| layout)
}

fn has_line(table: &LayoutTable, text: &str) -> bool {
    let has = |rows: &[Element], width| rows.iter().any(|row| is_line(row, text, width));
    let in_tail = table.tail.is_some_and(|tail| has(tail.rows, tail.widths.rule));
    in_tail || has(table.rows, table.widths.rule)
}

/// Whether this is the label of a line or the rule of a section.
fn is_line(row: &Element, text: &str, rule_width: usize) -> bool {
    // Looks at the first byte first: most lines are no rules.
    let is_rule = |title, width| text.starts_with('-') && text == centred(title, '-', width);
    match row {
        Element::Line(line) => line.label == text,
        Element::Latency(section) => {
            section.stat(text).is_some() || is_rule(section.title.unwrap_or_default(), rule_width)
        }
        Element::Section { title, width, rows } => {
            is_rule(title, *width) || rows.iter().any(|row| is_line(row, text, rule_width))
        }
        Element::Shared(rows) => rows.iter().any(|row| is_line(row, text, rule_width)),
        Element::Positions { .. } => text.starts_with("  Position "),
        Element::Rule => is_rule("", rule_width),
    }
}

/// Lines that the layout always prints and that are not there. A generation run that shows no
/// section at all is unusual but possible, so sections do not count.
fn missing(rows: &[Element], values: &Values) -> usize {
    let of = |row: &Element| match row {
        Element::Line(line) if line.when == When::Always => {
            usize::from(values.get(Key::Field(line.field)).is_none())
        }
        Element::Shared(rows) => missing(rows, values),
        _ => 0,
    };
    rows.iter().map(of).sum()
}
