//! Several runs shown again: the table that the command that measured them showed.

use std::path::PathBuf;

use tokometer_report::Style;
use tokometer_report::saved::ReportSource;
use tokometer_report::staircase;

use crate::bench::{SummarisedRun, SweepEntry, sweep_text};

/// What a staircase showed at its end, with as many steps as it had; `None` where something else was
/// given. The path of its page is left out: the folder may have been moved.
pub(super) fn staircase(
    given: &[PathBuf],
    sources: &[(String, ReportSource)],
    style: Style,
) -> Option<String> {
    let [folder] = given else { return None };
    let findings = staircase::read(folder)?;
    let runs = sources.iter().map(|(_, source)| match source {
        ReportSource::Run(run) => Some(&**run),
        ReportSource::Blocks(_) => None,
    });
    let runs: Vec<&SummarisedRun> = runs.collect::<Option<_>>()?;
    Some(staircase::text(&findings, &runs, style) + &staircase::next_line(&findings))
}

/// The table of several runs; `None` where a report of another tool is among them, whose figures follow
/// other definitions.
pub(super) fn several_runs(sources: &[(String, ReportSource)], style: Style) -> Option<String> {
    let entry = |(name, source): &(String, ReportSource)| match source {
        ReportSource::Run(run) => Some(SweepEntry::new(name.clone(), run)),
        ReportSource::Blocks(_) => None,
    };
    let entries: Vec<SweepEntry> = sources.iter().map(entry).collect::<Option<_>>()?;
    Some(sweep_text(&entries, style))
}
