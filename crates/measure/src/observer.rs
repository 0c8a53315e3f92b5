//! Who watches a measurement: a progress bar, a dashboard, an exporter, or nobody.
//!
//! The measurement tells what happens and never how it is shown.

use std::sync::Arc;

use tokometer_drive::{Interrupt, Live};
use tokometer_plan::{Load, Plan};

use crate::error::Error;
use crate::live_notes::LiveNotes;

/// Watches a measurement. Called from the thread that measures, except [`Observer::remark_once`],
/// which the thread between two phases calls as well.
pub trait Observer: Send + Sync {
    /// Something that the user should know now.
    fn remark(&self, text: &str);

    /// The same for something that holds for every run of a sweep: shown the first time only.
    fn remark_once(&self, text: &str);

    /// A run is about to be driven. What is returned lives until the run has ended.
    fn run_begins(&self, run: &Underway<'_>) -> Result<Guard, Error>;

    /// Sends the user's interrupts to `interrupt` until the guard is dropped.
    fn route_interrupts(&self, interrupt: &Arc<Interrupt>) -> Guard;

    /// Whether the user has interrupted the measurement.
    fn is_interrupted(&self) -> bool;
}

/// Keeps something alive until it is dropped.
pub struct Guard {
    _kept: Box<dyn Send>,
}

impl Guard {
    /// Keeps `value`.
    pub fn new(value: impl Send + 'static) -> Self {
        Self { _kept: Box::new(value) }
    }
}

/// A run under way, for whoever shows it.
pub struct Underway<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// When it will have ended.
    pub goal: Goal,
    /// Its counters.
    pub live: &'a Arc<Live>,
    /// Ends it early.
    pub interrupt: &'a Arc<Interrupt>,
    /// Gauges of the server, and doubts so far.
    pub notes: &'a Arc<LiveNotes>,
}

/// When a run will have ended.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// Requests to end; absent: no such limit.
    pub requests: Option<u64>,
    /// Seconds until sending stops; absent: no such limit.
    pub seconds: Option<f64>,
}

impl Goal {
    /// The goal of a load that sends `requests` prompts at most.
    pub fn new(load: &Load, requests: u64) -> Self {
        let requests = load.num_prompts.map(|_| requests);
        Self { requests, seconds: load.duration_s }
    }
}
