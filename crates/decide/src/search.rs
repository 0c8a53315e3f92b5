//! Searches the highest load that meets objectives, as a pure function of the measured points.
//!
//! In: the points so far in the order of measuring, each with its load, whether it met the objectives,
//! and the share of each objective's allowance that it used. Out: the next load to measure, or the
//! answer. Only the points decide, so a search can be resumed from its run folders.
//!
//! A search has three stages. The first finds a narrow bracket. The second measures loads at preset
//! offsets around its middle; estimate and interval come from these points alone, so that chance in
//! the first stage, which decided where to measure, does not enter the estimate a second time. The third
//! runs below the estimate, and then lower, until one load meets all objectives: the load held.

mod allowance;
mod behind;
mod bracket;
mod budget;
mod design;
mod edge;
mod hold;
mod length;
mod preload;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use self::bracket::BracketStep;
use self::edge::{Edge, EdgeSample};

pub use self::allowance::{Allowance, Use};
pub use self::behind::{WaitTrend, wait_trend};
pub use self::budget::{
    Forecast, SecondStage, SeenMost, StageBudget, UNLIMITED_POINTS, estimate_stage, first_lengths,
    hold_length,
};
pub use self::design::{Design, Expected};
pub use self::length::{PointLength, fit, least, needed, wanted};
pub use self::preload::{discard_preload, with_preload};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointOutcome {
    Met,
    Missed,
    /// The server could not keep up; the point was ended early.
    Overloaded,
    /// The server failed or was unreachable.
    Failed,
}

impl PointOutcome {
    fn is_met(self) -> bool {
        self == Self::Met
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// As it was asked for: requests per second, or requests in flight.
    pub load: f64,
    /// What was sent of it.
    pub sent: f64,
    /// What it was measured for.
    pub stage: Stage,
    pub fit: PointOutcome,
    /// Whether it had too few requests for its percentiles, so that it neither met nor missed them. The
    /// first stage goes by its outcome all the same.
    pub is_short: bool,
    pub requests: u64,
    /// Share of each objective's allowance that was used. `None` where nothing was measured.
    pub uses: Vec<Option<Use>>,
}

impl Point {
    /// Whether it met all objectives; a run that is to hold its load also with room.
    pub fn is_met(&self) -> bool {
        let is_met = self.fit.is_met() && !self.is_short;
        is_met && (self.stage != Stage::Hold || self.has_room())
    }

    pub fn is_missed(&self) -> bool {
        match self.fit {
            PointOutcome::Met => false,
            PointOutcome::Missed => !self.is_short,
            PointOutcome::Overloaded | PointOutcome::Failed => true,
        }
    }

    /// The input of an objective's line from this point.
    fn sample(&self, objective: usize) -> Option<EdgeSample> {
        let measured = self.uses.get(objective).copied().flatten();
        let Use { used, variance, allowed } = match self.fit {
            PointOutcome::Met | PointOutcome::Missed => measured?,
            // Ended early or not measured: its figures show only that the limit was exceeded. With
            // more time all of its requests would have been beyond it.
            PointOutcome::Overloaded | PointOutcome::Failed => {
                let allowed = measured.and_then(|one| one.allowed);
                let least = allowed.map_or(LEAST_MISS, |allowed| 1.0 / allowed);
                let used = measured.map_or(least, |one| one.used.max(least));
                Use { used, variance: 0.0, allowed }
            }
        };
        let requests = self.requests.max(1) as f64;
        Some(EdgeSample { x: libm::log(self.sent), used, variance, allowed, requests })
    }
}

/// An estimate that is so many times above or below all points of the second stage is no answer.
const FAR_OUTSIDE: f64 = 1.25;

/// Least use that counts for a point that was ended for overload.
const LEAST_MISS: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchLimits {
    pub start: f64,
    /// No lower load is tried.
    pub least: f64,
    /// No higher load is tried.
    pub most: f64,
    /// Half the width of the answer's interval that is asked for, as a share of the answer.
    pub resolution: f64,
    /// Maximum number of points of the first two stages.
    pub points: usize,
    /// Whether a load is to be held after the estimate.
    pub holds: bool,
    /// Whether loads are integers.
    pub is_whole: bool,
    pub climb: Climb,
}

/// How the first stage of a search reaches the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Climb {
    /// Nothing is known of the server: short looks at doubled loads, then a narrow bracket.
    #[default]
    Far,
    /// The first load is near the limit. There a short look meets objectives that the load violates once
    /// the queue has filled, so every point is long, and the bracket stays wider to keep time for the
    /// estimate.
    Near,
}

