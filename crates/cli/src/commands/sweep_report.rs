//! Several runs shown again: the table that the command that measured them showed.

use std::path::PathBuf;

use tokometer_report::Style;

use super::source::ReportSource;
use crate::bench::{SweepEntry, read_findings, staircase_text, sweep_text};

/// The table of several runs; `None` where a report of another tool is among them, whose figures follow
/// other definitions.
pub(super) fn several_runs(
    given: &[PathBuf],
    sources: &[(String, ReportSource)],
    style: Style,
) -> Option<String> {
    let entry = |(name, source): &(String, ReportSource)| match source {
        ReportSource::Run(run) => Some(SweepEntry::new(name.clone(), run)),
        ReportSource::Blocks(_) => None,
    };
    let entries: Vec<SweepEntry> = sources.iter().map(entry).collect::<Option<_>>()?;
    let findings = match given {
        [folder] => read_findings(folder),
        _ => None,
    };
    Some(match findings {
        Some(findings) => staircase_text(&findings, &entries, style),
        None => sweep_text(&entries, style),
    })
}
