//! Points of a search that must end in time: how many, and how long.
//!
//! In: the time that is left, and what a point costs besides its own length. Out: bounds of the points'
//! lengths, and the number of points of the second stage. Both are fixed before the stage they belong to,
//! so that no result of a stage changes it.

use tokometer_base::Nanos;

use super::bracket::Bracket;
use super::design::Expected;
use super::edge::FEWEST;
use super::length::{least, wanted};
use super::preload::with_preload;
use super::{PointLength, SearchLimits};
use crate::slo::Slo;

/// The first stage has about eight points: the longest of them takes this part of the time.
const FIRST_PART: u64 = 16;
/// Requests that a point sends at least at the first load: a point without any tells nothing.
const LEAST_REQUESTS: f64 = 10.0;
/// Its shortest point, as a part of its longest.
const SHORTEST_PART: u64 = 3;
/// Points of the second stage: fewer say too little of their own scatter, more are worth their
/// overhead only if they are long enough.
const USUAL_POINTS: usize = 6;
const MOST_POINTS: usize = 20;
/// Points of a search that ends by time.
pub const UNLIMITED_POINTS: usize = 100;

/// The second stage of a search that ends in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondStage {
    pub points: usize,
    /// Time of each that counts.
    pub counted: Nanos,
}

/// Of the time that the bracket leaves, the part of the runs that are to hold a load, and how many of them
/// should fit.
const HOLD_PART: f64 = 0.3;
const HOLD_RUNS: f64 = 2.0;
/// Each is no longer than this.
const LONGEST_HOLD: Nanos = Nanos::from_secs(300);

/// The second stage in its part of a budget; the least one where the budget has room for no other.
pub fn estimate_stage(budget: StageBudget) -> Option<SecondStage> {
    let StageBudget { left, overhead, least, .. } = budget;
    let part = Nanos::from_secs_f64(left.as_secs_f64() * (1.0 - HOLD_PART));
    let cost = (with_preload(least) + overhead).as_secs_f64();
    let fits = FEWEST as f64 * cost <= left.as_secs_f64();
    let shortest = || fits.then_some(SecondStage { points: FEWEST, counted: least });
    second_stage(StageBudget { left: part, ..budget }).or_else(shortest)
}

/// The time that each run counts that is to hold a load, in this budget.
pub fn hold_length(budget: StageBudget) -> Nanos {
    let StageBudget { left, overhead, least, .. } = budget;
    let each = left.as_secs_f64() / HOLD_RUNS - overhead.as_secs_f64();
    let counted = each / with_preload(Nanos::from_secs(1)).as_secs_f64();
    Nanos::from_secs_f64(counted.max(0.0)).min(LONGEST_HOLD).max(least)
}

/// The lengths of the first stage's points in a search with this much time, whose first load is `rate`
/// requests per second, where that is known.
pub fn first_lengths(left: Nanos, rate: Option<f64>) -> PointLength {
    let least = rate.map_or(0.1, |rate| LEAST_REQUESTS / rate);
    let longest = Nanos(left.0 / FIRST_PART).max(Nanos::from_secs_f64(least));
    let shortest = Nanos(longest.0 / SHORTEST_PART).max(Nanos::from_secs_f64(least));
    PointLength { shortest, longest }
}

/// The time that a second stage has, and what its points cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageBudget {
    /// For the whole stage.
    pub left: Nanos,
    /// What each point costs besides its length.
    pub overhead: Nanos,
    /// What each point should count.
    pub wanted: Nanos,
    /// What each point must count.
    pub least: Nanos,
}

/// The second stage that fits into a budget. `None` where too few points fit.
fn second_stage(budget: StageBudget) -> Option<SecondStage> {
    let StageBudget { left, overhead, wanted, least } = budget;
    // Where responses take long, the least is more than the sample would want.
    let cost = (with_preload(wanted.max(least)) + overhead).as_secs_f64().max(1e-3);
    let counted = |points: usize| {
        let each = left.as_secs_f64() / points as f64 - overhead.as_secs_f64();
        Nanos::from_secs_f64((each / with_preload(Nanos::from_secs(1)).as_secs_f64()).max(0.1))
    };
    let whole =
        (USUAL_POINTS..=MOST_POINTS).rfind(|points| cost * *points as f64 <= left.as_secs_f64());
    let is_long = |points: &usize| counted(*points) >= least;
    let points = whole.or_else(|| (FEWEST..=USUAL_POINTS).rfind(is_long))?;
    is_long(&points).then(|| SecondStage { points, counted: counted(points) })
}

