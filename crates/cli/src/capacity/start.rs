//! Where a search begins: the server behind an address, and a load near its knee.

use std::path::Path;
use std::sync::Arc;

use tokometer_base::Nanos;
use tokometer_decide::capacity::LoadKind;
use tokometer_decide::staircase::{StairStep, Staircase, StaircaseFindings};
use tokometer_measure::IdentifiedServer;
use tokometer_plan::Plan;

use super::CapacityArgs;
use crate::bench::{Earlier, KeptEvents, RunFolder, StaircaseRun, check_resumed};
use crate::commands::Given;
use crate::exit::Refusal;
use crate::runs;
use crate::shards::RunPart;
use crate::terminal::print_note;
use tokometer_report::staircase;

/// The folder of the staircase, beside the points of the search.
const FOLDER: &str = "staircase";
/// The staircase gets this part of the budget, and no more than so much.
const PART: u64 = 6;
const LONGEST: Nanos = Nanos::from_secs(60);
/// Most requests in flight of the staircase.
const MOST_IN_FLIGHT: u32 = 1_024;
/// The first load, as a share of the highest throughput in a closed loop: the next load exceeds that
/// throughput, so that two points mostly find the bracket.
const FIRST: f64 = 0.78;

/// The first step of a search with a budget.
pub(super) struct StartSearch<'a> {
    pub(super) args: &'a CapacityArgs,
    pub(super) plan: &'a Plan,
    /// `None` where its backend was named.
    pub(super) server: Option<IdentifiedServer>,
    pub(super) budget: Nanos,
    /// What becomes of the events of its steps.
    pub(super) events: KeptEvents,
}

/// Where a search begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchStart {
    pub(super) load: f64,
    /// Most requests per second that the server completed; `None` where nothing was measured.
    pub(super) rate: Option<f64>,
}

impl StartSearch<'_> {
    /// The first load: as typed, otherwise near the knee of a short staircase.
    pub(super) fn load(self, part: &mut RunPart, given: &Given) -> Result<SearchStart, Refusal> {
        let (over, most) = (LoadKind::from(self.args.over), self.args.max);
        if let Some(load) = self.args.start {
            let rate = (over == LoadKind::RequestRate).then_some(load);
            return Ok(SearchStart { load, rate });
        }
        let folder = part.place.path().join(FOLDER);
        let stored = staircase::read(&folder).filter(|_| part.earlier == Earlier::Resumed);
        if stored.is_some() {
            self.check_steps(&folder)?;
        }
        let findings = match stored {
            Some(findings) => findings,
            None => self.climbed(part, &folder, given)?,
        };
        let load = first_load(&findings.steps, over).clamp(most.min(0.1), most);
        print_note(&findings.sentence());
        Ok(SearchStart { load, rate: most_per_s(&findings.steps) })
    }

    /// Refuses the steps of another plan.
    fn check_steps(&self, folder: &Path) -> Result<(), Refusal> {
        for step in runs::points(folder) {
            let mut meant = self.plan.clone();
            if let Ok(stored) = Plan::of(runs::open(&step)?.info()) {
                meant.load = stored.load;
            }
            check_resumed(&step, &meant)?;
        }
        Ok(())
    }

    fn climbed(
        self,
        part: &mut RunPart,
        folder: &Path,
        given: &Given,
    ) -> Result<StaircaseFindings, Refusal> {
        let budget = Nanos(self.budget.0 / PART).min(LONGEST);
        print_note(&format!("finding the first load: a staircase of at most {budget}"));
        // An unfinished staircase cannot be continued: its steps follow from each other.
        let earlier = match part.earlier {
            Earlier::Refused => Earlier::Refused,
            Earlier::Resumed | Earlier::Removed => Earlier::Removed,
        };
        let place = RunFolder::named(folder, earlier)?;
        let server = self.server.unwrap_or_else(|| IdentifiedServer {
            identity: tokometer_measure::ServerIdentity::default(),
            model: None,
            backend: self.plan.targets[0].backend,
            context_tokens: None,
        });
        let run = StaircaseRun {
            plan: self.plan,
            staircase: Staircase { budget, most: MOST_IN_FLIGHT },
            server,
            clock: Arc::clone(&given.clock),
            events: self.events,
        };
        let climbed = run.climb(&mut part.measurement, &place, &part.role);
        place.leave_if_empty();
        let climbed = climbed?;
        climbed.write(folder)?;
        Ok(climbed.findings)
    }
}

/// Most requests per second of these steps.
fn most_per_s(steps: &[StairStep]) -> Option<f64> {
    steps.iter().filter_map(|step| step.requests_per_s).max_by(f64::total_cmp)
}

/// The first load after these steps.
fn first_load(steps: &[StairStep], over: LoadKind) -> f64 {
    match over {
        LoadKind::RequestRate => FIRST * most_per_s(steps).unwrap_or(1.0),
        LoadKind::Concurrency => {
            let knee = tokometer_decide::staircase::knee(steps).or(steps.len().checked_sub(1));
            let flights = knee.map_or(1, |at| steps[at].concurrency);
            f64::from(flights.div_ceil(2))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_load_is_below_the_highest_throughput() {
        let step = |concurrency, rate: f64| StairStep {
            concurrency,
            requests_per_s: Some(rate),
            output_tokens_per_s: Some(100.0 * rate),
            e2e_s: Some(1.0),
            succeeded: 10,
            failed: 0,
        };
        let steps = [step(1, 10.0), step(2, 20.0), step(4, 39.0), step(8, 40.0)];
        assert!((first_load(&steps, LoadKind::RequestRate) - 31.2).abs() < 1e-9);
        assert!((first_load(&steps, LoadKind::Concurrency) - 2.0).abs() < 1e-9);
        assert!((first_load(&[], LoadKind::Concurrency) - 1.0).abs() < 1e-9);
    }
}
