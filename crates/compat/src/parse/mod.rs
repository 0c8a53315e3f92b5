//! Reads the reports out of any text.
//!
//! In: what a terminal, a log file or a forum post holds. Out: one [`Report`] per block, in its layout, with
//! the heading or command line above it. `text` undoes what terminals do to text, `blocks` finds where blocks
//! begin and end, `reading` reads one by the words of its `labels` and finds its layout, `context` understands
//! what stands before it, and `table` reads separated values.
//!
//! A block that is cut or mixed with another is returned as far as it goes and says so. A value that
//! cannot be read costs only itself: its text is kept and named. Time is linear in the text.

mod blocks;
mod context;
mod labels;
mod reading;
mod table;
#[cfg(test)]
mod tests;
mod text;

use self::blocks::{TextBlock, blocks, without_header};
use self::reading::{layout_of, read};
use crate::layout::Layout;
use crate::layout::table::last_stat;
use crate::model::{Context, Key, Printed, Problem, Report, Values};

/// Every report in `text`, in order; none when it holds no block. A text without any header is read
/// as a table or as the part of a report that somebody copied.
pub fn parse(text: &str) -> Vec<Report> {
    let text = text::plain(text);
    let lines = text::lines(&text);
    let mut found = blocks(&lines);
    if found.is_empty() {
        let tables = table::reports(&lines);
        if !tables.is_empty() {
            return tables;
        }
        found = without_header(&lines).into_iter().collect();
    }
    let mut reports: Vec<Report> = Vec::new();
    for block in found {
        let report = report(block, reports.last().map(|report| &report.context));
        reports.push(report);
    }
    mark_both_halves(&mut reports);
    reports
}

fn report(block: TextBlock<'_>, before: Option<&Context>) -> Report {
    let context = context::context(&block.lead, before);
    let found = read(&block.lines);
    let has_anything = !found.values.is_empty() || !found.unread.is_empty();
    let layout = layout_of(&found, block.width).filter(|_| has_anything);
    let mut problems = block.problems;
    if let [Problem::Cut { line }] = problems[..]
        && ends_a_section(&found.values, layout)
    {
        problems = vec![Problem::NoFooter { line }];
    }
    problems.extend(found.repeated.map(|line| Problem::Interleaved { line }));
    // A fork may print a few lines of its own; a block of which most is unknown is not checked.
    if let Some(line) = found.unknown.first().copied()
        && found.unknown.len() > found.values.iter().count()
    {
        problems.push(Problem::Unknown { lines: found.unknown.len(), line });
    }
    let lines = block.lines.iter().map(|line| line.text).chain(block.footer);
    let lines = block.header.into_iter().chain(lines).map(str::to_owned).collect();
    Report {
        layout,
        title: block.title,
        context,
        values: found.values,
        printed: Some(Printed { lines, line_end: block.line_end }),
        problems,
        unread: found.unread,
    }
}

/// Whether the last value is the last of its section: as the layout has it, or as the section before ends.
fn ends_a_section(values: &Values, layout: Option<Layout>) -> bool {
    let Some(table) = layout.and_then(Layout::table) else { return false };
    let Some(Key::Latency(metric, last)) = values.iter().last().map(|(key, _)| key) else {
        return false;
    };
    let of_others = values.iter().filter_map(|(key, _)| match key {
        Key::Latency(other, stat) if other != metric => Some(stat),
        _ => None,
    });
    last_stat(table, metric).or_else(|| of_others.last()) == Some(last)
}

/// A block that is cut by the header of one which turns out to hold lines of both was not cut: the
/// two are mixed.
fn mark_both_halves(reports: &mut [Report]) {
    for at in 1..reports.len() {
        let mixed = reports[at].problems.iter().find_map(|problem| match problem {
            Problem::Interleaved { line } => Some(*line),
            _ => None,
        });
        if let Some(line) = mixed.filter(|_| reports[at - 1].is_cut()) {
            reports[at - 1].problems.push(Problem::Interleaved { line });
        }
    }
}
