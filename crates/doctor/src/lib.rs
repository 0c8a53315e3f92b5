//! Checks a report for consistency: its figures against each other.
//!
//! In: reports, read from text or from result files, in the order of their file. Out: findings, each
//! with what failed and what it probably means. Every check is an identity that a valid report must
//! satisfy; printed digits are intervals, so rounding alone never fails one. A check whose figures
//! are not all there is not made. `rule` lists the identities; `exact`, `shape`, `stream`,
//! `load`, `possible` and `rows` hold them. `definitions` knows forks whose lines agree under another definition.
//! A finding says which lines do not agree and by how much, not who is to blame.

mod comment;
mod definitions;
mod exact;
mod figures;
mod html;
mod interval;
mod load;
mod page;
mod possible;
mod rows;
mod rule;
mod separated;
mod shape;
mod stated;
mod stream;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod value_tests;

pub use comment::doctor_comment;
pub use html::doctor_html;
pub use page::{doctor_text, identities_markdown, outcomes_markdown};
pub use rule::{Examination, ExaminedFile, Finding, Level, Rule};
pub use separated::doctor_csv;

use figures::Figures;
use tokometer_compat::model::{Field, Key, Problem, Report, Scalar};

/// Examines the reports of one file: each by itself, then against each other.
pub fn examine(reports: &[Report]) -> Examination {
    let mut examination = Examination {
        blocks: reports.iter().map(examine_alone).collect(),
        file: rows::file_findings(reports),
    };
    for (block, finding) in rows::row_findings(reports) {
        examination.blocks[block].push(finding);
    }
    for findings in &mut examination.blocks {
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.level), finding.rule.position()));
    }
    examination
}

fn examine_alone(report: &Report) -> Vec<Finding> {
    let understood = definitions::understood(report);
    let figures = Figures::new(&understood.report, understood.rate_duration);
    let mut findings: Vec<Finding> = report.problems.iter().map(text_finding).collect();
    findings.extend(unread_values(report));
    findings.extend(understood.findings);
    findings.extend(possible::findings(&figures));
    findings.extend(exact::findings(&figures));
    findings.extend(shape::findings(&figures));
    findings.extend(stream::findings(&figures));
    findings.extend(load::findings(&figures));
    if findings.is_empty() && report.values.is_empty() && report.printed.is_some() {
        let what = "the block has no values".to_owned();
        findings.push(Finding::new(
            Level::Misleading,
            Rule::WHOLE_BLOCK,
            what,
            "nothing is checked",
        ));
    }
    findings
}

fn text_finding(problem: &Problem) -> Finding {
    let (level, meaning) = match problem {
        Problem::Cut { .. } | Problem::Interleaved { .. } => {
            (Level::Inconsistent, "figures may be missing or belong to another report")
        }
        Problem::NoHeader { .. } => (Level::Remark, "lines before or after them may be missing"),
        Problem::NoFooter { .. } => (Level::Remark, "lines after it may be missing"),
        Problem::Unknown { .. } => (
            Level::Misleading,
            "the labels may be translated or belong to another tool; most of the block is not checked",
        ),
        Problem::BadObject { .. } => (Level::Misleading, "its figures are not checked"),
    };
    Finding::new(level, Rule::WHOLE_BLOCK, problem.to_string(), meaning)
}

const UNLIMITED: Scalar = Scalar::Number(f64::INFINITY);

/// At most this many unreadable values are named one by one.
const NAMED: usize = 8;

fn unread_values(report: &Report) -> Vec<Finding> {
    let meaning = "its text is kept, and checks that need it are not made";
    let remark = |what: String| Finding::new(Level::Remark, Rule::READABLE_VALUES, what, meaning);
    let unread = report.unread.iter().map(|value| {
        let line = if value.line > 0 { format!(" (line {})", value.line) } else { String::new() };
        format!("`{}` is not a value of {}{line}", value.text, value.label)
    });
    let infinite = report.values.iter().filter_map(|(key, value)| {
        // A run without a rate says `inf`.
        let is_expected = key == Key::Field(Field::RateConfigured) && value.scalar == UNLIMITED;
        let is_number =
            !is_expected && value.scalar.as_f64().is_some_and(|number| !number.is_finite());
        let text = value.text.as_deref().unwrap_or("not a number");
        is_number.then(|| format!("{} is `{text}`", report.label(key)))
    });
    let rate = report
        .words(Field::TrafficRate)
        .filter(|_| report.request_rate().is_none() && !report.is_traced())
        .map(|words| format!("`{words}` is not a rate of Traffic request rate"));
    let mut all: Vec<String> = unread.chain(infinite).chain(rate).collect();
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    if more > 0 {
        all.push(format!("{more} more values cannot be read"));
    }
    all.into_iter().map(remark).collect()
}
