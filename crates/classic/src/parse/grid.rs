//! Reports in tables: one value per row, one report per row, or statistics of metrics in a grid.

use super::fit::nearest_layout;
use super::labels::{self, Label};
use super::lines::TextLine;
use super::loose::{self, LooseValue};
use super::number;
use crate::model::{Blanks, Context, Place, Printed, Problem, Report, UnreadValue, Value};

/// Fewer labelled values than this are taken for an ordinary table.
const FEWEST: usize = 3;

/// Wider tables hold no report, and reading one costs columns times rows.
const MOST_COLUMNS: usize = 64;

type Row<'a> = (TextLine<'a>, Vec<&'a str>);

/// The reports in the tables of a text.
pub(super) fn reports(lines: &[TextLine<'_>]) -> Vec<Report> {
    let mut found = Vec::new();
    let mut table: Vec<Row<'_>> = Vec::new();
    for line in lines {
        match cells(line.text) {
            Some(cells) => table.push((*line, cells)),
            None if is_border(line.text) => {}
            None => found.extend(read_table(&std::mem::take(&mut table))),
        }
    }
    found.extend(read_table(&table));
    found
}

/// The cells of a table's line; `None` for any other line, and for the rule below a head.
fn cells(text: &str) -> Option<Vec<&str>> {
    if is_border(text) {
        return None;
    }
    let text = text.trim().trim_start_matches(['>', ' ']);
    let inner = text.strip_prefix(loose::is_bar).unwrap_or(text);
    let inner = inner.strip_suffix(loose::is_bar).unwrap_or(inner);
    let cells: Vec<&str> = inner
        .split(loose::is_bar)
        .map(|cell| cell.trim().trim_matches(['*', '`']).trim())
        .take(MOST_COLUMNS)
        .collect();
    (cells.len() >= 2 && inner.len() < text.len()).then_some(cells)
}

fn is_border(text: &str) -> bool {
    let is_part = |letter: char| {
        letter.is_whitespace()
            || "-=:>".contains(letter)
            || loose::is_corner(letter)
            || matches!(letter, '─' | '━' | '═')
    };
    text.contains(['-', '─', '━', '═', '=']) && text.chars().all(is_part)
}

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// The first column has labels, each other one is a report.
    LabelsDown,
    /// The first row has labels, each other one is a report.
    LabelsAcross,
    /// Metrics one way, statistics the other: one report.
    Crossed,
}

fn read_table(table: &[Row<'_>]) -> Vec<Report> {
    let Some((head, body)) = table.split_first() else { return Vec::new() };
    let down = table.iter().filter(|(_, cells)| labels::label(cells[0], None).is_some()).count();
    let across = head.1.iter().filter(|cell| labels::label(cell, None).is_some()).count();
    let pairs = body
        .iter()
        .take(FEWEST)
        .flat_map(|(_, cells)| head.1.iter().map(move |cell| (cell, cells[0])));
    let crossed = pairs.filter(|(cell, first)| crossed_label(cell, first).is_some()).count();
    let choices = [
        (down, Arrangement::LabelsDown),
        (across, Arrangement::LabelsAcross),
        (crossed, Arrangement::Crossed),
    ];
    let best = choices.into_iter().rev().max_by_key(|(count, _)| *count);
    match best.filter(|(count, _)| *count >= FEWEST) {
        Some((_, Arrangement::LabelsDown)) => labels_down(table),
        Some((_, Arrangement::LabelsAcross)) => {
            body.iter().map(|row| labels_across(&head.1, row)).collect()
        }
        Some((_, Arrangement::Crossed)) => vec![crossed_report(&head.1, body)],
        None => Vec::new(),
    }
}

/// `p99` above and `TTFT (ms)` at the left, or the other way round.
fn crossed_label(above: &str, left: &str) -> Option<Label> {
    labels::label(&format!("{above} {left}"), None)
        .filter(|_| !above.is_empty() && !left.is_empty() && above != left)
}

fn labels_down(table: &[Row<'_>]) -> Vec<Report> {
    let head = &table[0].1;
    let has_head = labels::label(head[0], None).is_none();
    let unit_column = head
        .iter()
        .position(|cell| has_head && ["unit", "units"].contains(&cell.to_lowercase().as_str()));
    let columns = table.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let column = |at: usize| {
        let mut report = ReportDraft::default();
        for (line, cells) in table {
            let found = labels::label(cells[0], None);
            let unit = unit_column.and_then(|at| number::unit(cells.get(at)?));
            if let (Some(found), Some(text)) = (found, cells.get(at)) {
                report.take(*line, cells[0], Label { unit: found.unit.or(unit), ..found }, text);
            }
        }
        let heading = head.get(at).filter(|cell| has_head && !cell.is_empty());
        // A column of changes or of units has hardly a value that is one.
        report.is_mostly_read().then(|| report.finish(heading.copied()))
    };
    (1..columns).filter(|at| Some(*at) != unit_column).filter_map(column).collect()
}

fn labels_across(head: &[&str], (line, cells): &Row<'_>) -> Report {
    let mut report = ReportDraft::default();
    for (name, text) in head.iter().zip(cells) {
        if let Some(found) = labels::label(name, None) {
            report.take(*line, name, found, text);
        }
    }
    let is_named = head.first().is_some_and(|name| labels::label(name, None).is_none());
    report.finish(cells.first().copied().filter(|_| is_named))
}

fn crossed_report(head: &[&str], body: &[Row<'_>]) -> Report {
    let mut report = ReportDraft::default();
    for (line, cells) in body {
        for (above, text) in head.iter().zip(cells).skip(1) {
            if let Some(found) = crossed_label(above, cells[0]) {
                report.take(*line, &format!("{above} {}", cells[0]), found, text);
            }
        }
    }
    report.finish(None)
}

/// A report while its cells are read.
#[derive(Default)]
struct ReportDraft {
    report: Report,
    first_line: usize,
    texts: Vec<String>,
}

impl ReportDraft {
    fn take(&mut self, line: TextLine<'_>, name: &str, found: Label, text: &str) {
        if self.first_line == 0 {
            self.first_line = line.number;
        }
        self.texts.push(line.text.to_owned());
        let LooseValue { key, text, scalar, .. } = loose::value(name, found, text);
        match scalar {
            Some((scalar, half_unit)) if self.report.values.get(key).is_none() => {
                let value = Value { scalar, text: Some(text.to_owned()), half_unit };
                self.report.values.set(key, value);
            }
            Some(_) => {}
            None => self.report.unread.push(UnreadValue {
                line: line.number,
                column: line.text.find(text).map_or(1, |at| line.from(at).column),
                label: name.to_owned(),
                text: text.to_owned(),
            }),
        }
    }

    fn is_mostly_read(&self) -> bool {
        let read = self.report.values.iter().count();
        read >= FEWEST.min(2) && read > self.report.unread.len()
    }

    fn finish(self, heading: Option<&str>) -> Report {
        let mut texts = self.texts;
        texts.dedup();
        Report {
            layout: nearest_layout(&self.report.values),
            context: Context { heading: heading.map(str::to_owned), ..Context::default() },
            printed: Some(Printed {
                first_line: self.first_line,
                header: String::new(),
                footer: None,
                places: texts.into_iter().map(Place::Unknown).collect(),
                blanks: Blanks::Stripped,
                line_end: "\n",
            }),
            problems: vec![Problem::NoHeader { line: self.first_line }],
            ..self.report
        }
    }
}
