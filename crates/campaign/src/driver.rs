//! The one loop of all campaigns.

use tokometer_base::refusal::Refusal;

use crate::event::{Event, Observer};
use crate::executor::{Executor, RunRecord};
use crate::outcome::{Fate, Outcome, PlannedRun, Reading, RunRest};

/// What to do next.
pub enum Step<F> {
    /// Make this run.
    Run(Box<PlannedRun>),
    /// Wait until the server answers again; the last outcome then says whether it does.
    AwaitServer,
    /// Nothing more.
    Finished(F),
}

/// Decides what is measured next, from what was measured.
pub trait Procedure {
    /// What it comes to.
    type Findings;

    /// The next step after these runs. An error ends the campaign.
    fn next(
        &mut self,
        done: &[Outcome],
        observer: &mut dyn Observer,
    ) -> Result<Step<Self::Findings>, Refusal>;

    /// What a run shows.
    fn read(&self, run: &PlannedRun, record: &RunRecord) -> Result<Reading, Refusal> {
        Reading::of(run, record)
    }
}

/// Drives a procedure to its findings.
pub fn run<P: Procedure>(
    procedure: &mut P,
    executor: &mut dyn Executor,
    observer: &mut dyn Observer,
) -> Result<P::Findings, Refusal> {
    let mut done: Vec<Outcome> = Vec::new();
    loop {
        let planned = match procedure.next(&done, observer)? {
            Step::Finished(findings) => return Ok(findings),
            Step::AwaitServer => {
                let is_back = executor.await_return(observer);
                if let Some(last) = done.last_mut() {
                    last.is_server_back = Some(is_back);
                }
                continue;
            }
            Step::Run(planned) => planned,
        };
        executor.prepare(&planned, observer)?;
        let is_stored = executor.is_stored(&planned);
        observer.event(Event::Started { run: &planned, is_stored })?;
        let reading = one(procedure, executor, observer, &planned);
        if let Err(refusal) = &reading {
            observer.event(Event::Failed { run: &planned, refusal })?;
        }
        done.push(Outcome {
            run: planned,
            reading,
            ended: executor.now(),
            is_stored,
            is_interrupted: executor.is_interrupted(),
            is_server_back: None,
        });
    }
}

fn one<P: Procedure>(
    procedure: &P,
    executor: &mut dyn Executor,
    observer: &mut dyn Observer,
    planned: &PlannedRun,
) -> Result<Reading, Refusal> {
    let record = executor.run(planned, observer)?;
    if planned.rest == RunRest::UntilIdle {
        executor.await_idle();
    }
    let mut reading = procedure.read(planned, &record)?;
    if reading.fate == Fate::Done && reading.has_refused_connections() && executor.is_target_gone()
    {
        reading.fate = Fate::TargetGone;
    }
    observer.event(Event::Done { run: planned, record: &record, reading: &mut reading })?;
    planned.kept_events.settle(&record, observer);
    Ok(reading)
}
