//! The third stage of a search: a load that meets the objectives when it is run.
//!
//! In: the estimate, and the runs below it so far. Out: the load of the next run; none once one
//! has met all objectives. The estimate does not change: a load that was held is another answer, and
//! takes its own chance.

use super::bracket::rounded;
use super::edge::USUAL_SLOPE;
use super::{Point, PointOutcome, SearchLimits, SearchResult};

/// Most runs.
const MOST: usize = 8;
/// The first load is lower than the estimate by this share, as a difference of logarithms. About half of the
/// servers hold less than the estimate, and a short run at it passes by chance: of the loads that were
/// held in virtual time when the first run was at the estimate itself, two thirds met their objectives again.
const BELOW_ESTIMATE: f64 = 0.06;
/// The second load is lower than the first by at least this share, and each further drop is larger by as
/// much, up to this one, as differences of logarithms: few runs must do.
const LEAST_DROP: f64 = 0.05;
const MOST_DROP: f64 = 0.15;
/// A run holds its load if it uses at most this share of each allowance: about half of the runs at the limit
/// itself meet the objectives by chance.
const ROOM: f64 = 0.25;

impl Point {
    /// Whether it met its objectives by more than chance.
    pub(super) fn has_room(&self) -> bool {
        let has_room = |one: &super::Use| one.allowed.is_none() || one.used <= ROOM;
        self.uses.iter().flatten().all(has_room)
    }

    /// The use of the objective that is furthest beyond its limit.
    fn worst_use(&self) -> f64 {
        self.uses.iter().flatten().map(|one| one.used).fold(0.0, f64::max)
    }
}

impl SearchLimits {
    /// The load of the next run. `None` where one is held, or none can be found.
    pub(super) fn load_to_hold(&self, answer: &SearchResult, runs: &[Point]) -> Option<f64> {
        let SearchResult::Found { load: estimate, .. } = answer else { return None };
        let Some(last) = runs.last() else {
            return Some(self.holdable(estimate * libm::exp(-BELOW_ESTIMATE)));
        };
        // A further run would be as short.
        if last.is_met() || last.is_short || runs.len() >= MOST {
            return None;
        }
        let drop = match last.fit {
            PointOutcome::Overloaded | PointOutcome::Failed => MOST_DROP,
            PointOutcome::Met | PointOutcome::Missed => libm::log(last.worst_use()) / USUAL_SLOPE,
        };
        let shallowest = (LEAST_DROP * runs.len() as f64).min(MOST_DROP);
        let lower = self.holdable(last.load * libm::exp(-drop.clamp(shallowest, MOST_DROP)));
        let lower = if self.is_whole { lower.min(last.load - 1.0) } else { lower };
        (lower >= self.least && lower < last.load).then_some(lower)
    }

    fn holdable(&self, load: f64) -> f64 {
        self.tidy(if self.is_whole { load } else { rounded(load) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::LIMITS;
    use super::super::{Stage, Use};
    use super::*;

    const ESTIMATE: SearchResult = SearchResult::Found {
        load: 44.0,
        margin: None,
        low: Some(42.0),
        high: Some(47.0),
        objective: None,
        highest_met: 43.0,
        lowest_missed: 47.0,
    };

    fn run(load: f64, fit: PointOutcome, used: f64) -> Point {
        let one = Use { used, variance: 0.0, allowed: Some(0.01) };
        let (sent, stage, is_short) = (load, Stage::Hold, false);
        Point { load, sent, stage, fit, is_short, requests: 400, uses: vec![Some(one)] }
    }

    fn next(limits: SearchLimits, runs: &[Point]) -> Option<f64> {
        limits.load_to_hold(&ESTIMATE, runs)
    }

    #[test]
    fn runs_go_down_from_the_estimate_until_one_meets_with_room() {
        use PointOutcome::{Met, Missed, Overloaded};
        let mut runs = Vec::new();
        let mut check = |expected: f64, fit: PointOutcome, used: f64| {
            let load = next(LIMITS, &runs).unwrap();
            assert!((load - expected).abs() < 1e-9, "{load} instead of {expected}");
            runs.push(run(expected, fit, used));
        };
        check(41.4, Overloaded, 0.0);
        check(35.6, Missed, 1.2);
        // Met by so little that it may be chance.
        check(32.2, Met, 0.9);
        check(27.7, Met, 0.2);
        assert_eq!(next(LIMITS, &runs), None);
        assert!(runs[3].is_met() && !runs[2].is_met());
        // Far beyond the limit: a larger step.
        let far = [run(44.0, Missed, 9.0)];
        assert!((next(LIMITS, &far).unwrap() - 40.3).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_is_too_short_holds_nothing_and_is_the_last() {
        let short = Point { is_short: true, ..run(44.0, PointOutcome::Met, 0.0) };
        assert!(!short.is_met());
        assert_eq!(next(LIMITS, &[short]), None);
    }

    #[test]
    fn loads_stay_whole_and_above_the_least() {
        let whole = SearchLimits { is_whole: true, ..LIMITS };
        assert_eq!(next(whole, &[run(2.0, PointOutcome::Missed, 1.1)]), Some(1.0));
        let least = SearchLimits { least: 43.5, ..LIMITS };
        assert_eq!(next(least, &[run(43.5, PointOutcome::Missed, 3.0)]), None);
        let missing = SearchResult::NoneMeets { load: 1.0 };
        assert_eq!(LIMITS.load_to_hold(&missing, &[]), None);
    }
}
