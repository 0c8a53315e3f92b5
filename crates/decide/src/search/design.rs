//! The second stage of a search: which loads are measured around the bracket, and how precise the
//! answer can be.
//!
//! In: the bracket and the points of the first stage. Out: the loads of the second stage, all of them
//! before the first is measured, and the margin to expect. No result of the second stage changes its
//! loads or their number: points that follow the estimate, or a search that ends when the margin
//! happens to be small, make intervals that miss the truth too often.

use super::bracket::{Bracket, rounded};
use super::edge::{self, EdgeSample, USUAL_SLOPE};
use super::{Climb, Point, SearchLimits, Stage};
use crate::slo::{Objective, Slo};
use tokometer_figures::statistics;

/// Distance of the outermost loads from the middle, as a difference of logarithms: half of the
/// bracket's width, within these bounds. Nearer, the slope would stay unknown; further away, the use
/// no longer rises in a line.
const LEAST_HALF_WIDTH: f64 = 0.08;
const MOST_HALF_WIDTH: f64 = 0.1;
/// Offsets of one round, in half widths.
const OFFSETS: [f64; 5] = [0.0, 1.0, -0.5, 0.5, -1.0];
/// The loads are shifted down by this share of the half width: a short point at the capacity usually has
/// no burst of late requests. Much lower, too few points would have bursts (`lab/data/capacity.md`).
const DOWN: f64 = 0.1;
/// Dispersion of a run's use where the first stage does not show it.
const USUAL_DISPERSION: f64 = 40.0;

/// Points of the first stage this near to the middle show how steep and how bursty the server is, as a
/// difference of logarithms.
const NEAR: f64 = 0.75;

/// The objective whose allowance was used most where one was exceeded.
fn limiting(points: &[Point]) -> Option<usize> {
    let missed = points.iter().filter(|point| !point.fit.is_met());
    let lowest = missed.min_by(|a, b| a.load.total_cmp(&b.load))?;
    let used = |at: &usize| lowest.uses[*at].map_or(0.0, |one| one.used);
    (0..lowest.uses.len()).max_by(|a, b| used(a).total_cmp(&used(b)))
}

/// Where the first objective reaches its limit on a line of the usual slope through the long points of the first
/// stage. A short point at the capacity mostly has no burst of late requests, and meets the objectives; one
/// far above it misses. So the middle between both would lie above the capacity, and how far a point missed says
/// more than that it did. `None` without a measured point.
fn usual_edge(first: &[Point]) -> Option<f64> {
    let long = || first.iter().filter(|point| point.stage != Stage::Climb);
    let objectives = long().map(|point| point.uses.len()).max()?;
    let of = |objective: usize| {
        let samples: Vec<EdgeSample> = long().filter_map(|one| one.sample(objective)).collect();
        edge::usual_position(&samples)
    };
    (0..objectives).filter_map(of).min_by(f64::total_cmp)
}

/// The second stage, fixed before its first point.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// In the order of measuring: low and high loads alternate, so that a drift of the server is no
    /// slope.
    pub loads: Vec<f64>,
    /// The middle of the loads.
    pub centre: f64,
}

/// What a design can be expected to deliver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Half the width of the 95 % interval, as a share of the answer.
    pub margin: f64,
    /// Times as much measuring that the asked resolution would take; at most 1 if it is enough.
    pub effort: f64,
}

/// How the use of the limiting objective is expected to rise with the load.
#[derive(Debug, Clone, Copy)]
struct ExpectedLine {
    /// Of the logarithm of use over that of the load.
    slope: f64,
    /// What a point at the centre of the design counts.
    weight: f64,
}

impl SearchLimits {
    /// The second stage of a search whose first stage has these points and this bracket, with this many points
    /// left.
    pub(super) fn design(&self, first: &[Point], bracket: Bracket, left: usize) -> Design {
        let (low, high) = (libm::log(bracket.low), libm::log(bracket.high));
        let half = ((high - low) / 2.0).clamp(LEAST_HALF_WIDTH, MOST_HALF_WIDTH);
        let middle = f64::midpoint(low, high);
        // The narrow bracket of long points says more than a line through it.
        let line = (self.climb == Climb::Near).then(|| usual_edge(first)).flatten();
        let limit = line.unwrap_or(middle);
        let centre = limit.clamp(low - half, high) - DOWN * half;
        let load = |at: usize| {
            // A second round lies between the loads of the first.
            let (round, index) = (at / OFFSETS.len(), at % OFFSETS.len());
            let shift = if round % 2 == 0 { 0.0 } else { 0.25 };
            let load = libm::exp(centre + half * (OFFSETS[index] + shift).clamp(-1.0, 1.0));
            self.tidy(if self.is_whole { load } else { rounded(load) })
        };
        Design { loads: (0..left).map(load).collect(), centre: libm::exp(centre) }
    }
}

