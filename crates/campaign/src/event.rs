//! What happens in a campaign, for a terminal, a page or a test.

use tokometer_base::Nanos;
use tokometer_base::refusal::Refusal;
use tokometer_decide::capacity::{LoadKind, MeasuredPoint};
use tokometer_decide::search::{Design, Expected, Forecast};
use tokometer_decide::staircase::{StairEnd, StairStep};

use crate::executor::RunRecord;
use crate::outcome::{PlannedRun, Reading};

pub enum Event<'a> {
    /// A run is about to be made; one that is stored already will be read.
    Started {
        run: &'a PlannedRun,
        /// Whether an earlier session has made it.
        is_stored: bool,
    },
    /// A run has ended and was read. An error becomes that of the run.
    Done {
        run: &'a PlannedRun,
        record: &'a RunRecord,
        /// What it shows. An observer that keeps the figures may take them.
        reading: &'a mut Reading,
    },
    /// A run could not be made, read or shown.
    Failed {
        run: &'a PlannedRun,
        refusal: &'a Refusal,
    },
    /// The server does not respond, and is waited for.
    Waiting,
    Note(String),
    /// Something failed; the campaign goes on or says itself why it does not.
    Problem(String),
    /// A step of a staircase was taken.
    Step {
        step: &'a StairStep,
        /// The part of the budget that is left.
        left: Nanos,
    },
    /// A staircase has ended that only finds the first load of a search.
    StairsDone {
        steps: &'a [StairStep],
        end: StairEnd,
    },
    Search(SearchEvent<'a>),
}

/// What a search for capacity says while it measures.
pub enum SearchEvent<'a> {
    /// A staircase finds the first load, in at most this time.
    FirstLoad(Nanos),
    /// Before the first point: what to expect from a server that completes at most `rate` requests per
    /// second.
    Forecast {
        forecast: &'a Forecast,
        /// The margin that was asked for.
        resolution: f64,
        rate: f64,
        /// Requests that a point needs for its percentiles.
        needed: u64,
    },
    /// There is no time for an estimate whose points last at least so long.
    NoEstimate(Nanos),
    /// Before the first point of the second stage.
    SecondStage {
        /// Its loads.
        design: &'a Design,
        over: LoadKind,
        /// Seconds that it takes.
        seconds: f64,
        /// The flags that give it more.
        more: &'static str,
        expected: Option<Expected>,
    },
    /// Before the first run that is to hold a load: the estimate in words, and the time of each run that
    /// counts.
    ThirdStage { estimate: &'a str, counted: Nanos },
    /// After a point: all points so far, and the time left.
    Course {
        points: &'a [MeasuredPoint],
        over: LoadKind,
        /// Absent where no time bounds the search.
        left: Option<Nanos>,
    },
}

pub trait Observer {
    /// Takes one. An error ends the campaign, except that of a run that was just made.
    fn event(&mut self, event: Event<'_>) -> Result<(), Refusal>;
}

/// Takes no notice.
impl Observer for () {
    fn event(&mut self, _event: Event<'_>) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Tells a remark. Only a run's own end can refuse an event.
pub(crate) fn note(observer: &mut dyn Observer, text: impl Into<String>) {
    let _ = observer.event(Event::Note(text.into()));
}

pub(crate) fn problem(observer: &mut dyn Observer, text: impl Into<String>) {
    let _ = observer.event(Event::Problem(text.into()));
}
