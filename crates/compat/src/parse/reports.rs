//! From text to reports.

use super::blocks::{TextBlock, blocks};
use super::context::context;
use super::fit::{best_fit, is_labelled_number};
use super::fragments::fragments;
use super::grid;
use super::guidellm;
use super::lines::lines;
use super::markup::spelled_out;
use super::plain::plain;
use super::wrapped::unwrapped;
use crate::model::{Blanks, Context, Printed, PrintedLine, Problem, Report};

/// Every report in `text`, in order; none when it holds no block. A text without any header is read
/// as a table or as the part of a report that somebody copied.
pub fn parse(text: &str) -> Vec<Report> {
    let text = spelled_out(text);
    let text = plain(&text);
    let text = unwrapped(&text);
    let lines = lines(&text);
    let mut found = blocks(&lines);
    if found.is_empty() {
        let mut tables = guidellm::reports(&lines);
        if tables.is_empty() {
            tables = grid::reports(&lines);
        }
        if !tables.is_empty() {
            return tables;
        }
        found = fragments(&lines);
    }
    let mut reports: Vec<Report> = Vec::new();
    for block in found {
        let report = report(&block, reports.last().map(|report| &report.context));
        reports.push(report);
    }
    mark_both_halves(&mut reports);
    reports
}

fn report(block: &TextBlock<'_>, before: Option<&Context>) -> Report {
    let context = context(&block.lead, before);
    let mut report = Report {
        title: block.title,
        context,
        problems: block.problems.clone(),
        ..Report::default()
    };
    let mut printed = Printed {
        first_line: block.first_line,
        header: block.header.to_owned(),
        footer: block.footer.map(str::to_owned),
        lines: Vec::new(),
        blanks: Blanks::Kept,
        line_end: block.line_end,
    };
    let unknown_lines;
    if let Some(fit) = best_fit(block) {
        report.layout = Some(fit.layout);
        report.unread = fit.unread;
        report.values = fit.values;
        printed.lines = fit.printed;
        printed.blanks = fit.blanks;
        report.problems.extend(fit.repeated.map(|line| Problem::Interleaved { line }));
        report.problems.extend(fit.in_other_section.map(|line| Problem::OtherSection { line }));
        report.problems.extend(fit.other_unit);
        unknown_lines = fit.unknown_lines;
    } else {
        let unknown = |text: &str| PrintedLine::Unknown(text.to_owned());
        printed.lines = block.lines.iter().map(|line| unknown(line.text)).collect();
        let labelled = block.lines.iter().filter(|line| is_labelled_number(line.text));
        unknown_lines = labelled.map(|line| line.number).collect();
    }
    // A fork may print a few lines of its own; a block of which most is unknown is not checked.
    if let Some(line) = unknown_lines.first().copied()
        && unknown_lines.len() > report.values.iter().count()
    {
        report.problems.push(Problem::Unknown { lines: unknown_lines.len(), line });
    }
    report.printed = Some(printed);
    report
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
