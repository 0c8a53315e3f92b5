//! Reads the lines of a block by a layout's table, and finds the layout that fits best.

use std::collections::{BTreeMap, BTreeSet};

use tokometer_base::printable;

use super::blocks::TextBlock;
use super::decimal::DecimalMark;
use super::labels::{Label, tables};
use super::lines::TextLine;
use super::loose::{KnownLine, LooseValue, decimal_mark, known_lines};
use super::number;
use crate::layout::Layout;
use crate::layout::print::label_of;
use crate::layout::table::{Element, Format, LayoutTable, When, centred};
use crate::model::{Blanks, Key, PrintedLine, Problem, Scalar, UnreadValue, Value, Values};

/// What a line is to a layout.
#[derive(Debug, Clone, PartialEq)]
enum LineMatch<'a> {
    /// A value with its text.
    Value(Key, Scalar, &'a str),
    /// A rule or a bare line of the layout.
    Rule,
    /// A known label whose value cannot be read.
    Bad { label: &'a str, text: &'a str },
    /// Not a line of this layout.
    Unknown,
}

/// A block read by one layout.
#[derive(Debug)]
pub(super) struct Fit {
    pub(super) layout: Layout,
    mark: DecimalMark,
    pub(super) values: Values,
    pub(super) printed: Vec<PrintedLine>,
    pub(super) blanks: Blanks,
    /// Line on which a value stands for the second time, differently.
    pub(super) repeated: Option<usize>,
    pub(super) unread: Vec<UnreadValue>,
    /// Lines that look like a label with a number, and have a label that no layout has.
    pub(super) unknown_lines: Vec<usize>,
    /// The first line below a section of no layout whose value was taken for one of the whole run.
    pub(super) in_other_section: Option<usize>,
    /// Latencies that were converted to milliseconds.
    pub(super) other_unit: Option<Problem>,
    /// Lines whose values the layout did not give, by their index in the block.
    left: Vec<usize>,
    /// Labels of the layout whose values it could not read.
    bad: Vec<(usize, UnreadValue)>,
    unknown: usize,
    lacking: usize,
    missing: usize,
}

/// The block in the layout that leaves the fewest lines unread, and among those misses the fewest
/// that the layout always prints. `None` when no layout reads any line.
pub(super) fn best_fit(block: &TextBlock<'_>) -> Option<Fit> {
    let lines = known_lines(&block.lines);
    let mark = decimal_mark(&lines);
    let is_as_wide = |table: &LayoutTable| table.widths.header == block.width;
    let has_width = tables().any(|(_, table)| is_as_wide(table));
    let fits = tables()
        .filter(|(_, table)| !has_width || is_as_wide(table))
        .map(|(layout, table)| fit(&lines, mark, layout, table));
    let mut best = fits.min_by_key(|fit| (fit.unknown, fit.lacking, fit.missing))?;
    best.add_loose_values(&lines);
    best.add_values_of_other_sections(&lines);
    best.other_unit = other_unit(&lines);
    let has_anything = !best.values.is_empty() || !best.unread.is_empty();
    has_anything.then_some(best)
}

/// The layout that has the most of these values and misses the fewest others.
pub(super) fn nearest_layout(values: &Values) -> Option<Layout> {
    let distance = |table: &LayoutTable| {
        let lacking = values.iter().filter(|(key, _)| label_of(table, *key).is_none()).count();
        (lacking, missing(table.rows, |key| values.get(key).is_some()))
    };
    tables().min_by_key(|(_, table)| distance(table)).map(|(layout, _)| layout)
}

/// Whether a line outside of a block can only belong to one: a known label padded to its column, or
/// the rule of a known section.
pub(super) fn is_block_line(text: &str) -> bool {
    let may_be = text.starts_with('-') || text.contains(':');
    may_be
        && tables().any(|(_, table)| {
            table.rows.iter().any(|row| match read_row(row, text, table.widths.rule) {
                LineMatch::Value(_, _, value) => text.find(value).is_some_and(|at| at > 30),
                LineMatch::Rule => true,
                LineMatch::Bad { .. } | LineMatch::Unknown => false,
            })
        })
}