/// Share of the time that the first stage leaves, about: two points to reach the limit, four to narrow it.
const LEFT_AFTER_FIRST: f64 = 0.6;
/// A search is said to need so many times what it is expected to need.
const NEEDED_RESERVE: f64 = 1.2;
/// The capacity, as a share of the highest throughput in a closed loop, about: objectives leave some of it.
const USUAL_CAPACITY: f64 = 0.8;

/// A first estimate of what a search can deliver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Forecast {
    Estimate {
        /// The margin, and the effort for the asked resolution.
        expected: Expected,
        /// The time that the asked resolution would take in all, staircase included.
        needed: Nanos,
    },
    /// The points for an estimate do not fit.
    TooShort {
        /// The least time of a point that counts.
        point: Nanos,
        /// The time of a search that has room for them.
        needed: Nanos,
    },
}

/// What a server was seen to do at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeenMost {
    /// Requests per second in a closed loop.
    pub rate: f64,
    /// Mean response time there, in seconds.
    pub response_s: Option<f64>,
}

impl SearchLimits {
    /// What a search can deliver in the time `left` after `spent`, on a server of which this was seen.
    /// `None` where the objectives give no estimate.
    pub fn forecast(
        &self,
        slo: &Slo,
        (spent, left): (Nanos, Nanos),
        most: SeenMost,
    ) -> Option<Forecast> {
        let rate = USUAL_CAPACITY * most.rate;
        let time = Nanos::from_secs_f64(LEFT_AFTER_FIRST * left.as_secs_f64());
        let least = least(slo, Some(rate), most.response_s);
        let budget = StageBudget {
            left: time,
            overhead: Nanos::ZERO,
            wanted: wanted(slo, Some(rate)),
            least,
        };
        let Some(stage) = estimate_stage(budget) else {
            let fewest = FEWEST as f64 * with_preload(least).as_secs_f64();
            let rest = left.as_secs_f64() * fewest / time.as_secs_f64();
            let needed = spent + Nanos::from_secs_f64(NEEDED_RESERVE * rest);
            return Some(Forecast::TooShort { point: least, needed });
        };
        // Only the distances of the loads from each other matter here, not where `--max` is.
        let free = Self { least: 0.0, most: f64::INFINITY, is_whole: false, ..*self };
        let design = free.design(&[], Bracket { low: 0.9 * rate, high: 1.1 * rate }, stage.points);
        let requests = rate * stage.counted.as_secs_f64();
        let expected = design.expected_before(slo, requests, self)?;
        let needed = spent.as_secs_f64() + left.as_secs_f64() * expected.effort.max(1.0);
        Some(Forecast::Estimate { expected, needed: Nanos::from_secs_f64(needed) })
    }