/// What a point is measured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// To reach the limit by doubling: a short look.
    Climb,
    /// To narrow the bracket. Longer, because a server that is a little overloaded looks well at first.
    Narrow,
    /// For the estimate and its interval.
    Estimate,
    /// To find a load that meets the objectives when it is run.
    Hold,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Measure {
        /// Requests per second, or requests in flight.
        load: f64,
        /// Decides how long the point is.
        stage: Stage,
    },
    Done(SearchResult),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchResult {
    /// The highest load that meets the objectives.
    Found {
        load: f64,
        /// Half the width of its 95 % confidence interval. `None` if an end is open.
        margin: Option<f64>,
        /// Lower end of the interval. `None` if the points do not bound it.
        low: Option<f64>,
        /// Upper end of the interval. `None` if the points do not bound it.
        high: Option<f64>,
        /// Index of the objective that limits it; `None` where unknown.
        objective: Option<usize>,
        highest_met: f64,
        lowest_missed: f64,
    },
    /// Every load up to the maximum meets the objectives, so the maximum is the limit, not the
    /// server.
    LimitedByMost { load: f64 },
    /// Even the minimum load violates the objectives.
    NoneMeets { load: f64 },
    /// The points, or the time for them, were used up before the estimate, or it lies far away from all of
    /// them.
    Unfinished {
        /// The highest measured load that met the objectives; `None` if none did.
        highest_met: Option<f64>,
        /// The lowest measured load that violated them; `None` if none did.
        lowest_missed: Option<f64>,
    },
}

/// The stages of a search, as its points so far decide them.
enum Course {
    /// Still bracketing, or ended without a bracket.
    First(BracketStep),
    /// The first so many points found the bracket; the others belong to the design.
    Second { first: usize, design: Design },
}

/// Where the first objective reaches its limit.
#[derive(Debug, Clone, Copy)]
struct Found {
    load: f64,
    low: Option<f64>,
    high: Option<f64>,
    objective: usize,
}

/// Each objective has its own limit, and the lowest is the answer. So is the lowest of all lower ends,
/// and the lowest of all upper ends: the limit of another objective may be the lowest one too.
fn found(points: &[Point]) -> Option<Found> {
    let objectives = points.iter().map(|point| point.uses.len()).max().unwrap_or(0);
    let edges: Vec<(usize, Edge)> = (0..objectives)
        .filter_map(|objective| {
            let samples: Vec<EdgeSample> =
                points.iter().filter_map(|one| one.sample(objective)).collect();
            edge::edge(&samples).map(|edge| (objective, edge))
        })
        .collect();
    let (objective, edge) = edges.iter().min_by(|(_, a), (_, b)| a.x.total_cmp(&b.x))?;
    let ends = |end: fn(&Edge) -> Option<f64>, open: f64| {
        let of = edges.iter().map(|(_, edge)| end(edge).unwrap_or(open));
        of.min_by(f64::total_cmp).filter(|end| end.is_finite()).map(libm::exp)
    };
    Some(Found {
        load: libm::exp(edge.x),
        low: ends(|edge| edge.low, f64::NEG_INFINITY),
        high: ends(|edge| edge.high, f64::INFINITY),
        objective: *objective,
    })
}

impl SearchLimits {
    /// The next step. A pure function of `points`, in the order of measuring.
    pub fn next(&self, points: &[Point]) -> Next {
        let is_over = points.len() >= self.points;
        match self.course(points) {
            Course::First(BracketStep::Done(result)) => Next::Done(result),
            Course::First(BracketStep::Measure(load, stage)) if !is_over => {
                Next::Measure { load, stage }
            }
            Course::First(_) => Next::Done(Self::unfinished(points)),
            Course::Second { first, design } => match design.loads.get(points.len() - first) {
                Some(load) => Next::Measure { load: *load, stage: Stage::Estimate },
                None => self.third(points, first..first + design.loads.len()),
            },
        }
    }

    /// What follows the estimate from these points.
    fn third(&self, points: &[Point], estimate: Range<usize>) -> Next {
        let runs = &points[estimate.end..];
        let answer = self.answer(points, &points[estimate]);
        match self.load_to_hold(&answer, runs).filter(|_| self.holds) {
            Some(load) => Next::Measure { load, stage: Stage::Hold },
            None => Next::Done(answer),
        }
    }

    pub fn second_stage(&self, points: &[Point]) -> Option<(usize, Design)> {
        match self.course(points) {
            Course::First(_) => None,
            Course::Second { first, design } => Some((first, design)),
        }
    }

