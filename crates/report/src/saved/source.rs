//! One path as something that can be shown: a run, or the reports of another tool.

use std::path::{Path, PathBuf};

use tokometer_base::{Refusal, printable};
use tokometer_compat::Report;
use tokometer_record::STDOUT;

use super::run::{RunView, SummarisedRun};
use crate::reading::{Reading, expanded};

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
