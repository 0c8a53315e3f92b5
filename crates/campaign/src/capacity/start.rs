//! Where a search begins: a load near the knee of a short staircase.

use tokometer_base::Nanos;
use tokometer_decide::capacity::LoadKind;
use tokometer_decide::search::SeenMost;
use tokometer_decide::staircase::{StairAim, StairStep, Staircase, knee};

/// The folder of the staircase, beside the points of the search.
pub const STAIRS: &str = "staircase";
/// The staircase gets this part of the budget, and no more than so much.
const PART: u64 = 6;
const LONGEST: Nanos = Nanos::from_secs(60);
/// Most requests in flight of the staircase.
const MOST_IN_FLIGHT: u32 = 1_024;
/// The first load, as a share of the highest throughput in a closed loop: the next load exceeds that
/// throughput, so that two points mostly find the bracket.
const FIRST: f64 = 0.78;

/// The staircase of a search with this budget.
pub(super) fn staircase(budget: Nanos) -> Staircase {
    let budget = Nanos(budget.0 / PART).min(LONGEST);
    // The time that it leaves is the search's.
    Staircase { budget, most: MOST_IN_FLIGHT, aim: StairAim::Most }
}

/// What the step with most requests per second shows.
pub(super) fn most(steps: &[StairStep]) -> Option<SeenMost> {
    let seen =
        |step: &StairStep| Some(SeenMost { rate: step.requests_per_s?, response_s: step.e2e_s });
    steps.iter().filter_map(seen).max_by(|a, b| a.rate.total_cmp(&b.rate))
}

/// The first load after these steps.
pub(super) fn first_load(steps: &[StairStep], over: LoadKind) -> f64 {
    match over {
        LoadKind::RequestRate => FIRST * most(steps).map_or(1.0, |most| most.rate),
        LoadKind::Sessions => 1.0,
        LoadKind::Concurrency => {
            let knee = knee(steps).or(steps.len().checked_sub(1));
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
