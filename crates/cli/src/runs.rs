//! Run folders on disk: opened, and turned into a summary in one way for all commands.

use std::path::Path;

use tokometer_metrics::{Collector, Options, Summary};
use tokometer_record::{self as record, RunEnd, RunReader, RunState, Timeline};

use crate::exit::Refusal;

/// Opens a run folder. One that is missing or is no run is a mistake in the command line.
pub(crate) fn open(folder: &Path) -> Result<RunReader, Refusal> {
    RunReader::open(folder).map_err(unreadable)
}

/// Every ended request of a run.
pub(crate) fn timelines(reader: &RunReader) -> Result<impl Iterator<Item = Timeline>, Refusal> {
    reader.timelines().map_err(unreadable)
}

/// The summary of a run: requests, scrapes and how it ended.
pub(crate) fn summary(reader: &RunReader, options: Options) -> Result<Summary, Refusal> {
    let mut collector = Collector::new(reader.info(), options);
    for timeline in timelines(reader)? {
        collector.push(&timeline);
    }
    for scrape in reader.scrapes().map_err(unreadable)? {
        collector.push_scrape(&scrape);
    }
    Ok(collector.finish(&reader.state().map_err(unreadable)?))
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
