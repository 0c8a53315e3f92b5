//! Tables of separated values, one report per row: files of a sweep, or a table on a page.

use tokometer_base::printable;

use super::labels::MAIN;
use super::reading::{Labelled, Reading, layout_of};
use super::text::TextLine;
use crate::model::{Context, Printed, Problem, Report};

/// Fewer known columns than this are taken for an ordinary table.
const FEWEST: usize = 3;

/// Wider tables hold no report.
const MOST_COLUMNS: usize = 64;

pub(super) fn reports(lines: &[TextLine<'_>]) -> Vec<Report> {
    let mut found = Vec::new();
    let mut head = Vec::new();
    for line in lines {
        let cells = cells(line.text);
        let is_known = |cell: &&&str| !MAIN.meanings(cell).is_empty();
        if cells.len() < 2 {
            head = Vec::new();
        } else if cells.iter().filter(is_known).count() >= FEWEST {
            head = cells;
        } else {
            found.extend(row(*line, &head, &cells));
        }
    }
    found
}

/// The cells of a line, which bars, semicolons, tabs or commas separate outside of quotes.
fn cells(text: &str) -> Vec<&str> {
    let text = text.trim().trim_matches(['|', '>', ' ']);
    let separator = ['|', ';', '\t'].into_iter().find(|sign| text.contains(*sign)).unwrap_or(',');
    let mut is_quoted = false;
    let is_end = |letter: char| {
        is_quoted ^= letter == '"';
        letter == separator && !is_quoted
    };
    let cells = text.split(is_end).map(|cell| cell.trim_matches([' ', '"', '*', '`']));
    cells.take(MOST_COLUMNS).collect()
}

/// The report of a row below this head; `None` for one without any value.
fn row(line: TextLine<'_>, head: &[&str], cells: &[&str]) -> Option<Report> {
    let mut found = Reading::default();
    for (label, text) in head.iter().zip(cells).filter(|(_, text)| !text.is_empty()) {
        let meanings = MAIN.meanings(label);
        if !meanings.is_empty() {
            found.take(line.number, Labelled { label, text }, meanings);
        }
    }
    let name = cells.first().filter(|_| MAIN.meanings(head.first().unwrap_or(&"")).is_empty());
    let heading = name.map(|name| printable::short(name));
    let printed = Printed { lines: vec![line.text.to_owned()], line_end: "\n" };
    (!found.values.is_empty()).then(|| Report {
        layout: layout_of(&found, 0),
        context: Context { heading, ..Context::default() },
        printed: Some(printed),
        problems: vec![Problem::NoHeader { line: line.number }],
        unread: std::mem::take(&mut found.unread),
        values: found.values,
        ..Report::default()
    })
}
