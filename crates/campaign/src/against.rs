//! Two targets in turn, in one run.
//!
//! The blocks of both targets are not runs of their own: they share open connections, warm-ups and one
//! record, and a block begins when the previous one has drained. The procedure therefore asks for one
//! run, whose plan has two targets; the executor alternates.

use tokometer_base::refusal::Refusal;
use tokometer_decide::compare::Comparison;

use crate::driver::{Procedure, Step};
use crate::event::Observer;
use crate::outcome::{Fate, Outcome, PlannedRun};

/// The comparison of two targets.
pub struct Against {
    /// Its plan has two targets.
    pub run: PlannedRun,
}

/// What a comparison of two targets came to.
#[derive(Debug)]
pub struct Compared {
    /// How the run came out.
    pub fate: Fate,
    /// Absent where one target has no success.
    pub comparison: Option<Comparison>,
}

impl Procedure for Against {
    type Findings = Compared;

    fn next(
        &mut self,
        done: &[Outcome],
        _observer: &mut dyn Observer,
    ) -> Result<Step<Compared>, Refusal> {
        let Some(only) = done.first() else {
            return Ok(Step::Run(Box::new(self.run.clone())));
        };
        let reading = only.reading.as_ref().map_err(Refusal::clone)?;
        let comparison = reading.comparison.clone();
        Ok(Step::Finished(Compared { fate: reading.fate, comparison }))
    }
}
