//! Run folders on disk: opened, and turned into a summary in one way for all commands.

use std::path::{Path, PathBuf};

use tokometer_decide::AbBlocks;
use tokometer_figures::{Collector, Summary, SummaryOptions};
use tokometer_plan::ab_blocks;
use tokometer_record::folder::names;
use tokometer_record::{
    self as record, RunEnd, RunInfo, RunReader, RunState, Timeline, timeline_bytes,
};

use crate::ahead::Ahead;
use crate::exit::Refusal;
use crate::terminal::print_message;

/// Opens a run folder. One that is missing or is no run is a mistake in the command line.
pub(crate) fn open(folder: &Path) -> Result<RunReader, Refusal> {
    RunReader::open(folder).map_err(|why| {
        let shown = folder.display();
        if !folder.exists() {
            let hint = "`tokometer bench` writes run folders below `runs/`";
            return Refusal::usage(format!("cannot read `{shown}`: there is no such folder"), hint);
        }
        match (&why, points(folder).as_slice()) {
            (record::Error::NotARun { .. }, [first, rest @ ..]) => Refusal::usage(
                format!("cannot read `{shown}` as a run: it holds {} runs", rest.len() + 1),
                format!("give one of them, such as `{}`", first.display()),
            ),
            _ => unreadable(why),
        }
    })
}

/// The runs below a folder that is no run itself, such as the points of a sweep, in order. None where
/// the folder cannot be read.
pub(crate) fn points(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut runs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|entry| entry.join(names::PLAN).is_file())
        .collect();
    runs.sort();
    runs
}

/// The first run below a folder that is no run itself.
pub(crate) fn first_point(folder: &Path) -> Option<PathBuf> {
    let is_run = folder.join(names::PLAN).is_file();
    points(folder).into_iter().next().filter(|_| !is_run)
}

/// Every ended request of a run, decoded by a second thread.
pub(crate) fn timelines(reader: &RunReader) -> Result<impl Iterator<Item = Timeline>, Refusal> {
    let timelines = reader.timelines().map_err(unreadable)?;
    Ok(Ahead::of(timelines, timeline_bytes))
}

/// The summary of a run: requests, scrapes and how it ended.
pub(crate) fn summary(reader: &RunReader, options: SummaryOptions) -> Result<Summary, Refusal> {
    let mut collector = Collector::new(reader.info(), options);
    let timelines = timelines(reader)?;
    // Before the rows take memory: for a killed run it lists all attempts.
    let state = reader.state().map_err(unreadable)?;
    for timeline in timelines {
        collector.push(&timeline);
    }
    for scrape in reader.scrapes().map_err(unreadable)? {
        collector.push_scrape(&scrape);
    }
    let summary = tokometer_judge::judge(collector.finish(&state));
    tell_damages(reader);
    Ok(summary)
}

/// Damaged batches that are named one by one.
const DAMAGES_TOLD: usize = 5;

/// Names the batches that could not be read.
pub(crate) fn tell_damages(reader: &RunReader) {
    let damages = reader.take_damages();
    for damage in damages.iter().take(DAMAGES_TOLD) {
        print_message(&format!("error: {damage}"));
    }
    if damages.len() > DAMAGES_TOLD {
        print_message(&format!(
            "error: cannot read {} further batches",
            damages.len() - DAMAGES_TOLD
        ));
    }
    if !damages.is_empty() {
        print_message("  the figures are those of the other batches");
    }
}

/// The blocks in which two targets of a run took turns; `None` for a run with one target.
pub(crate) fn blocks_of(info: &RunInfo) -> Result<Option<AbBlocks>, Refusal> {
    ab_blocks(info).map_err(|why| {
        Refusal::usage(format!("cannot separate the requests of the two targets: {why}"), "")
    })
}

/// How the run in a folder ended; `None` for a killed run, and where there is none.
pub(crate) fn end(folder: &Path) -> Option<RunEnd> {
    match RunReader::open(folder).and_then(|reader| reader.state()) {
        Ok(RunState::Ended(end)) => Some(*end),
        Ok(RunState::Killed { .. }) | Err(_) => None,
    }
}

/// The refusal for a record that cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub(crate) fn unreadable(why: record::Error) -> Refusal {
    Refusal::usage(why.to_string(), "")
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;
    use tokometer_record::{Health, RunWriter, Stop};

    use super::*;

    fn info() -> RunInfo {
        serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap()
    }

    /// Such a run was reported as one of a single target, with the requests of both mixed.
    #[test]
    fn a_run_of_two_targets_whose_plan_is_unreadable_is_refused() {
        let mut info = info();
        assert_eq!(blocks_of(&info).unwrap(), None, "one target needs no plan");
        info.targets.push(info.targets[0].clone());
        info.plan = serde_json::json!({ "interleave": "?" });
        assert!(blocks_of(&info).unwrap_err().to_string().contains("two targets"));
    }

    /// `compare` once left the scrapes out, so that its verdict could differ from the report's.
    #[test]
    fn a_summary_holds_what_was_scraped_and_how_the_run_ended() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        let mut writer = RunWriter::create(&folder, &info()).unwrap();
        let scrape = record::server::Scrape {
            at: Nanos::from_secs(1),
            endpoint: 0,
            values: [("vllm:num_requests_running".to_owned(), 3.0)].into(),
            error: None,
        };
        writer.scrape(&scrape).unwrap();
        let ended = RunEnd {
            stop: Stop::Complete,
            measure_begin: Nanos::ZERO,
            measure_end: Nanos::from_secs(2),
            abandoned: 0,
            never_sent: 1_000,
            health: Health::default(),
        };
        writer.finish(&ended).unwrap();
        let found = summary(&open(&folder).unwrap(), SummaryOptions::default()).unwrap();
        assert_eq!(found.server.and_then(|server| server.running_max), Some(3.0));
        assert_eq!(found.counts.never_sent, 1_000);
        assert_eq!(end(&folder), Some(ended));
    }

    #[test]
    fn a_folder_that_is_no_run_is_refused_and_has_no_end() {
        let place = tempfile::tempdir().unwrap();
        assert!(open(place.path()).unwrap_err().to_string().contains("plan.json"));
        assert_eq!(end(place.path()), None);
        let missing = open(&place.path().join("nope")).unwrap_err().to_string();
        assert!(missing.contains("there is no such folder\n  `tokometer bench`"), "{missing}");
        for point in ["001-b", "000-a"] {
            std::fs::create_dir(place.path().join(point)).unwrap();
            std::fs::write(place.path().join(point).join("plan.json"), "{}").unwrap();
        }
        let sweep = open(place.path()).unwrap_err().to_string();
        assert!(
            sweep.contains("it holds 2 runs\n  give one of them") && sweep.contains("000-a"),
            "{sweep}"
        );
    }
}
