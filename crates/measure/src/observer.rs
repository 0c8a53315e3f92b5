//! The interface to a display: a progress bar, a dashboard, an exporter, or none.
//!
//! The measurement reports what happens, not how it is shown.

use std::sync::Arc;

use tokometer_base::Nanos;
use tokometer_drive::{Interrupt, Live, LiveCounts};
use tokometer_plan::{Load, Plan};

use crate::Error;
use crate::live_notes::LiveNotes;

/// Receives progress. Called from the measuring thread; remarks also from the thread
/// between two phases and from the recorder.
pub trait Observer: Send + Sync {
    /// A message for the user.
    fn remark(&self, text: &str);

    /// The same for a message that applies to every run of a sweep: shown once.
    fn remark_once(&self, text: &str);

    /// What is under way before the first run begins, for a display that shows it.
    fn preparing(&self, step: &'static str);

    /// A run is about to start. The guard is dropped when it has ended.
    fn run_begins(&self, run: &RunInProgress<'_>) -> Result<Guard, Error>;

    /// Forwards the user's interrupts to `interrupt` until the guard is dropped.
    fn route_interrupts(&self, interrupt: &Arc<Interrupt>) -> Guard;

    /// Whether the user has interrupted the measurement.
    fn is_interrupted(&self) -> bool;
}

/// Owns a value until it is dropped, such as a display's thread.
pub struct Guard {
    _kept: Box<dyn Send>,
}

impl Guard {
    /// Drops `value` with the guard.
    pub fn new(value: impl Send + 'static) -> Self {
        Self { _kept: Box::new(value) }
    }
}

pub struct RunInProgress<'a> {
    /// As resolved, with all defaults.
    pub plan: &'a Plan,
    /// Number of the point of a sweep, from one, and of how many; `None` for a single run.
    pub point: Option<(u32, usize)>,
    pub goal: Goal,
    pub live: &'a Arc<Live>,
    /// Raise it to end the run early.
    pub interrupt: &'a Arc<Interrupt>,
    /// The server's gauges, and notes so far.
    pub notes: &'a Arc<LiveNotes>,
}

/// When a run will have ended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Goal {
    /// Requests; `None` without such a limit.
    pub requests: Option<u64>,
    /// Seconds until sending stops; `None` without such a limit.
    pub seconds: Option<f64>,
}

impl Goal {
    /// The limits of a load that sends at most `requests` prompts.
    pub fn new(load: &Load, requests: u64) -> Self {
        let requests = load.num_prompts.map(|_| requests);
        Self { requests, seconds: load.duration_s }
    }

    /// The part of the run that is over, between 0 and 1: by requests where their number is known,
    /// else by time.
    pub fn part_done(&self, counts: &LiveCounts, elapsed: Nanos) -> f64 {
        let by_count = self.requests.map(|all| counts.ended() as f64 / all.max(1) as f64);
        let by_time = self.seconds.map(|all| elapsed.as_secs_f64() / all.max(1e-9));
        by_count.or(by_time).unwrap_or(0.0).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_done_by_its_requests_or_else_by_its_time() {
        let counts = LiveCounts { succeeded: 30, failed: 10, ..LiveCounts::default() };
        let done =
            |requests, seconds| Goal { requests, seconds }.part_done(&counts, Nanos::from_secs(5));
        assert_eq!((done(Some(80), Some(6.0)), done(None, Some(20.0))), (0.5, 0.25));
        assert_eq!((done(Some(20), None), done(None, None)), (1.0, 0.0));
        assert_eq!((done(None, Some(0.0)), done(Some(0), None)), (1.0, 1.0));
    }
}