impl Design {
    /// The margin to expect if each point measures so many requests, from what the points of the
    /// first stage show of slope and bursts of the objective that limits. `None` where they show
    /// nothing of it.
    pub fn expected(
        &self,
        first: &[Point],
        requests: f64,
        limits: &SearchLimits,
    ) -> Option<Expected> {
        let objective = limiting(first)?;
        let is_near = |point: &&Point| libm::log(point.load / self.centre).abs() < NEAR;
        let near = first.iter().filter(is_near);
        let samples: Vec<EdgeSample> = near.filter_map(|point| point.sample(objective)).collect();
        let allowed = samples.iter().find_map(|one| one.allowed)?;
        let (slope, dispersion) = edge::edge(&samples)
            .map_or((USUAL_SLOPE, USUAL_DISPERSION), |edge| {
                (edge.slope, edge.dispersion.max(USUAL_DISPERSION / 4.0))
            });
        self.margin(ExpectedLine { slope, weight: requests * allowed / dispersion }, limits)
    }

    /// The margin to expect before anything near the limit was measured: from the objective that allows
    /// the fewest values beyond its limit, and from how servers usually behave. `None` where none of them
    /// allows a share.
    pub fn expected_before(
        &self,
        slo: &Slo,
        requests: f64,
        limits: &SearchLimits,
    ) -> Option<Expected> {
        let allowed = slo.objectives.iter().filter_map(Objective::allowed);
        let allowed = allowed.filter(|allowed| *allowed > 0.0).min_by(f64::total_cmp)?;
        let weight = requests * allowed / USUAL_DISPERSION;
        self.margin(ExpectedLine { slope: USUAL_SLOPE, weight }, limits)
    }

