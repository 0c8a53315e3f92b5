//! Prints a report by a layout's table.
//!
//! A line stands as its label, one blank and its value, both padded to the table's widths, so a
//! normal line ends in blanks. A value that the report lacks has no line.

use crate::layout::Layout;
use crate::layout::table::{
    Element, Format, Section, Stats, Widths, centred, label_of, position_label,
};
use crate::model::{Key, Printed, Report, Scalar, Stat, Value};

/// The report in this layout, byte for byte as its tool prints it: scripts read these lines. `None`
/// for our own layout, which is no table.
pub fn print(report: &Report, layout: Layout) -> Option<String> {
    let table = layout.table()?;
    let mut page = BlockPage { report, lines: Vec::new() };
    page.header(report.title.words(), table.widths);
    page.rows(table.rows, table.widths);
    page.footer(table.widths);
    if let Some(tail) = table.tail.filter(|tail| has_content(report, tail.rows)) {
        page.header(tail.title, tail.widths);
        page.rows(tail.rows, tail.widths);
        page.footer(tail.widths);
    }
    Some(format!("{}{}\n", table.opening, page.lines.join("\n")))
}

/// The report as it stood in the text it was read from. `None` for one that was not read from text.
pub fn print_same(report: &Report) -> Option<String> {
    let Printed { lines, line_end, .. } = report.printed.as_ref()?;
    Some(lines.iter().flat_map(|line| [line.as_str(), line_end]).collect())
}

/// Whether the report, printed in its own layout, has a line for `key`.
pub(crate) fn shows(report: &Report, key: Key) -> bool {
    let label = report.layout.and_then(Layout::table).and_then(|table| label_of(table, key));
    label.is_some_and(|(_, format)| shown_value(report, key, format).is_some())
}

fn data_line(label: &str, value: &str, format: Format, widths: Widths) -> String {
    let width = if format == Format::Percent { 0 } else { widths.value };
    format!("{label:<0$} {value:<width$}", widths.label)
}

struct BlockPage<'a> {
    report: &'a Report,
    lines: Vec<String>,
}

impl BlockPage<'_> {
    fn header(&mut self, title: &str, widths: Widths) {
        self.lines.push(centred(title, '=', widths.header));
    }

    fn footer(&mut self, widths: Widths) {
        self.lines.push("=".repeat(widths.header));
    }

    fn rows(&mut self, rows: &[Element], widths: Widths) {
        let report = self.report;
        for row in rows.iter().filter(|row| has_any(report, row)) {
            match row {
                Element::Line(line) => {
                    self.data(line.label, Key::Field(line.field), line.format, widths);
                }
                Element::Latency(section) => self.section(section, widths),
                Element::Section { title, width, rows } => {
                    self.lines.push(centred(title, '-', *width));
                    self.rows(rows, widths);
                }
                Element::Positions { heading } => self.positions(heading, widths),
                Element::Shared(rows) => self.rows(rows, widths),
                Element::Rule => self.lines.push("-".repeat(widths.rule)),
            }
        }
    }

    fn data(&mut self, label: &str, key: Key, format: Format, widths: Widths) {
        if let Some(value) = shown_value(self.report, key, format) {
            self.lines.push(data_line(label, &format.write(&value.scalar), format, widths));
        }
    }

    fn section(&mut self, section: &Section, widths: Widths) {
        self.lines.push(centred(section.title.unwrap_or_default(), '-', widths.rule));
        for stat in shown_stats(self.report, section) {
            let key = Key::Latency(section.metric, stat);
            self.data(&section.label(stat), key, Format::Fixed, widths);
        }
    }

    fn positions(&mut self, heading: &str, widths: Widths) {
        self.lines.push(heading.to_owned());
        let numbers = self.report.values.iter().filter_map(|(key, _)| match key {
            Key::Position(number) => Some(number),
            _ => None,
        });
        for number in numbers.collect::<Vec<_>>() {
            self.data(&position_label(number), Key::Position(number), Format::Fixed, widths);
        }
    }
}

/// Whether there is more to show than rules.
fn has_content(report: &Report, rows: &[Element]) -> bool {
    rows.iter().any(|row| !matches!(row, Element::Rule) && has_any(report, row))
}

/// Whether the report has anything for this row to show.
fn has_any(report: &Report, row: &Element) -> bool {
    let has = |key| report.values.get(key).is_some();
    match row {
        Element::Line(line) => shown_value(report, Key::Field(line.field), line.format).is_some(),
        Element::Latency(section) => shown_stats(report, section)
            .into_iter()
            .any(|stat| has(Key::Latency(section.metric, stat))),
        Element::Section { rows, .. } | Element::Shared(rows) => has_content(report, rows),
        Element::Positions { .. } => {
            report.values.iter().any(|(key, _)| matches!(key, Key::Position(_)))
        }
        // A rule between two groups stands wherever its block does.
        Element::Rule => true,
    }
}

/// The value, unless it is words where this layout has a number: SGLang says `not set` of a cap that
/// the others do not mention then.
fn shown_value(report: &Report, key: Key, format: Format) -> Option<&Value> {
    let takes_words = matches!(format, Format::Words | Format::CountOrWords);
    let is_words = |value: &&Value| matches!(value.scalar, Scalar::Words(_));
    report.values.get(key).filter(|value| takes_words || !is_words(value))
}

fn shown_stats(report: &Report, section: &Section) -> Vec<Stat> {
    match section.stats {
        Stats::Fixed(stats) => stats.to_vec(),
        Stats::AsGiven => {
            let percentiles = report.percentiles(section.metric).map(Stat::Percentile);
            [Stat::Mean, Stat::Median].into_iter().chain(percentiles).collect()
        }
    }
}