    #[must_use]
    pub fn with_points(self, points: usize) -> Self {
        Self { points, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::LIMITS;
    use super::*;

    fn stage(left: u64, overhead: u64, wanted: u64) -> (usize, f64) {
        let [left, overhead, wanted] = [left, overhead, wanted].map(Nanos::from_secs);
        let least = Nanos::from_secs(2);
        let found = second_stage(StageBudget { left, overhead, wanted, least }).unwrap();
        (found.points, found.counted.as_secs_f64())
    }

    #[test]
    fn the_second_stage_uses_the_time_that_is_left_and_no_more() {
        for (left, overhead, wanted) in [(160, 2, 80), (900, 2, 80), (30, 1, 80), (3_000, 5, 20)] {
            let (points, counted) = stage(left, overhead, wanted);
            let cost = points as f64 * (1.25 * counted + overhead as f64);
            assert!((cost / left as f64 - 1.0).abs() < 0.01, "{left} s: {points} of {counted} s");
        }
    }

    #[test]
    fn long_points_come_before_many_points() {
        assert_eq!(stage(160, 2, 80).0, 6);
        assert_eq!(stage(1_000, 2, 80).0, 9);
        assert_eq!(stage(3_000, 2, 10).0, 20);
        assert_eq!(stage(15, 1, 80).0, 4, "fewer points rather than points of no length");
    }

    #[test]
    fn points_that_would_be_too_short_are_not_measured() {
        let of = |left: u64| {
            let [left, overhead, wanted, least] = [left, 1, 80, 20].map(Nanos::from_secs);
            second_stage(StageBudget { left, overhead, wanted, least })
        };
        assert_eq!(of(100), None);
        assert_eq!(of(104).map(|stage| stage.points), Some(4));
        assert_eq!(of(160).map(|stage| stage.points), Some(6));
    }

    /// Points of 20 s did not fit into the part that is left besides the runs that hold a load.
    #[test]
    fn an_estimate_that_just_fits_is_made_and_leaves_the_rest() {
        let of = |left: u64| {
            let [left, overhead, wanted, least] = [left, 1, 80, 20].map(Nanos::from_secs);
            estimate_stage(StageBudget { left, overhead, wanted, least })
        };
        let shortest = SecondStage { points: 4, counted: Nanos::from_secs(20) };
        assert_eq!((of(103), of(104), of(148)), (None, Some(shortest), Some(shortest)));
        assert!(of(220).is_some_and(|stage| stage.counted > shortest.counted));
    }

    /// Responses of 30 s at 100 req/s: points of 120 s, not of the 32 s that their percentiles want. Six
    /// hundred seconds hold four of them; the search ended without an estimate.
    #[test]
    fn points_as_long_as_the_responses_ask_for_are_measured_where_they_fit() {
        let of = |left: u64| {
            let [left, wanted, least] = [left, 32, 120].map(Nanos::from_secs);
            second_stage(StageBudget { left, overhead: Nanos::ZERO, wanted, least })
                .map(|stage| stage.points)
        };
        assert_eq!((of(590), of(601), of(1_051)), (None, Some(4), Some(7)));
    }

    #[test]
    fn a_forecast_follows_the_time_and_the_server() {
        let slo = Slo::parse("p99 ttft < 2s").unwrap();
        let seen = |rate: f64| SeenMost { rate, response_s: None };
        let forecast = |left: u64, rate: f64| {
            let time = (Nanos::from_secs(50), Nanos::from_secs(left));
            match LIMITS.forecast(&slo, time, seen(rate)).unwrap() {
                Forecast::Estimate { expected, needed } => (expected, needed),
                other @ Forecast::TooShort { .. } => panic!("{other:?}"),
            }
        };
        let ((short, needed), (long, _)) = (forecast(250, 40.0), forecast(2_500, 40.0));
        assert!(short.margin > 2.0 * long.margin, "{short:?} {long:?}");
        assert!(forecast(250, 400.0).0.margin < short.margin);
        assert!(short.effort > 1.0 && needed > Nanos::from_secs(300), "{short:?} {needed}");
        let (enough, needed) = forecast(250, 20_000.0);
        assert!(enough.effort < 1.0, "{enough:?}");
        assert_eq!(needed, Nanos::from_secs(300));
        let mean = Slo::parse("mean ttft < 2s").unwrap();
        let time = (Nanos::ZERO, Nanos::from_secs(250));
        assert_eq!(LIMITS.forecast(&mean, time, seen(20.0)), None);
    }

    /// Five minutes hold too few requests for a P99 at 8 req/s; the search said so after the bracket.
    #[test]
    fn a_search_whose_points_do_not_fit_says_beforehand_which_time_would_do() {
        let slo = Slo::parse("p99 ttft < 2s").unwrap();
        let forecast = |left: u64, response_s: f64| {
            let time = (Nanos::from_secs(50), Nanos::from_secs(left));
            let most = SeenMost { rate: 10.0, response_s: Some(response_s) };
            LIMITS.forecast(&slo, time, most).unwrap()
        };
        let Forecast::TooShort { point, needed } = forecast(250, 1.0) else { panic!() };
        assert_eq!(point, Nanos::from_secs(46));
        // A search of that time has room for them.
        let rest = (needed - Nanos::from_secs(50)).0 / 1_000_000_000;
        assert!(matches!(forecast(rest, 1.0), Forecast::Estimate { .. }), "{needed}");
        assert!(matches!(forecast(rest, 30.0), Forecast::TooShort { .. }), "long responses");
    }

    #[test]
    fn runs_that_hold_a_load_share_the_rest_and_last_as_long_as_they_must() {
        let length = |left: u64| {
            let [left, least] = [left, 20].map(Nanos::from_secs);
            let [overhead, wanted] = [Nanos::from_secs(2), Nanos::ZERO];
            hold_length(StageBudget { left, overhead, wanted, least }).as_secs_f64()
        };
        assert!((length(84) - 32.0).abs() < 0.1, "{}", length(84));
        assert!((length(10) - 20.0).abs() < 0.1 && (length(9_000) - 300.0).abs() < 0.1);
    }

    #[test]
    fn points_of_the_first_stage_leave_most_of_the_time() {
        let lengths = first_lengths(Nanos::from_secs(240), Some(100.0));
        assert_eq!(
            (lengths.longest, lengths.shortest),
            (Nanos::from_secs(15), Nanos::from_secs(5))
        );
        let slow = first_lengths(Nanos::from_secs(240), Some(0.5));
        assert_eq!(slow.shortest, Nanos::from_secs(20), "long enough for ten requests");
    }
}
