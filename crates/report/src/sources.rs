//! Sources that are shown together: one run in full, several as a table, blocks in any layout.

use std::path::{Path, PathBuf};

use tokometer_base::{Refusal, printable};
use tokometer_compat::{Layout, LayoutChoice, Report, print_same};
use tokometer_figures::Summary;
use tokometer_record::STDOUT;

use crate::reading::{Reading, expanded};
use crate::saved::{RunView, SummarisedRun};
use crate::sweep::{SweepEntry, sweep_text};
use crate::{Style, TableFile, TableFormat, point_name, print_report, staircase, table};

/// A source under the name that it is shown with.
pub struct NamedSource {
    /// Its path, or `standard input`.
    pub name: String,
    pub source: ReportSource,
}

impl NamedSource {
    /// Opens every path; a folder of runs gives each of them.
    pub fn open_all(
        reading: Reading,
        paths: &[PathBuf],
        view: &RunView,
    ) -> Result<Vec<Self>, Refusal> {
        Self::open_each(reading, paths, view).collect()
    }

    /// The same, with an error for each path that cannot be opened.
    pub fn open_each<'a>(
        reading: Reading,
        paths: &'a [PathBuf],
        view: &'a RunView,
    ) -> impl Iterator<Item = Result<Self, Refusal>> + 'a {
        let named = move |path: PathBuf| {
            let source = ReportSource::open(reading, &path, view)?;
            // A name in the listing of a folder may contain line breaks.
            let name = match path.as_path() {
                path if path == Path::new(STDOUT) => "standard input".to_owned(),
                path => printable::line(&path.display().to_string(), usize::MAX),
            };
            Ok(Self { name, source })
        };
        paths.iter().flat_map(move |path| match expanded(path) {
            Ok(paths) => paths.into_iter().map(named).collect::<Vec<_>>(),
            Err(why) => vec![Err(why)],
        })
    }
}

pub enum ReportSource {
    Run(Box<SummarisedRun>),
    Blocks(Vec<Report>),
}

impl ReportSource {
    fn open(reading: Reading, path: &Path, view: &RunView) -> Result<Self, Refusal> {
        if path.is_dir() {
            return reading.summarise(path, view).map(|shown| Self::Run(Box::new(shown)));
        }
        reading.reports(path).map(Self::Blocks)
    }

    /// The run that it is; `None` for reports of another tool.
    pub fn run(&self) -> Option<&SummarisedRun> {
        match self {
            Self::Run(run) => Some(run),
            Self::Blocks(_) => None,
        }
    }

    pub fn reports(&self) -> Result<Vec<Report>, Refusal> {
        match self {
            Self::Run(shown) => Ok(vec![shown.report()?]),
            Self::Blocks(reports) => Ok(reports.clone()),
        }
    }
}

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
            Some(TableFormat::Json) => return Ok(format!("{:#}\n", run.json())),
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
                return own_runs(given, &runs, style);
            }
        }
        (Some(_), _) => {}
    }
    let format = format.unwrap_or_default();
    if format == TableFormat::Text {
        name_points(given, &mut sources);
    }
    let file = |one: &NamedSource| {
        let run = one.source.run().filter(|run| !run.info.is_prediction());
        let verdict = run.map(|run| run.summary.verdict);
        Ok(TableFile { name: one.name.clone(), reports: one.source.reports()?, verdict })
    };
    let files: Vec<TableFile> = sources.iter().map(file).collect::<Result<_, Refusal>>()?;
    Ok(table(&files, format))
}

fn is_staircase(given: &[PathBuf]) -> bool {
    matches!(given, [folder] if staircase::read(folder).is_some())
}

/// What the command that measured these runs showed at its end. The path of a staircase's page is left
/// out: the folder may have been moved.
fn own_runs(
    given: &[PathBuf],
    runs: &[(&NamedSource, &SummarisedRun)],
    style: Style,
) -> Result<String, Refusal> {
    let mut texts = String::new();
    if style.is_detailed {
        for (named, run) in runs {
            texts.extend([&named.name, "\n", &run.text(style)?, "\n"]);
        }
    }
    if let [folder] = given
        && let Some(findings) = staircase::read(folder)
    {
        let runs: Vec<&Summary> = runs.iter().map(|(_, run)| &run.summary).collect();
        return Ok(texts
            + &staircase::text(&findings, &runs, style)
            + &staircase::next_line(&findings));
    }
    let entry =
        |(named, run): &(&NamedSource, &SummarisedRun)| SweepEntry::new(named.name.clone(), run);
    let entries: Vec<SweepEntry> = runs.iter().map(entry).collect();
    Ok(texts + &sweep_text(&entries, style))
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