fn fit(lines: &[KnownLine<'_>], mark: DecimalMark, layout: Layout, table: &LayoutTable) -> Fit {
    let mut fit = Fit {
        layout,
        mark,
        values: Values::default(),
        printed: Vec::new(),
        blanks: Blanks::Stripped,
        repeated: None,
        unread: Vec::new(),
        unknown_lines: Vec::new(),
        in_other_section: None,
        other_unit: None,
        left: Vec::new(),
        bad: Vec::new(),
        unknown: 0,
        lacking: 0,
        missing: 0,
    };
    let mut rows = table.rows;
    let mut rule_width = table.widths.rule;
    let mut is_tail = false;
    for (index, known) in lines.iter().enumerate() {
        if let Some(tail) = table.tail
            && known.line.text.trim_end() == centred(tail.title, '=', tail.widths.header)
        {
            (rows, rule_width, is_tail) = (tail.rows, tail.widths.rule, true);
            fit.printed.push(PrintedLine::Rule(known.line.text.trim_end().to_owned()));
            continue;
        }
        if known.is_carried && !is_tail {
            fit.carry(known.line);
        } else if !fit.take(index, known.line, rows, rule_width) && !is_tail {
            fit.left.push(index);
        }
    }
    let seen: BTreeSet<Key> = fit
        .left
        .iter()
        .filter_map(|index| Some(lines[*index].value.as_ref()?.meaning.key))
        .collect();
    fit.lacking = seen.iter().filter(|key| label_of(table, **key).is_none()).count();
    fit.missing = missing(table.rows, |key| fit.values.get(key).is_some() || seen.contains(&key));
    fit
}

impl Fit {
    /// Takes a line by the layout's rows; `false` when it gave neither a value nor a rule.
    fn take(
        &mut self,
        index: usize,
        line: TextLine<'_>,
        rows: &[Element],
        rule_width: usize,
    ) -> bool {
        let mut bad = None;
        let mut is_repeated = false;
        let mut is_differing = false;
        for row in rows {
            match read_row(row, line.text, rule_width) {
                // One label may belong to two fields that differ in format: the unfilled one is used.
                LineMatch::Value(key, _, text) if self.values.get(key).is_some() => {
                    let earlier = self.values.get(key).and_then(|value| value.text.as_deref());
                    is_repeated = true;
                    is_differing |= earlier != Some(text);
                }
                // The layouts have a decimal point: in this block it separates thousands.
                LineMatch::Value(_, _, text)
                    if self.mark == DecimalMark::Comma && text.contains('.') => {}
                LineMatch::Value(key, scalar, text) => {
                    self.note_blanks(line.text);
                    self.values.set(key, Value::printed(scalar, text));
                    self.printed.push(PrintedLine::Value(key));
                    return true;
                }
                LineMatch::Rule => {
                    self.printed.push(PrintedLine::Rule(line.text.trim_end().to_owned()));
                    return true;
                }
                LineMatch::Bad { label, text } => bad = bad.or(Some((label, text))),
                LineMatch::Unknown => {}
            }
        }
        // The footer before a second part, and blank lines, are evidence for no layout.
        let says_nothing = line.text.trim_end().trim_matches('=').is_empty();
        if is_repeated {
            self.repeated = self.repeated.or(Some(line.number).filter(|_| is_differing));
        } else if let Some((label, text)) = bad {
            self.bad.push((index, unread(line, label, text)));
        }
        self.unknown += usize::from(!says_nothing && (bad.is_none() || is_repeated));
        self.printed.push(PrintedLine::Unknown(line.text.to_owned()));
        is_repeated
    }

    fn carry(&mut self, line: TextLine<'_>) {
        self.printed.push(PrintedLine::Unknown(line.text.to_owned()));
    }

    fn note_blanks(&mut self, text: &str) {
        if text.ends_with(' ') {
            self.blanks = Blanks::Kept;
        }
    }

    /// Lines that the layout does not have, or has in another spelling, give their value too,
    /// although they stay as text: many forks print a line more than the tool they were made from.
    /// What cannot be read is kept as text and named.
    fn add_loose_values(&mut self, lines: &[KnownLine<'_>]) {
        let mut bad: BTreeMap<usize, UnreadValue> =
            std::mem::take(&mut self.bad).into_iter().collect();
        for index in std::mem::take(&mut self.left) {
            let KnownLine { line, value, .. } = &lines[index];
            let bad = bad.remove(&index);
            match value {
                Some(LooseValue { meaning: Label { key, .. }, .. })
                    if self.values.get(*key).is_some() => {}
                Some(LooseValue { meaning, text, reading: Some(reading), .. }) => {
                    self.values.set(meaning.key, reading.clone().written(text));
                }
                Some(LooseValue { label, text, reading: None, .. }) => {
                    self.unread.push(unread(*line, label, text));
                }
                None if bad.is_none() && is_labelled_number(line.text) => {
                    self.unknown_lines.push(line.number);
                }
                None => self.unread.extend(bad),
            }
        }
    }
}

/// The unit that labels of latencies name instead of milliseconds.
fn other_unit(lines: &[KnownLine<'_>]) -> Option<Problem> {
    let converted: Vec<(usize, &str)> = lines
        .iter()
        .filter_map(|known| {
            let value = known.value.as_ref().filter(|value| value.reading.is_some())?;
            let is_latency = matches!(value.meaning.key, Key::Latency(..));
            let is_other = value.meaning.unit.is_some_and(|unit| unit != number::MILLIS);
            let unit = value.label.rsplit_once(['(', '['])?.1.split([')', ']']).next()?;
            (is_latency && is_other).then_some((known.line.number, unit))
        })
        .collect();
    let (line, unit) = *converted.first()?;
    Some(Problem::OtherUnit { unit: printable::short(unit), lines: converted.len(), line })
}

impl Fit {
    /// Rows that every report has and that this block has only below a section of no layout. A section
    /// with figures of its own, as of a warm-up, stands beside the run's and gives nothing.
    fn add_values_of_other_sections(&mut self, lines: &[KnownLine<'_>]) {
        let keys = |known: &KnownLine<'_>| {
            Some((known.in_other_section.as_ref()?.meaning.key, known.section))
        };
        let found: Vec<(Key, usize)> = lines.iter().filter_map(keys).collect();
        let is_own = |(key, section): &(Key, usize)| {
            let is_repeated = found.iter().any(|(other, at)| other == key && at != section);
            self.values.get(*key).is_some() || is_repeated
        };
        let beside: BTreeSet<usize> =
            found.iter().filter(|it| is_own(it)).map(|(_, section)| *section).collect();
        for KnownLine { line, section, in_other_section, .. } in lines {
            let Some(LooseValue { meaning, text, reading: Some(reading), .. }) = in_other_section
            else {
                continue;
            };
            if self.values.get(meaning.key).is_none() && !beside.contains(section) {
                self.values.set(meaning.key, reading.clone().written(text));
                self.in_other_section = self.in_other_section.or(Some(line.number));
            }
        }
    }
}

/// `Temps moyen : 12`: words, a colon, a blank and a number. Times and line numbers of code (`a.py:12`) have no
/// blank there.
pub(super) fn is_labelled_number(text: &str) -> bool {
    let Some((label, value)) = text.rsplit_once([':', '：']) else { return false };
    let number = value.trim();
    let is_apart = number.len() < value.len() || text[label.len()..].starts_with('：');
    is_apart
        && label.contains(char::is_alphabetic)
        && number.starts_with(|letter: char| letter.is_ascii_digit())
        && !number.contains(char::is_whitespace)
}

/// A value that cannot be read, with where it stands.
pub(super) fn unread(line: TextLine<'_>, label: &str, text: &str) -> UnreadValue {
    let offset = if text.is_empty() {
        line.text.trim_end().len()
    } else {
        line.text.rfind(text).unwrap_or_default()
    };
    UnreadValue {
        line: line.number,
        column: line.from(offset).column,
        label: printable::short(label.trim().trim_end_matches(':')),
        text: printable::short(text),
    }
}

/// Whether this is the rule with this title. Looks at the first byte first: most lines are no rules.
fn is_rule(text: &str, title: &str, width: usize) -> bool {
    text.starts_with('-') && text.trim_end() == centred(title, '-', width)
}

fn read_row<'a>(row: &Element, text: &'a str, rule_width: usize) -> LineMatch<'a> {
    match row {
        Element::Line(line) => read_value(text, line.label.len(), line.format, |label| {
            (label == line.label).then_some(Key::Field(line.field))
        }),
        Element::Latency(section) => {
            if is_rule(text, section.title.unwrap_or_default(), rule_width) {
                return LineMatch::Rule;
            }
            let end = text.find(" (ms):").map_or(usize::MAX, |at| at + " (ms):".len());
            read_value(text, end, Format::Fixed, |label| {
                section.stat(label).map(|stat| Key::Latency(section.metric, stat))
            })
        }
        Element::Section { title, width, rows } => {
            if is_rule(text, title, *width) {
                return LineMatch::Rule;
            }
            read_rows(rows, text, rule_width)
        }
        Element::Shared(rows) => read_rows(rows, text, rule_width),
        Element::Positions { heading } if text.trim_end() == *heading => LineMatch::Rule,
        Element::Positions { .. } => {
            let end = text.find(':').map_or(usize::MAX, |at| at + 1);
            read_value(text, end, Format::Fixed, |label| {
                let number = label.strip_prefix("  Position ")?.strip_suffix(':')?;
                number.parse().ok().map(Key::Position)
            })
        }
        Element::Rule if is_rule(text, "", rule_width) => LineMatch::Rule,
        Element::Rule => LineMatch::Unknown,
    }
}

fn read_rows<'a>(rows: &[Element], text: &'a str, rule_width: usize) -> LineMatch<'a> {
    let mut best = LineMatch::Unknown;
    for row in rows {
        match read_row(row, text, rule_width) {
            LineMatch::Unknown => {}
            LineMatch::Bad { label, text } => best = LineMatch::Bad { label, text },
            found => return found,
        }
    }
    best
}

/// Splits a line after `label_len` bytes and reads the rest, if `key` knows the label.
fn read_value(
    text: &str,
    label_len: usize,
    format: Format,
    key: impl Fn(&str) -> Option<Key>,
) -> LineMatch<'_> {
    let Some((label, rest)) = text.split_at_checked(label_len) else { return LineMatch::Unknown };
    let is_apart = rest.is_empty() || rest.starts_with([' ', '\t']);
    let Some(key) = key(label).filter(|_| is_apart) else { return LineMatch::Unknown };
    let value = rest.trim();
    match format.read(value) {
        Some(scalar) => LineMatch::Value(key, scalar, value),
        None => LineMatch::Bad { label, text: value },
    }
}

/// Lines that the layout always prints and that are not there. A generation run that shows no
/// section at all is unusual but possible, so sections do not count.
fn missing(rows: &[Element], has: impl Fn(Key) -> bool + Copy) -> usize {
    rows.iter()
        .map(|row| match row {
            Element::Line(line) if line.when == When::Always => {
                usize::from(!has(Key::Field(line.field)))
            }
            Element::Shared(rows) => missing(rows, has),
            _ => 0,
        })
        .sum()
}
