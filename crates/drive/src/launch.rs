//! Puts a run together: threads, phases, and the account at its end.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokometer_record::RunEnd;

use crate::config::Config;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::item::{Notice, Prepare};
use crate::live::Live;

/// A call between the phases: flushing the server's cache, say. It gets the time it needs.
pub type Between = Box<dyn FnOnce() + Send>;

/// Where a run reports to, and who may stop it.
pub struct Outlets {
    /// Takes notices as requests start and end. A closed receiver ends the run as if the disk were
    /// full: what cannot be recorded need not be measured.
    pub notices: Sender<Notice>,
    /// Counters for a display.
    pub live: Arc<Live>,
    /// The wish to stop.
    pub interrupt: Arc<Interrupt>,
    /// Called after the warm-up, before the measured phase.
    pub between: Option<Between>,
}

/// Makes the run and blocks until it has ended. Requests that fail are notices; an error means that
/// there is no run to speak of.
pub fn run(config: Config, prepare: Box<dyn Prepare>, outlets: Outlets) -> Result<RunEnd, Error> {
    todo!()
}
