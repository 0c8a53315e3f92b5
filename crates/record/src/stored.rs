//! Run folders by their paths, with refusals that say what to give instead.

use std::path::{Path, PathBuf};

use tokometer_base::{Nanos, Refusal};

use crate::ahead::Ahead;
use crate::folder::names;
use crate::{Error, RunEnd, RunReader, Timeline, timeline_bytes};

/// The findings of a search, beside the folders of its points.
pub const CAPACITY: &str = "capacity.json";
/// The findings of a staircase, beside the folders of its steps.
pub const STAIRCASE: &str = "staircase.json";

/// Opens a run folder. One that is missing or is no run is a mistake in the command line.
pub fn open(folder: &Path) -> Result<RunReader, Refusal> {
    RunReader::open(folder).map_err(|why| {
        let shown = folder.display();
        if !folder.exists() {
            let hint = "`tokometer bench` writes run folders below `runs/`";
            return Refusal::usage(format!("cannot read `{shown}`: there is no such folder"), hint);
        }
        match (&why, points(folder).as_slice()) {
            (Error::NotARun { .. }, [first, rest @ ..]) => Refusal::usage(
                format!("cannot read `{shown}` as a run: it holds {} runs", rest.len() + 1),
                format!("give one of them, such as `{}`", first.display()),
            ),
            _ => unreadable(why),
        }
    })
}

/// The runs below a folder that is no run itself, such as the points of a sweep, in order: of a staircase
/// the last run of each step. None where the folder cannot be read.
pub fn points(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut runs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|entry| entry.join(names::PLAN).is_file())
        .collect();
    runs.sort();
    if folder.join(STAIRCASE).is_file() { last_of_each(runs) } else { runs }
}

/// The last run of each label, where the label first appears. `003-max_concurrency=8` has a number and a
/// label.
fn last_of_each(runs: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut last: Vec<(String, PathBuf)> = Vec::new();
    for run in runs {
        let name = run.file_name().unwrap_or_default().to_string_lossy();
        let label = name.split_once('-').map_or(&*name, |(_, label)| label).to_owned();
        match last.iter_mut().find(|(known, _)| *known == label) {
            Some((_, kept)) => *kept = run,
            None => last.push((label, run)),
        }
    }
    last.into_iter().map(|(_, run)| run).collect()
}

/// The first run below a folder that is no run itself.
pub fn first_point(folder: &Path) -> Option<PathBuf> {
    let is_run = folder.join(names::PLAN).is_file();
    points(folder).into_iter().next().filter(|_| !is_run)
}

/// Every ended request of a run, decoded by a second thread.
pub fn timelines(reader: &RunReader) -> Result<impl Iterator<Item = Timeline>, Refusal> {
    let timelines = reader.timelines().map_err(unreadable)?;
    let unstarted = |why| Refusal::usage(format!("cannot start a thread: {why}"), "");
    Ahead::of(timelines, timeline_bytes).map_err(unstarted)
}

/// How the run in a folder ended; `None` for a killed run, and where there is none.
pub fn end(folder: &Path) -> Option<RunEnd> {
    RunReader::open(folder).and_then(|reader| reader.state()).ok()?.end().cloned()
}

/// When the measured phase began; the run's origin where its end is not known.
pub fn measure_begin(reader: &RunReader) -> Result<Nanos, Refusal> {
    let state = reader.state().map_err(unreadable)?;
    Ok(state.end().map_or(reader.info().origin, |end| end.measure_begin))
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub fn unreadable(why: Error) -> Refusal {
    Refusal::usage(why.to_string(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A staircase measures the steps around its knee twice.
    #[test]
    fn a_staircase_has_the_last_run_of_each_step() {
        let runs = ["000-n=1", "001-n=2", "002-n=4", "003-n=4", "004-n=1"].map(PathBuf::from);
        assert_eq!(
            last_of_each(runs.to_vec()),
            ["004-n=1", "001-n=2", "003-n=4"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_folder_that_is_no_run_is_refused_and_has_no_end() {
        let temporary = tempfile::tempdir().unwrap();
        assert!(open(temporary.path()).unwrap_err().to_string().contains("plan.json"));
        assert_eq!(end(temporary.path()), None);
        let missing = open(&temporary.path().join("nope")).unwrap_err().to_string();
        assert!(missing.contains("there is no such folder\n  `tokometer bench`"), "{missing}");
        for point in ["001-b", "000-a"] {
            std::fs::create_dir(temporary.path().join(point)).unwrap();
            std::fs::write(temporary.path().join(point).join("plan.json"), "{}").unwrap();
        }
        let sweep = open(temporary.path()).unwrap_err().to_string();
        assert!(
            sweep.contains("it holds 2 runs\n  give one of them") && sweep.contains("000-a"),
            "{sweep}"
        );
    }
}
