//! A short staircase of concurrency: a run per step, and longer ones around the knee.
//!
//! Which run comes next is decided by [`tokometer_decide::staircase`] from the runs alone. The folder is
//! that of a sweep over `load.max_concurrency`.

use std::path::PathBuf;

use tokometer_base::Nanos;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_decide::staircase::{FullSlots, StairEnd, StairNext, StairStep, Staircase, steps};
use tokometer_figures::SummaryOptions;
use tokometer_plan::{Plan, Rate};
use tokometer_record::stored::timelines;

use crate::driver::{Procedure, Step};
use crate::event::{Event, Observer, problem};
use crate::executor::RunRecord;
use crate::kept_events::KeptEvents;
use crate::outcome::{Fate, Outcome, PlannedRun, Reading, RunRest};
use crate::sweep::point_folder;

pub struct Stairs {
    /// Its budget and its highest step.
    pub staircase: Staircase,
    /// Every step's plan but for its load.
    pub plan: Plan,
    pub folder: PathBuf,
    /// Figures of each step.
    pub figures: SummaryOptions,
    /// What becomes of the events of each step.
    pub kept_events: KeptEvents,
    /// When the budget begins, on the executor's clock.
    pub begin: Nanos,
}

/// The steps of a staircase.
#[derive(Debug)]
pub struct Climbed {
    /// Those with a result, each as it was measured last.
    pub steps: Vec<StairStep>,
    /// Why there are no more.
    pub end: StairEnd,
    pub fates: Vec<Fate>,
}

impl Climbed {
    /// Whether it ended because nothing succeeded at all.
    pub(crate) fn is_dead(&self) -> bool {
        self.end == StairEnd::Failing && self.steps.iter().all(|step| step.succeeded == 0)
    }
}

/// A run that comes next.
#[derive(Debug, Clone, Copy)]
struct StairRun {
    concurrency: u32,
    length: Nanos,
    requests: Option<u64>,
}

impl Stairs {
    fn run(&self, number: usize, next: StairRun) -> PlannedRun {
        let StairRun { concurrency, length, requests } = next;
        let mut plan = self.plan.clone();
        plan.load.max_concurrency = Some(concurrency);
        plan.load.request_rate = Rate(f64::INFINITY);
        plan.load.num_prompts = requests;
        (plan.load.stages, plan.load.until) = (Vec::new(), None);
        plan.load.duration_s = Some(length.as_secs_f64());
        let label = format!("max_concurrency={concurrency}");
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        PlannedRun {
            number,
            folder: point_folder(&self.folder, number, &label),
            label,
            plan,
            figures: self.figures.clone(),
            kept_events: self.kept_events,
            rest: RunRest::None,
        }
    }

    /// A run as a step.
    pub(crate) fn reading(run: &PlannedRun, record: &RunRecord) -> Result<Reading, Refusal> {
        let reading = Reading::of(run, record)?;
        let concurrency = run.plan.load.max_concurrency.unwrap_or_default();
        let mut full = FullSlots::default();
        timelines(&record.reader)?.for_each(|timeline| full.add(&timeline));
        let step = |summary| StairStep::new(concurrency, summary).while_full(&full);
        let step = reading.sides.first().map(|side| step(&side.summary));
        Ok(Reading { step, ..reading })
    }
}

impl Procedure for Stairs {
    type Findings = Climbed;

    fn next(
        &mut self,
        done: &[Outcome],
        observer: &mut dyn Observer,
    ) -> Result<Step<Climbed>, Refusal> {
        let step = |outcome: &Outcome| outcome.reading.as_ref().ok()?.step.clone();
        let runs: Vec<StairStep> = done.iter().filter_map(step).collect();
        let spent = done.last().map_or(Nanos::ZERO, |last| last.ended - self.begin);
        let fates = || done.iter().map(Outcome::fate).collect();
        if let Some(last) = done.last() {
            let is_failing = self.tell(last, &runs, spent, observer)?;
            if is_failing || last.is_interrupted {
                let end = if is_failing { StairEnd::Failing } else { StairEnd::Interrupted };
                return Ok(Step::Finished(Climbed { steps: steps(&runs), end, fates: fates() }));
            }
        }
        Ok(match self.staircase.next(&runs, spent) {
            StairNext::Done(end) => {
                Step::Finished(Climbed { steps: steps(&runs), end, fates: fates() })
            }
            StairNext::Measure { concurrency, length, requests } => {
                let next = StairRun { concurrency, length, requests };
                Step::Run(Box::new(self.run(runs.len(), next)))
            }
        })
    }

    fn read(&self, run: &PlannedRun, record: &RunRecord) -> Result<Reading, Refusal> {
        Self::reading(run, record)
    }
}

impl Stairs {
    /// Tells how the last step came out; true where it could not be made. Without any step there is no
    /// staircase.
    fn tell(
        &self,
        last: &Outcome,
        runs: &[StairStep],
        spent: Nanos,
        observer: &mut dyn Observer,
    ) -> Result<bool, Refusal> {
        match (&last.reading, runs.last()) {
            (Ok(_), Some(step)) => {
                let left = self.staircase.budget.saturating_sub(spent);
                observer.event(Event::Step { step, left })?;
                Ok(false)
            }
            (Err(refusal), None) => Err(refusal.clone()),
            (Err(refusal), Some(_)) if refusal.kind != RefusalKind::Interrupted => {
                let flights = last.run.plan.load.max_concurrency.unwrap_or_default();
                problem(observer, format!("error: {flights} in flight: {refusal}"));
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
