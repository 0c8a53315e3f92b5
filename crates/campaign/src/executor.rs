//! What makes a run from its plan.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_base::{Clock, Nanos};
use tokometer_measure::{MeasuredRun, Measurement};
use tokometer_record::stored::unreadable;
use tokometer_record::{self as record, RunEnd, RunReader, RunState};

use crate::event::{Event, Observer};
use crate::outcome::PlannedRun;
use crate::virtual_time::PredictedPoint;

/// What a run left.
pub struct RunRecord {
    /// What was known before it, and its requests. Of a run in virtual time all of it is in memory.
    pub reader: RunReader,
    pub end: RunEnd,
    /// Why it could not be written to its end.
    pub write_failure: Option<record::Error>,
    /// Whether the process that leads the run did not get this part of it.
    pub is_withheld: bool,
    /// SGLang's `/server_info`; absent: not requested, or no answer.
    pub server_info: Option<Value>,
    /// What a prediction shows besides its record, where that was asked for.
    pub predicted: Option<Box<PredictedPoint>>,
}

impl RunRecord {
    pub fn open(folder: &Path) -> Result<Self, Refusal> {
        let reader = RunReader::open(folder).map_err(unreadable)?;
        match reader.state().map_err(unreadable)? {
            RunState::Ended(end) => Ok(Self::new(reader, *end)),
            RunState::Killed { .. } => {
                let message = format!("cannot use `{}`: its run was killed", folder.display());
                Err(Refusal::usage(message, ""))
            }
        }
    }

    pub(crate) fn new(reader: RunReader, end: RunEnd) -> Self {
        Self {
            reader,
            end,
            write_failure: None,
            is_withheld: false,
            server_info: None,
            predicted: None,
        }
    }
}

/// The refusal for a file that cannot be written.
pub(crate) fn unwritten(why: &impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalKind::Write, why.to_string())
}

/// Makes runs, one after the other.
pub trait Executor {
    fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Result<RunRecord, Refusal>;

    /// The time, on the clock that the runs take theirs from.
    fn now(&self) -> Nanos;

    /// Completes what an earlier session left unfinished of a run.
    fn prepare(&mut self, _run: &PlannedRun, _observer: &mut dyn Observer) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether an earlier session has made this run, so that it will only be read.
    fn is_stored(&self, _run: &PlannedRun) -> bool {
        false
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    /// Whether the server of the last run has become unreachable.
    fn is_target_gone(&self) -> bool {
        false
    }

    /// Waits a while for a server that went away. True when it answers again, or when the user does not want
    /// to wait.
    fn await_return(&mut self, _observer: &mut dyn Observer) -> bool {
        true
    }

    /// Waits a while for the server to finish what it works on.
    fn await_idle(&mut self) {}

    /// Merges the parts of a run that an earlier session left unmerged in its folder.
    fn recover(&mut self, _folder: &Path, _observer: &mut dyn Observer) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Against a server, in this process.
pub struct Live {
    pub measurement: Measurement,
    /// Time outside of runs.
    pub clock: Arc<dyn Clock>,
}

impl Executor for Live {
    fn run(
        &mut self,
        run: &PlannedRun,
        _observer: &mut dyn Observer,
    ) -> Result<RunRecord, Refusal> {
        let MeasuredRun { folder, end, write_failure, reader } =
            self.measurement.run(&run.plan, run.number, &run.folder)?;
        let reader = match reader {
            Some(reader) => reader,
            None => RunReader::open(&folder).map_err(unreadable)?,
        };
        let server_info = self.measurement.server_info(&run.plan);
        Ok(RunRecord { write_failure, server_info, ..RunRecord::new(reader, end) })
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn is_interrupted(&self) -> bool {
        self.measurement.is_interrupted()
    }

    fn is_target_gone(&self) -> bool {
        self.measurement.is_target_gone()
    }

    fn await_return(&mut self, observer: &mut dyn Observer) -> bool {
        self.measurement.wait_for_return(|| {
            let _ = observer.event(Event::Waiting);
        })
    }

    fn await_idle(&mut self) {
        self.measurement.wait_until_idle();
    }
}
