//! Checks a report for consistency: its figures against each other.
//!
//! In: reports, read from text or from result files, in the order of their file. Out: findings, each
//! with what failed and what it probably means. Every check is an identity that a valid report must
//! satisfy; printed digits are intervals, so rounding alone never fails one. A check whose figures
//! are not all there is not made. `rule` lists the identities; `exact`, `shape`, `stream`,
//! `load` and `rows` hold them.

mod exact;
mod figures;
mod interval;
mod load;
mod page;
mod rows;
mod rule;
mod shape;
mod stated;
mod stream;

#[cfg(test)]
mod tests;

pub use page::{doctor_markdown, doctor_text};
pub use rule::{Examination, Finding, Level, Rule};

use crate::model::{Problem, Report};
use figures::Figures;

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
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.level), finding.rule));
    }
    examination
}

fn examine_alone(report: &Report) -> Vec<Finding> {
    let figures = Figures::new(report);
    let mut findings: Vec<Finding> = report.problems.iter().map(text_finding).collect();
    findings.extend(exact::findings(&figures));
    findings.extend(shape::findings(&figures));
    findings.extend(stream::findings(&figures));
    findings.extend(load::findings(&figures));
    findings
}

fn text_finding(problem: &Problem) -> Finding {
    Finding {
        level: Level::Inconsistent,
        rule: Rule::WholeBlock,
        what: problem.to_string(),
        meaning: "figures may be missing or belong to another report".to_owned(),
    }
}
