//! Sources that are shown together: one run in full, several as a table, blocks in any layout.

use std::path::{Path, PathBuf};

use tokometer_base::Refusal;
use tokometer_compat::{Layout, LayoutChoice, Report, print_same};

use crate::saved::{NamedSource, ReportSource, SummarisedRun};
use crate::sweep::{SweepEntry, sweep_text};
use crate::{Style, TableFormat, point_name, print_report, staircase, table};

#[derive(Debug, Clone, Copy)]
pub struct SourcesView<'a> {
    /// `None` for what suits them.
    pub format: Option<TableFormat>,
    /// The layout of blocks; `None` for a table.
    pub layout: Option<&'a str>,
    pub style: Style,
}

pub fn text(
    given: &[PathBuf],
    mut sources: Vec<NamedSource>,
    view: SourcesView<'_>,
) -> Result<String, Refusal> {
    let SourcesView { format, layout, style } = view;
    if let ([NamedSource { source: ReportSource::Run(run), .. }], false) =
        (&sources[..], layout.is_none() && format.is_none() && is_staircase(given))
    {
        match format {
            None => return run.text(style),
            Some(TableFormat::Json) => return Ok(run.json()),
            Some(TableFormat::Csv) => return Ok(run.csv()),
            Some(TableFormat::Text | TableFormat::Markdown) => {}
        }
    }
    match (format, layout) {
        (None, Some(layout)) => return blocks(&sources, layout, style),
        (None, None) => {
            let runs = sources.iter().map(|one| one.source.run().map(|run| (one, run)));
            // A report of another tool has figures of other definitions.
            if let Some(runs) = runs.collect::<Option<Vec<_>>>() {
                return Ok(own_runs(given, &runs, style));
            }
        }
        (Some(_), _) => {}
    }
    let format = format.unwrap_or_default();
    if format == TableFormat::Text {
        name_points(given, &mut sources);
    }
    let named = |one: &NamedSource| Ok((one.name.clone(), one.source.reports()?));
    let files: Vec<(String, Vec<Report>)> =
        sources.iter().map(named).collect::<Result<_, Refusal>>()?;
    Ok(table(&files, format))
}

fn is_staircase(given: &[PathBuf]) -> bool {
    matches!(given, [folder] if staircase::read(folder).is_some())
}

/// What the command that measured these runs showed at its end. The path of a staircase's page is left
/// out: the folder may have been moved.
fn own_runs(given: &[PathBuf], runs: &[(&NamedSource, &SummarisedRun)], style: Style) -> String {
    if let [folder] = given
        && let Some(findings) = staircase::read(folder)
    {
        let runs: Vec<&SummarisedRun> = runs.iter().map(|(_, run)| *run).collect();
        return staircase::text(&findings, &runs, style) + &staircase::next_line(&findings);
    }
    let entry =
        |(named, run): &(&NamedSource, &SummarisedRun)| SweepEntry::new(named.name.clone(), run);
    let entries: Vec<SweepEntry> = runs.iter().map(entry).collect();
    sweep_text(&entries, style)
}

/// For people, the points of a single sweep have the names that the sweep gave them.
fn name_points(given: &[PathBuf], sources: &mut [NamedSource]) {
    if matches!(given, [folder] if folder.is_dir()) && sources.len() > 1 {
        for one in sources.iter_mut().filter(|one| one.source.run().is_some()) {
            one.name = point_name(Path::new(&one.name));
        }
    }
}

fn blocks(sources: &[NamedSource], layout: &str, style: Style) -> Result<String, Refusal> {
    let choice = LayoutChoice::named(layout).map_err(|why| Refusal::usage(why.to_string(), ""))?;
    let mut text = String::new();
    for one in sources {
        match &one.source {
            ReportSource::Run(run) => text.push_str(&run.text(style)?),
            ReportSource::Blocks(reports) => {
                text.extend(reports.iter().map(|report| block(report, choice, style)));
            }
        }
    }
    Ok(text)
}

fn block(report: &Report, choice: LayoutChoice, style: Style) -> String {
    let own = report.layout.unwrap_or(Layout::Tokometer);
    match choice {
        LayoutChoice::Named(layout) => print_report(report, layout, style),
        LayoutChoice::Auto => print_report(report, own, style),
        // A result file has no text of its own to give back.
        LayoutChoice::Same => {
            print_same(report).unwrap_or_else(|| print_report(report, own, style))
        }
    }
}
