//! Where reports come from: run folders, printed texts, result files.

use std::path::{Path, PathBuf};

use tokometer_base::printable;
use tokometer_classic::{Report, files};
use tokometer_record::folder::names;

use crate::bench::{RunView, SummarisedRun, summarise};
use crate::exit::Refusal;

/// One thing that can be shown.
pub(crate) enum ReportSource {
    /// A run with its record.
    Run(Box<SummarisedRun>),
    /// Blocks of a text or a result file.
    Blocks(Vec<Report>),
}

impl ReportSource {
    /// Opens every path; a folder of runs gives each of them.
    pub(crate) fn open_all(
        paths: &[PathBuf],
        view: &RunView,
    ) -> Result<Vec<(String, Self)>, Refusal> {
        let mut sources = Vec::new();
        for path in paths {
            for path in expanded(path)? {
                let source = Self::open(&path, view)?;
                // A name in the listing of a folder may contain line breaks.
                let name = printable::line(&path.display().to_string(), usize::MAX);
                sources.push((name, source));
            }
        }
        Ok(sources)
    }

    fn open(path: &Path, view: &RunView) -> Result<Self, Refusal> {
        if path.is_dir() {
            return summarise(path, view).map(|shown| Self::Run(Box::new(shown)));
        }
        let shown = path.display();
        let unreadable = |why: String| Refusal::usage(format!("cannot read `{shown}`: {why}"), "");
        let text = std::fs::read_to_string(path).map_err(|why| unreadable(why.to_string()))?;
        let reports = files::read(&text).map_err(|why| unreadable(why.to_string()))?;
        if reports.is_empty() {
            return Err(Refusal::usage(
                format!("cannot find a report in `{shown}`"),
                "a printed report starts with the line `= Serving Benchmark Result =`",
            ));
        }
        Ok(Self::Blocks(reports))
    }

    /// Its blocks.
    pub(crate) fn reports(&self) -> Result<Vec<Report>, Refusal> {
        match self {
            Self::Run(shown) => Ok(vec![shown.report()?]),
            Self::Blocks(reports) => Ok(reports.clone()),
        }
    }
}

/// The runs below a folder that is not a run itself: the points of a sweep, in order.
pub(crate) fn expanded(path: &Path) -> Result<Vec<PathBuf>, Refusal> {
    if !path.is_dir() || path.join(names::PLAN).is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |why: std::io::Error| {
        Refusal::usage(format!("cannot read `{}`: {why}", path.display()), "")
    };
    let entries = std::fs::read_dir(path).map_err(unreadable)?;
    let mut runs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|entry| entry.join(names::PLAN).is_file())
        .collect();
    runs.sort();
    // A folder without any run is opened as one, for the message that says what is missing.
    Ok(if runs.is_empty() { vec![path.to_owned()] } else { runs })
}