    /// The first stage ends with the first points that have a bracket.
    fn course(&self, points: &[Point]) -> Course {
        for first in 0..=points.len() {
            let BracketStep::Found(bracket) = self.bracket(&points[..first]) else { continue };
            let left = self.points.saturating_sub(first);
            if left < edge::FEWEST {
                break;
            }
            return Course::Second { first, design: self.design(&points[..first], bracket, left) };
        }
        Course::First(self.bracket(points))
    }

    /// The estimate of these points, with what all points met and missed.
    fn answer(&self, points: &[Point], estimate: &[Point]) -> SearchResult {
        let loads = |is_in: fn(&Point) -> bool| {
            points.iter().filter(move |point| is_in(point)).map(|point| point.sent)
        };
        let highest_met = loads(Point::is_met).fold(self.least, f64::max);
        let lowest_missed = loads(Point::is_missed).fold(self.most, f64::min);
        let Some(Found { load, low, high, objective }) = found(estimate) else {
            return Self::unfinished(points);
        };
        let measured = estimate.iter().map(|point| point.sent);
        let (lowest, highest) = measured
            .fold((f64::INFINITY, 0.0_f64), |ends, load| (ends.0.min(load), ends.1.max(load)));
        // The line is not known that far away from the points.
        if load > highest * FAR_OUTSIDE || load < lowest / FAR_OUTSIDE {
            return Self::unfinished(points);
        }
        // The ends too, or the answer would lie outside its interval.
        let whole = |load: f64| if self.is_whole { load.floor() } else { load }.max(self.least);
        let (low, high) = (low.map(whole), high.map(whole));
        let margin = low.zip(high).map(|(low, high)| (high - low) / 2.0);
        SearchResult::Found {
            load: whole(load),
            margin,
            low,
            high,
            objective: Some(objective),
            highest_met,
            lowest_missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const LIMITS: SearchLimits = SearchLimits {
        start: 1.0,
        least: 0.1,
        most: 1_000.0,
        resolution: 0.05,
        points: 20,
        holds: false,
        is_whole: false,
        climb: Climb::Far,
    };

    fn measured(load: f64, stage: Stage, used: f64) -> Point {
        let fit = if used <= 1.0 { PointOutcome::Met } else { PointOutcome::Missed };
        let one = Use { used, variance: 0.0, allowed: None };
        let (sent, is_short) = (load, false);
        Point { load, sent, stage, fit, is_short, requests: 400, uses: vec![Some(one)] }
    }

    /// Runs a search against a server whose use at a load is `strain`.
    fn search(limits: SearchLimits, strain: impl Fn(f64) -> f64) -> (SearchResult, Vec<Point>) {
        let mut points = Vec::new();
        loop {
            match limits.next(&points) {
                Next::Done(answer) => return (answer, points),
                Next::Measure { load, stage } => points.push(measured(load, stage, strain(load))),
            }
        }
    }

    #[test]
    fn a_smooth_server_is_found_within_its_resolution() {
        for capacity in [0.7, 3.3, 12.4, 187.0] {
            let (answer, points) = search(LIMITS, |load| (load / capacity).powi(3));
            let SearchResult::Found { load, low, high, .. } = answer else { panic!("{answer:?}") };
            assert!((load / capacity - 1.0).abs() < 0.01, "{load} against {capacity}");
            assert!(low.unwrap() <= load && load <= high.unwrap(), "{low:?} {load} {high:?}");
            assert_eq!(points.len(), 20, "the number of points is no result");
        }
    }

    #[test]
    fn a_server_that_falls_off_a_cliff_is_found_too() {
        let (answer, _) = search(LIMITS, |load| if load < 42.0 { 0.1 } else { 1e6 });
        let SearchResult::Found { load, .. } = answer else { panic!("{answer:?}") };
        assert!((load / 42.0 - 1.0).abs() < 0.05, "{load}");
    }

    #[test]
    fn whole_loads_end_at_neighbours() {
        let limits = SearchLimits { is_whole: true, ..LIMITS };
        let (answer, _) = search(limits, |load| load / 13.3);
        // The estimate was 20 in flight, and its interval 20.1 to 20.9.
        let SearchResult::Found { load: 13.0, low: Some(low), high: Some(high), .. } = answer
        else {
            panic!("{answer:?}")
        };
        assert!(low <= 13.0 && 13.0 <= high && low.fract() + high.fract() <= 0.0, "{low} {high}");
        // Fourteen in flight would exceed the limit.
        let (answer, _) = search(limits, |load| load / 13.7);
        assert!(matches!(answer, SearchResult::Found { load: 13.0, .. }), "{answer:?}");
    }

    #[test]
    fn a_limit_that_was_ours_and_an_objective_that_nothing_meets_are_told_apart() {
        let (answer, _) = search(SearchLimits { most: 64.0, ..LIMITS }, |_| 0.1);
        assert_eq!(answer, SearchResult::LimitedByMost { load: 64.0 });
        let (answer, _) = search(LIMITS, |_| 5.0);
        assert_eq!(answer, SearchResult::NoneMeets { load: 0.1 });
    }

    #[test]
    fn a_search_without_room_for_a_second_stage_says_what_it_knows() {
        let (answer, points) = search(SearchLimits { points: 7, ..LIMITS }, |load| load / 12.4);
        assert_eq!(points.len(), 7);
        assert!(
            matches!(answer, SearchResult::Unfinished { highest_met: Some(_), .. }),
            "{answer:?}"
        );
    }

    #[test]
    fn fewer_than_four_points_after_the_bracket_are_no_second_stage() {
        let (_, points) = search(LIMITS, |load| load / 12.4);
        let (first, _) = LIMITS.second_stage(&points).unwrap();
        let stage = |left: usize| {
            let limits = LIMITS.with_points(first + left);
            limits.second_stage(&points[..first]).map(|(_, design)| design.loads.len())
        };
        assert_eq!((stage(3), stage(4)), (None, Some(4)));
    }

    /// A point that was ended for overload saw a few requests beyond the limit; with more time all would
    /// have been.
    #[test]
    fn an_overloaded_point_counts_as_one_whose_every_request_is_beyond_the_limit() {
        let used = |fit: PointOutcome, used: f64, allowed: Option<f64>| {
            let one = Use { used, variance: 0.5, allowed };
            let point = Point { fit, uses: vec![Some(one)], ..measured(8.0, Stage::Narrow, 0.0) };
            let found = point.sample(0).unwrap();
            (found.used, found.variance)
        };
        let check = |found: (f64, f64), expected: (f64, f64)| {
            let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(is_near(found.0, expected.0) && is_near(found.1, expected.1), "{found:?}");
        };
        check(used(PointOutcome::Missed, 3.0, Some(0.01)), (3.0, 0.5));
        check(used(PointOutcome::Overloaded, 3.0, Some(0.01)), (100.0, 0.0));
        check(used(PointOutcome::Failed, 0.2, None), (2.0, 0.0));
        check(used(PointOutcome::Overloaded, 7.0, None), (7.0, 0.0));
    }

    /// Points sent up to 6.7 % less than they were asked for, and the fit used what was asked.
    #[test]
    fn the_estimate_is_about_the_loads_that_were_sent() {
        let mut points = Vec::new();
        let answer = loop {
            match LIMITS.next(&points) {
                Next::Done(answer) => break answer,
                Next::Measure { load, stage } => {
                    let sent = 0.95 * load;
                    points.push(Point { sent, ..measured(load, stage, (sent / 12.4).powi(8)) });
                }
            }
        };
        let SearchResult::Found { load, .. } = answer else { panic!("{answer:?}") };
        assert!((load / 12.4 - 1.0).abs() < 0.01, "{load}");
    }

    #[test]
    fn a_point_that_is_too_short_is_neither_met_nor_missed() {
        let (_, points) = search(LIMITS, |load| (load / 12.4).powi(8));
        let ends = |points: &[Point]| match LIMITS.next(points) {
            Next::Done(SearchResult::Found { highest_met, lowest_missed, .. }) => {
                (highest_met, lowest_missed)
            }
            other => panic!("{other:?}"),
        };
        let (met, missed) = ends(&points);
        let mut changed = points.clone();
        for point in &mut changed {
            point.is_short = point.sent >= met && point.sent <= missed;
        }
        let (less, more) = ends(&changed);
        assert!(less < met && more > missed, "{less} {met} {missed} {more}");
    }

    #[test]
    fn an_estimate_far_away_from_all_points_is_no_answer() {
        let (_, points) = search(LIMITS, |load| (load / 12.4).powi(8));
        let (first, _) = LIMITS.second_stage(&points).unwrap();
        for used in [0.0, 1e6] {
            let mut changed = points.clone();
            for point in &mut changed[first..] {
                *point = measured(point.load, Stage::Estimate, used);
            }
            let next = LIMITS.next(&changed);
            let is_open = matches!(next, Next::Done(SearchResult::Unfinished { .. }));
            assert!(is_open, "{used}: {next:?}");
        }
    }

    /// The limit of an objective that is known less well may be the lowest one too.
    #[test]
    fn the_interval_ends_where_the_first_objective_may_be_violated() {
        let loads = [9.0, 9.4, 9.8, 10.2, 10.6, 11.0, 9.2, 10.4];
        let of = |sharp: bool, rough: bool| {
            let point = |(at, load): (usize, &f64)| {
                let steep = Use { used: (load / 10.0).powi(40), variance: 0.0, allowed: None };
                let scatter = if at % 2 == 0 { 1.8 } else { 0.5 };
                let share = scatter * (load / 10.2).powi(12);
                let gentle = Use { used: share, variance: 0.0, allowed: None };
                let uses = [sharp.then_some(steep), rough.then_some(gentle)];
                Point { uses: uses.to_vec(), ..measured(*load, Stage::Estimate, 0.0) }
            };
            let points: Vec<Point> = loads.iter().enumerate().map(point).collect();
            found(&points).unwrap()
        };
        let (sharp, rough, both) = (of(true, false), of(false, true), of(true, true));
        assert!(rough.low.unwrap_or(0.0) < sharp.low.unwrap() - 0.1, "{sharp:?} {rough:?}");
        assert_eq!((both.load.to_bits(), both.objective), (sharp.load.to_bits(), 0));
        assert_eq!(both.low, rough.low);
        assert_eq!(both.high, sharp.high);
    }

    /// Neither the estimate so far nor its margin may move a point of the second stage: intervals of
    /// searches that did held the truth in 85 % of the cases instead of 95 %.
    #[test]
    fn no_result_of_the_second_stage_changes_its_loads() {
        let strain = |load: f64| (load / 12.4).powi(8);
        let (_, points) = search(LIMITS, strain);
        let (first, design) = LIMITS.second_stage(&points).unwrap();
        for at in first..points.len() {
            for used in [0.0, 1.0, 30.0] {
                let mut changed = points[..at].to_vec();
                for point in &mut changed[first..] {
                    *point = measured(point.load, Stage::Estimate, used);
                }
                let Next::Measure { load, stage } = LIMITS.next(&changed) else {
                    panic!("ended after {at} points")
                };
                assert_eq!((load, stage), (design.loads[at - first], Stage::Estimate));
            }
        }
    }

    /// Points of six seconds all met objectives at loads that a server could not sustain for a minute: the
    /// answer was 71 req/s, and none of the points was above 49.
    #[test]
    fn an_estimate_far_above_all_points_is_no_answer() {
        let mut points =
            vec![measured(40.0, Stage::Narrow, 0.1), measured(46.0, Stage::Narrow, 30.0)];
        let Some((first, design)) = LIMITS.second_stage(&points) else { panic!() };
        let limits = LIMITS.with_points(first + 6);
        for load in design.loads.iter().take(6) {
            points.push(measured(*load, Stage::Estimate, 0.001 * load / 43.0));
        }
        let answer = limits.next(&points);
        let expected = |load: f64| matches!(answer, Next::Done(SearchResult::Unfinished { highest_met: Some(met), .. }) if met <= load);
        assert!(expected(design.loads.iter().copied().fold(0.0, f64::max)), "{answer:?}");
    }

    /// The first stage decides where to measure and has no part in the answer.
    #[test]
    fn the_answer_comes_from_the_second_stage_alone() {
        let strain = |load: f64| (load / 12.4).powi(8);
        let (answer, mut points) = search(LIMITS, strain);
        let (first, _) = LIMITS.second_stage(&points).unwrap();
        for point in &mut points[..first] {
            point.requests = 1_000_000;
            if let Some(Some(one)) = point.uses.first_mut() {
                one.variance = 1e9;
            }
        }
        assert_eq!(LIMITS.next(&points), Next::Done(answer));
    }

    #[test]
    fn the_lowest_of_several_limits_is_the_answer() {
        let mut points = Vec::new();
        let answer = loop {
            match LIMITS.next(&points) {
                Next::Done(answer) => break answer,
                Next::Measure { load, stage } => {
                    let mut point = measured(load, stage, (load / 12.0).powi(6));
                    let other = measured(load, stage, (load / 20.0).powi(6));
                    point.uses.insert(0, other.uses[0]);
                    points.push(point);
                }
            }
        };
        let SearchResult::Found { load, objective, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(objective, Some(1));
        assert!((load / 12.0 - 1.0).abs() < 0.02, "{load}");
    }
}