    /// The margin of the answer where the use rises on this line.
    fn margin(&self, line: ExpectedLine, limits: &SearchLimits) -> Option<Expected> {
        let ExpectedLine { slope, weight } = line;
        let centre = libm::log(self.centre);
        let of = |load: &f64| {
            let away = libm::log(*load) - centre;
            edge::Informative { away, information: weight * libm::exp(0.5 * slope * away) }
        };
        let variance = edge::variance(self.loads.iter().map(of), slope);
        let freedom = self.loads.len() as f64 - 2.0;
        if !variance.is_finite() || variance <= 0.0 || freedom < 1.0 {
            return None;
        }
        let margin = statistics::student_quantile(0.975, freedom) * variance.sqrt();
        Some(Expected { margin, effort: (margin / limits.resolution).powi(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::LIMITS;
    use super::super::{PointOutcome, Use};
    use super::*;

    const BRACKET: Bracket = Bracket { low: 10.0, high: 12.0 };

    fn points() -> Vec<Point> {
        let point = |load: f64, fit, used| {
            let one = Use { used, variance: used / 4.0, allowed: Some(0.01) };
            let (sent, is_short) = (load, false);
            let (stage, uses) = (Stage::Narrow, vec![Some(one)]);
            Point { load, sent, stage, fit, is_short, requests: 400, uses }
        };
        vec![
            point(8.0, PointOutcome::Met, 0.0),
            point(16.0, PointOutcome::Missed, 20.0),
            point(10.0, PointOutcome::Met, 0.5),
            point(12.0, PointOutcome::Missed, 3.0),
        ]
    }

    #[test]
    fn loads_surround_the_middle_and_their_order_is_no_trend() {
        let design = LIMITS.design(&[], BRACKET, 10);
        assert_eq!(design.loads.len(), 10);
        let (low, high) = design
            .loads
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |ends, load| (ends.0.min(*load), ends.1.max(*load)));
        assert!(low > 9.9 && low < 10.6 && high > 11.8 && high < 12.6, "{low} {high}");
        let middle = (10.0_f64 * 12.0).sqrt();
        assert!(design.centre < middle && design.centre > 0.97 * middle, "{}", design.centre);
        let ups = design.loads.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((4..=6).contains(&ups), "{:?}", design.loads);
        let whole = SearchLimits { is_whole: true, ..LIMITS };
        let few = whole.design(&[], Bracket { low: 1.0, high: 2.0 }, 4);
        assert!(
            few.loads.iter().all(|load| load.fract().abs() < 1e-9 && (1.0..=2.0).contains(load)),
            "{few:?}"
        );
    }

    /// At 11 nearly all requests were late, at 9 none: the limit is nearer to 9 than the middle of both. Where a
    /// short look met by chance, its load is no lower bound.
    #[test]
    fn the_loads_surround_the_limit_that_the_first_stage_shows() {
        let point = |load: f64, used| {
            let fit = if used > 1.0 { PointOutcome::Missed } else { PointOutcome::Met };
            let one = Use { used, variance: 0.0, allowed: Some(0.01) };
            let (sent, is_short, uses) = (load, false, vec![Some(one)]);
            Point { load, sent, stage: Stage::Narrow, fit, is_short, requests: 400, uses }
        };
        let near = SearchLimits { climb: Climb::Near, ..LIMITS };
        let centre = |low, high| {
            let bracket = Bracket { low: 9.0, high: 11.0 };
            near.design(&[point(9.0, low), point(11.0, high)], bracket, 6).centre
        };
        let middle = LIMITS.design(&[], Bracket { low: 9.0, high: 11.0 }, 6).centre;
        assert!(centre(0.0, 95.0) < 0.97 * middle, "{} {middle}", centre(0.0, 95.0));
        assert!(centre(0.0, 1.5) > 1.03 * middle, "{} {middle}", centre(0.0, 1.5));
    }

    /// A narrow bracket would leave the slope unknown, a wide one leaves the line; a second round lies
    /// between the loads of the first.
    #[test]
    fn the_loads_span_neither_less_nor_more_than_a_line_allows() {
        let span = |high: f64| {
            let loads = LIMITS.design(&[], Bracket { low: 10.0, high }, 5).loads;
            let ends = loads.iter().fold((f64::INFINITY, 0.0_f64), |ends, load| {
                (ends.0.min(*load), ends.1.max(*load))
            });
            libm::log(ends.1 / ends.0) / 2.0
        };
        assert!((span(10.1) - 0.08).abs() < 0.01, "{}", span(10.1));
        assert!((span(20.0) - 0.1).abs() < 0.01, "{}", span(20.0));
        let loads = LIMITS.design(&[], BRACKET, 10).loads;
        let is_new = |load: &f64| loads[..5].iter().all(|other| (load - other).abs() > 1e-9);
        assert!(loads[5..].iter().filter(|load| is_new(load)).count() >= 4, "{loads:?}");
    }

    #[test]
    fn more_measuring_gives_a_smaller_margin_by_its_root() {
        let design = LIMITS.design(&[], BRACKET, 10);
        let expected = |requests| design.expected(&points(), requests, &LIMITS).unwrap();
        let (short, long) = (expected(1_000.0), expected(4_000.0));
        assert!((short.margin / long.margin - 2.0).abs() < 0.2, "{short:?} {long:?}");
        assert!((short.effort / long.effort - 4.0).abs() < 0.8, "{short:?} {long:?}");
        assert!(long.margin > 0.005 && short.margin < 0.5, "{short:?} {long:?}");
        let slo = |text: &str| Slo::parse(text).unwrap();
        let before = |text: &str| design.expected_before(&slo(text), 1_000.0, &LIMITS);
        let (median, tail) = (before("p50 ttft < 2s").unwrap(), before("p99 ttft < 2s").unwrap());
        assert!(tail.margin > 3.0 * median.margin, "{tail:?} {median:?}");
        assert_eq!(before("mean ttft < 2s"), None, "a mean leaves no share beyond a limit");
        let rows = LIMITS.design(&[], BRACKET, 2);
        assert_eq!(rows.expected(&points(), 1_000.0, &LIMITS), None, "no scatter to estimate");
    }
}
