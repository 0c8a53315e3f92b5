//! The time that bounds a search.

use std::sync::Arc;

use tokometer_base::{Clock, Nanos};
use tokometer_decide::search::{SecondStage, StageBudget, second_stage};

use super::CapacityArgs;
use crate::exit::Refusal;
use crate::lower::{Preset, seconds};

/// Time for a search whose command line is an address and objectives.
const BUDGET_S: f64 = 300.0;
/// A search may exceed its budget by this share, rather than lose its last point.
const SLACK: f64 = 0.03;

/// The budget of a search; `None`: its points and their length bound it.
pub(super) fn budget(args: &CapacityArgs, presets: &[Preset]) -> Result<Option<Nanos>, Refusal> {
    let is_bounded = args.points.is_some() || args.max_duration.is_some();
    let preset = || presets.iter().rev().find_map(|preset| preset.at.budget.as_deref());
    let preset = || preset().filter(|_| !is_bounded);
    let typed = seconds("--budget", args.at.budget.as_deref().or_else(preset))?;
    if typed.is_some_and(|seconds| seconds <= 0.0) {
        return Err(Refusal::usage("`--budget` must be greater than zero", "write it as `5m`"));
    }
    let usual = (args.at.url.is_some() && !is_bounded).then_some(BUDGET_S);
    Ok(typed.or(usual).map(Nanos::from_secs_f64))
}

/// The clock of a search that ends in time.
pub(crate) struct SearchTime {
    clock: Arc<dyn Clock>,
    begin: Nanos,
    end: Nanos,
    /// Whether the number of points follows from the time.
    pub(super) are_points_open: bool,
    /// Whether their length does.
    pub(super) is_length_open: bool,
}

impl SearchTime {
    /// From now to `end`.
    pub(super) fn new(clock: &Arc<dyn Clock>, end: Nanos, args: &CapacityArgs) -> Self {
        Self {
            clock: Arc::clone(clock),
            begin: clock.now(),
            end,
            are_points_open: args.points.is_none(),
            is_length_open: args.max_duration.is_none(),
        }
    }

    /// The time since the begin of the search proper, and until the end.
    pub(super) fn forecast_span(&self, budget: Nanos) -> (Nanos, Nanos) {
        (budget.saturating_sub(self.left()), self.left())
    }

    /// The time until the end.
    pub(super) fn left(&self) -> Nanos {
        self.end - self.clock.now()
    }

    /// Whether a further point of this length ends too late, after so many.
    pub(super) fn is_late(&self, length: Nanos, points: usize) -> bool {
        let slack = Nanos::from_secs_f64((self.end - self.begin).as_secs_f64() * SLACK);
        points > 0 && length > self.left() + slack
    }

    /// The second stage in the time that is left, after `points` that `sent` their load for so long.
    /// `bounds`: the time that each of its points should count, and the least that says anything.
    pub(super) fn second_stage(
        &self,
        (sent, points): (Nanos, usize),
        (wanted, least): (Nanos, Nanos),
    ) -> Option<SecondStage> {
        let all = self.clock.now() - self.begin;
        let overhead = Nanos((all - sent).0 / points.max(1) as u64);
        second_stage(StageBudget { left: self.left(), overhead, wanted, least })
    }
}
