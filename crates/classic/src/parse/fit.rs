//! Reads the lines of a block by a layout's table, and finds the layout that fits best.

use super::blocks::TextBlock;
use super::lines::TextLine;
use crate::Error;
use crate::layout::Layout;
use crate::layout::table::{Element, Format, LayoutTable, When, centred};
use crate::model::{Blanks, Key, Place, Scalar, Value, Values};

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
    pub(super) values: Values,
    pub(super) places: Vec<Place>,
    pub(super) blanks: Blanks,
    /// Line on which a value stands for the second time.
    pub(super) repeated: Option<usize>,
    bad: Option<Error>,
    unknown: usize,
    missing: usize,
}

/// The block in the layout that leaves the fewest lines unread, and among those misses the fewest
/// that the layout always prints. `None` when no layout reads any line.
pub(super) fn best_fit(block: &TextBlock<'_>) -> Result<Option<Fit>, Error> {
    let fits = Layout::ALL.into_iter().filter_map(|layout| {
        let table = layout.table()?;
        (table.widths.header == block.width).then(|| fit(block, layout, table))
    });
    let best = fits.min_by_key(|fit| (fit.unknown, fit.missing));
    match best {
        Some(Fit { bad: Some(error), .. }) => Err(error),
        Some(mut fit) if !fit.values.is_empty() => {
            add_foreign_values(&mut fit);
            Ok(Some(fit))
        }
        _ => Ok(None),
    }
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

fn tables() -> impl Iterator<Item = (Layout, &'static LayoutTable)> {
    Layout::ALL.into_iter().filter_map(|layout| Some((layout, layout.table()?)))
}

fn fit(block: &TextBlock<'_>, layout: Layout, table: &LayoutTable) -> Fit {
    let mut fit = Fit {
        layout,
        values: Values::default(),
        places: Vec::new(),
        blanks: Blanks::Stripped,
        repeated: None,
        bad: None,
        unknown: 0,
        missing: 0,
    };
    let mut rows = table.rows;
    let mut rule_width = table.widths.rule;
    for line in &block.lines {
        if let Some(tail) = table.tail
            && line.text.trim_end() == centred(tail.title, '=', tail.widths.header)
        {
            (rows, rule_width) = (tail.rows, tail.widths.rule);
            fit.places.push(Place::Rule(line.text.trim_end().to_owned()));
            continue;
        }
        fit.take(*line, rows, rule_width);
    }
    fit.missing = missing(table.rows, &fit.values);
    fit
}

impl Fit {
    fn take(&mut self, line: TextLine<'_>, rows: &[Element], rule_width: usize) {
        let mut bad = None;
        let mut is_repeated = false;
        for row in rows {
            match read_row(row, line.text, rule_width) {
                // One label may belong to two fields that differ in format: the unfilled one is used.
                LineMatch::Value(key, ..) if self.values.get(key).is_some() => is_repeated = true,
                LineMatch::Value(key, scalar, text) => {
                    self.note_blanks(line.text);
                    let text = Some(text.to_owned());
                    self.values.set(key, Value { scalar, text });
                    self.places.push(Place::Value(key));
                    return;
                }
                LineMatch::Rule => {
                    self.places.push(Place::Rule(line.text.trim_end().to_owned()));
                    return;
                }
                LineMatch::Bad { label, text } => bad = bad.or(Some((label, text))),
                LineMatch::Unknown => {}
            }
        }
        if is_repeated {
            self.repeated = self.repeated.or(Some(line.number));
        } else if let (Some((label, text)), None) = (bad, &self.bad) {
            self.bad = Some(bad_value(line, label, text));
        }
        // The footer before a second part, and blank lines, are evidence for no layout.
        let says_nothing = line.text.trim_end().trim_matches('=').is_empty();
        self.unknown += usize::from(!says_nothing);
        self.places.push(Place::Unknown(line.text.to_owned()));
    }

    fn note_blanks(&mut self, text: &str) {
        if text.ends_with(' ') {
            self.blanks = Blanks::Kept;
        }
    }
}

fn bad_value(line: TextLine<'_>, label: &str, text: &str) -> Error {
    let offset = if text.is_empty() {
        line.text.trim_end().len()
    } else {
        line.text.rfind(text).unwrap_or_default()
    };
    Error::BadValue {
        line: line.number,
        column: line.from(offset).column,
        label: label.trim().to_owned(),
        text: text.to_owned(),
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
fn missing(rows: &[Element], values: &Values) -> usize {
    rows.iter()
        .map(|row| match row {
            Element::Line(line) if line.when == When::Always => {
                usize::from(values.get(Key::Field(line.field)).is_none())
            }
            Element::Shared(rows) => missing(rows, values),
            _ => 0,
        })
        .sum()
}

/// Lines that another layout knows give their value too, although they stay as text:
/// many forks print a line more than the tool they were made from.
fn add_foreign_values(fit: &mut Fit) {
    let texts: Vec<String> = fit
        .places
        .iter()
        .filter_map(|place| match place {
            Place::Unknown(text) => Some(text.clone()),
            _ => None,
        })
        .collect();
    for text in texts {
        let readings = tables().map(|(_, table)| read_rows(table.rows, &text, table.widths.rule));
        let value = readings.into_iter().find_map(|reading| match reading {
            LineMatch::Value(key, scalar, text) => Some((key, scalar, text.to_owned())),
            _ => None,
        });
        if let Some((key, scalar, text)) = value.filter(|(key, ..)| fit.values.get(*key).is_none())
        {
            fit.values.set(key, Value { scalar, text: Some(text) });
        }
    }
}
