//! Estimates the load at which an objective reaches its limit, from points with scatter.
//!
//! In: loads with the share of the allowance that each run used. Out: the load at which the mean use
//! is 1, with a 95 % interval by profile likelihood, which is as asymmetric as the data are.
//!
//! Near the edge the logarithm of the use rises in a line with the logarithm of the load. Requests
//! beyond a limit come in bursts, and both the number and the size of bursts grow with the use, so the
//! variance of a run's use grows with its power of one and a half. This is the quasi-likelihood here;
//! its deviance exists for a use of zero, where a logarithm would not.

use std::ops::Range;

use tokometer_figures::statistics;

/// Exponent of the mean in the variance of a use.
const POWER: f64 = 1.5;
/// Bounds of the slope of the logarithm of use: from twice the use at ten times the load to a cliff
/// within a fifth of a percent.
const SLOPES: Range<f64> = 0.3..2_000.0;
/// The usual slope before any measurement. A few runs with few bursts do not determine it, and without
/// this the interval would be useless. It counts as one observation.
pub(super) const USUAL_SLOPE: f64 = 25.0;
/// Spread of the logarithm of a slope before any measurement.
const USUAL_SPREAD: f64 = 0.8;
/// Slopes and positions that are tried before the best one is refined.
const SLOPE_STEPS: usize = 12;
const POSITION_STEPS: usize = 48;
/// Divisions of the range around the best one. Each keeps 0.62 of it.
const REFINEMENTS: usize = 14;
/// Most that the edge is moved down because few bursts were seen: their variance is hardly known then.
const MOST_SHIFT: f64 = 0.03;
/// Positions are searched so far beyond the measured loads, as a difference of logarithms.
const BEYOND: f64 = 0.5;
/// The largest ratio of a value and its limit that counts. Beyond it only the fact of the violation
/// matters: the value of an overloaded run depends on its length.
const MOST_RATIO: f64 = 20.0;
/// Least number of points for an estimate of the scatter.
pub(super) const FEWEST: usize = 4;
/// A mean use below this is taken as this: its deviance would exceed all others for one late request.
const LEAST_MEAN: f64 = 1e-4;
/// A mean use below this is taken as this when the scatter is estimated, for the same reason.
const LEAST_SCATTERED: f64 = 0.1;

/// One run as input of the fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EdgeSample {
    /// Logarithm of the load.
    pub(super) x: f64,
    /// Share of the allowance used.
    pub(super) used: f64,
    /// Variance of `used` between runs, as the bursts of this run show it; zero where unknown.
    pub(super) variance: f64,
    /// Share of the requests that may be beyond the limit, at which the use is 1. `None` where the use
    /// is a ratio of values.
    pub(super) allowed: Option<f64>,
    pub(super) requests: f64,
}

impl EdgeSample {
    /// Requests beyond the limit at a use of 1: the run's weight.
    fn weight(&self) -> f64 {
        self.requests * self.allowed.unwrap_or(1.0)
    }

    /// At a use of 1, as a share of the largest use that counts: of all requests at most all can be
    /// beyond the limit.
    fn share(&self) -> f64 {
        self.allowed.unwrap_or(1.0 / MOST_RATIO)
    }

    /// The mean use on a line with this logarithm.
    fn mean(&self, log_used: f64) -> f64 {
        let used = libm::exp(log_used.clamp(-30.0, 30.0));
        let share = self.share();
        (-libm::expm1(libm::log1p(-share) * used) / share).max(LEAST_MEAN)
    }
}

/// The edge as a logarithm of load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge {
    /// Where the use is 1.
    pub(super) x: f64,
    /// Lower end of the 95 % interval. `None` if these points do not bound it.
    pub(super) low: Option<f64>,
    /// Upper end. `None` if these points do not bound it.
    pub(super) high: Option<f64>,
    /// Of the logarithm of use.
    pub(super) slope: f64,
    /// How many times wider a run's use scatters than one late request at a time would.
    pub(super) dispersion: f64,
}

/// Twice the loss of quasi-likelihood of one value against its mean, for a weight of 1.
fn deviance(used: f64, mean: f64) -> f64 {
    // The closed form for a power of one and a half.
    4.0 * (used.sqrt() - mean.sqrt()).powi(2) / mean.sqrt()
}

/// The points of one objective with the scatter that is assumed of them.
struct EdgeLikelihood<'a> {
    samples: &'a [EdgeSample],
    dispersion: f64,
}

impl EdgeLikelihood<'_> {
    /// The deviance of a line, with what is known of slopes.
    fn at(&self, x: f64, log_slope: f64) -> f64 {
        let slope = libm::exp(log_slope);
        let of =
            |one: &EdgeSample| one.weight() * deviance(one.used, one.mean(slope * (one.x - x)));
        let unusual = (log_slope - libm::log(USUAL_SLOPE)) / USUAL_SPREAD;
        // Heavy-tailed, so that a cliff is not taken for something gentler.
        let surprise = 2.0 * libm::log1p(unusual * unusual);
        self.samples.iter().map(of).sum::<f64>() + self.dispersion * surprise
    }

    /// Of the position of the edge on this line.
    fn variance(&self, x: f64, slope: f64) -> f64 {
        let of = |one: &EdgeSample| {
            let weight = one.weight() / self.dispersion;
            Informative {
                away: one.x - x,
                information: weight * one.mean(slope * (one.x - x)).sqrt(),
            }
        };
        variance(self.samples.iter().map(of), slope)
    }

    /// The least deviance of all lines through this position, at the logarithm of its slope.
    fn best(&self, x: f64) -> Minimum {
        let slopes = libm::log(SLOPES.start)..libm::log(SLOPES.end);
        minimum(slopes, SLOPE_STEPS, |log_slope| self.at(x, log_slope))
    }
}

/// What a point says about the logarithm of its mean use, and its distance from the edge, as a difference of
/// logarithms of load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Informative {
    pub(super) away: f64,
    pub(super) information: f64,
}

/// The variance of the edge of a line with this slope that is itself estimated from these points.
pub(super) fn variance(points: impl Iterator<Item = Informative>, slope: f64) -> f64 {
    // The slope is known by a factor before any measurement.
    let (mut cc, mut cb, mut bb) = (0.0, 0.0, 1.0 / (USUAL_SPREAD * USUAL_SPREAD));
    for Informative { away, information } in points {
        cc += information * slope * slope;
        cb -= information * slope * away * slope;
        bb += information * (away * slope).powi(2);
    }
    bb / (cc * bb - cb * cb)
}

/// The least value of a function, and where it lies.
#[derive(Debug, Clone, Copy)]
struct Minimum {
    value: f64,
    at: f64,
}

/// The minimum of a function in a range: the best of a grid, refined between its neighbours.
fn minimum(range: Range<f64>, steps: usize, value: impl Fn(f64) -> f64) -> Minimum {
    let Range { start: low, end: high } = range;
    let step = (high - low) / steps as f64;
    let at = |index: usize| low + step * index as f64;
    let tried = (0..=steps).map(|index| (value(at(index)), at(index)));
    let (_, near) = tried.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, low));
    let (mut from, mut to) = ((near - step).max(low), (near + step).min(high));
    let inner = |from: f64, to: f64, share: f64| from + (to - from) * share;
    let (mut left, mut right) = (inner(from, to, 1.0 - GOLDEN), inner(from, to, GOLDEN));
    let (mut of_left, mut of_right) = (value(left), value(right));
    for _ in 0..REFINEMENTS {
        if of_left <= of_right {
            (to, right, of_right) = (right, left, of_left);
            left = inner(from, to, 1.0 - GOLDEN);
            of_left = value(left);
        } else {
            (from, left, of_left) = (left, right, of_right);
            right = inner(from, to, GOLDEN);
            of_right = value(right);
        }
    }
    if of_left <= of_right {
        Minimum { value: of_left, at: left }
    } else {
        Minimum { value: of_right, at: right }
    }
}

const GOLDEN: f64 = 0.618_033_988_749_895;

/// Where the use is 1 on a line of the usual slope through these points. `None` without any.
pub(super) fn usual_position(samples: &[EdgeSample]) -> Option<f64> {
    let (samples, range) = capped(samples)?;
    let line = EdgeLikelihood { samples: &samples, dispersion: 1.0 };
    let log_slope = libm::log(USUAL_SLOPE);
    Some(minimum(range, POSITION_STEPS, |x| line.at(x, log_slope)).at)
}

/// These points with uses that count, and where their edge is searched.
fn capped(samples: &[EdgeSample]) -> Option<(Vec<EdgeSample>, Range<f64>)> {
    let capped = |one: &EdgeSample| EdgeSample { used: one.used.min(1.0 / one.share()), ..*one };
    let samples: Vec<EdgeSample> = samples.iter().map(capped).collect();
    let first = samples.iter().map(|one| one.x).min_by(f64::total_cmp)?;
    let last = samples.iter().map(|one| one.x).max_by(f64::total_cmp)?;
    Some((samples, first - BEYOND..last + BEYOND))
}

/// The edge. `None` for too few points, or where no use changes between them.
pub(super) fn edge(samples: &[EdgeSample]) -> Option<Edge> {
    if samples.len() < FEWEST {
        return None;
    }
    let (samples, range) = capped(samples)?;
    let mut profile = EdgeLikelihood { samples: &samples, dispersion: 1.0 };
    let (mut x, mut slope) = (0.0, USUAL_SLOPE);
    // The weight of what is known of slopes depends on the scatter, and the scatter on the line.
    for _ in 0..3 {
        x = minimum(range.clone(), POSITION_STEPS, |x| profile.best(x).value).at;
        slope = libm::exp(profile.best(x).at);
        profile.dispersion = dispersion(&samples, x, slope);
    }
    let lowest = profile.best(x).value;
    let freedom = samples.len() as f64 - 2.0;
    let quantile = statistics::student_quantile(0.975, freedom);
    let reach = profile.dispersion * quantile * quantile;
    let is_inside = |at: f64| profile.best(at).value - lowest <= reach;
    let end = |bound: f64| (!is_inside(bound)).then(|| crossing(x, bound, is_inside));
    let (low, high) = (end(range.start), end(range.end));
    // The mean of few bursts has a logarithm that is too low on average, by half its variance, and the
    // edge lies too high by as much.
    let x = x - (slope * profile.variance(x, slope) / 2.0).min(MOST_SHIFT);
    let low = low.map(|low| low.min(x));
    Some(Edge { x, low, high, slope, dispersion: profile.dispersion })
}

/// The last position inside, on the way from one inside to one outside.
fn crossing(mut inside: f64, mut outside: f64, is_inside: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..20 {
        let middle = f64::midpoint(inside, outside);
        if is_inside(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

/// The scatter of the runs around a line, in units of one late request: the larger of what the runs
/// show among each other and what the bursts inside them show. Few runs may agree by chance.
fn dispersion(samples: &[EdgeSample], x: f64, slope: f64) -> f64 {
    let mean = |one: &EdgeSample| one.mean(slope * (one.x - x));
    let misfit = |one: &EdgeSample| {
        let mean = mean(one);
        one.weight() * (one.used - mean).powi(2) / mean.max(LEAST_SCATTERED).powf(POWER)
    };
    let between = samples.iter().map(misfit).sum::<f64>() / (samples.len() as f64 - 2.0);
    let squares: f64 = samples.iter().map(|one| one.weight().powi(2) * one.variance).sum();
    let expected: f64 = samples.iter().map(|one| one.weight() * mean(one).powf(POWER)).sum();
    let within = if expected > 0.0 { squares / expected } else { 0.0 };
    let is_counted = samples.iter().any(|one| one.allowed.is_some());
    let floor = if is_counted { 1.0 } else { 1e-9 };
    between.max(within).max(floor)
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_base::seed::unit_float;

    use super::*;

    fn sample(load: f64, used: f64) -> EdgeSample {
        let x = libm::log(load);
        EdgeSample { x, used, variance: 0.0, allowed: Some(0.01), requests: 4_000.0 }
    }

    #[test]
    fn the_edge_of_a_smooth_objective_lies_where_its_use_is_one() {
        let samples: Vec<EdgeSample> = [9.0, 9.5, 9.8, 10.0, 10.2, 10.5, 11.0]
            .into_iter()
            .map(|load: f64| EdgeSample { allowed: None, ..sample(load, (load / 10.0).powi(6)) })
            .collect();
        let edge = edge(&samples).unwrap();
        assert!((libm::exp(edge.x) - 10.0).abs() < 0.02, "{edge:?}");
        assert!((edge.slope / 6.0 - 1.0).abs() < 0.1, "{edge:?}");
    }

    #[test]
    fn a_cliff_is_found_between_its_sides_and_the_interval_spans_the_gap() {
        let loads = [11.5, 12.0, 12.4, 12.8, 13.2, 13.6, 14.0];
        let samples: Vec<EdgeSample> = loads
            .iter()
            .map(|load| sample(*load, if *load < 13.0 { 0.0 } else { 100.0 }))
            .collect();
        let edge = edge(&samples).unwrap();
        let (low, high) = (libm::exp(edge.low.unwrap()), libm::exp(edge.high.unwrap()));
        assert!((libm::exp(edge.x) / 13.0 - 1.0).abs() < 0.02, "{}", libm::exp(edge.x));
        assert!(low < 12.9 && high > 13.0 && low > 12.0 && high < 13.7, "{low} {high}");
    }

    #[test]
    fn points_that_all_meet_do_not_bound_the_limit_above_and_those_that_miss_not_below() {
        let of = |used: f64| {
            let loads = [9.0, 9.5, 10.0, 10.5, 11.0];
            edge(&loads.map(|load| sample(load, used))).unwrap()
        };
        let met = of(0.0);
        assert!(met.high.is_none() && met.x > libm::log(11.0), "{met:?}");
        let missed = of(100.0);
        assert!(missed.low.is_none() && missed.x < libm::log(9.0), "{missed:?}");
        assert_eq!(edge(&[sample(1.0, 0.5), sample(2.0, 1.5)]), None, "too few");
    }

    /// How far a ratio is beyond its limit depends on the length of an overloaded run.
    #[test]
    fn a_gross_violation_counts_as_a_violation_only() {
        let at = |gross: f64| {
            let used = |load: f64| if load > 10.5 { gross } else { (load / 10.0).powi(6) };
            let loads = [9.0, 9.5, 9.8, 10.0, 10.2, 11.0];
            let of = |load: f64| EdgeSample { allowed: None, ..sample(load, used(load)) };
            edge(&loads.map(of)).unwrap().x
        };
        assert_eq!(at(50.0).to_bits(), at(5_000.0).to_bits());
    }

    /// Requests beyond a limit are counted one by one; runs that agree by chance do not make them fewer.
    #[test]
    fn the_scatter_is_the_largest_that_the_runs_or_their_bursts_show() {
        let x = libm::log(10.0);
        let loads = [9.0, 9.5, 10.0, 10.5, 11.0];
        let line = |load: f64, factor: f64, variance: f64| {
            let one = sample(load, 0.0);
            EdgeSample { used: factor * one.mean(8.0 * (one.x - x)), variance, ..one }
        };
        let on_the_line = loads.map(|load| line(load, 1.0, 0.0));
        assert!((dispersion(&on_the_line, x, 8.0) - 1.0).abs() < 1e-9);
        let ratios = on_the_line.map(|one| EdgeSample { allowed: None, ..one });
        assert!(
            dispersion(
                &ratios.map(|one| EdgeSample { used: one.mean(8.0 * (one.x - x)), ..one }),
                x,
                8.0
            ) < 1e-6
        );
        let bursts = dispersion(&loads.map(|load| line(load, 1.0, 0.5)), x, 8.0);
        assert!(bursts > 5.0, "{bursts}");
        let scattered = dispersion(
            &loads.map(|load| line(load, if load < 10.2 { 2.0 } else { 0.4 }, 0.0)),
            x,
            8.0,
        );
        assert!(scattered > 5.0, "{scattered}");
    }

    /// Runs whose requests beyond the limit come in bursts of exponential size: both the number and
    /// the size of bursts grow with the root of the use.
    fn bursty(seed: u64, load: f64, slope: f64) -> EdgeSample {
        let mut generator = Seed(seed).stream("edge").draw(load.to_bits());
        let mut unit = || {
            generator = Seed(generator).stream("next").draw(0);
            unit_float(&mut Seed(generator).stream("unit").at(0)).max(1e-12)
        };
        let one = sample(load, 0.0);
        let used = libm::exp(slope * (one.x - libm::log(10.0)));
        let (mean, size) = (one.weight() * used, 12.0 * used.sqrt());
        let (mut bursts, mut chance) = (0, unit());
        while chance > libm::exp(-mean / size) {
            bursts += 1;
            chance *= unit();
        }
        let sizes: Vec<f64> = (0..bursts).map(|_| -size * libm::log(unit())).collect();
        let weight = one.weight();
        let variance = sizes.iter().map(|size| size * size).sum::<f64>() / (weight * weight);
        EdgeSample { used: sizes.iter().sum::<f64>() / weight, variance, ..one }
    }

    /// The interval holds the truth about as often as it says, for a gentle and for a steep server,
    /// wherever the limit lies among the points, and it is not wider than it must be.
    #[test]
    fn the_interval_holds_the_truth_about_as_often_as_it_says() {
        const COUNT: u64 = 40;
        for (slope, centre) in [(8.0, 10.0), (16.0, 9.8), (30.0, 10.2)] {
            let (mut held, mut error, mut width) = (0, 0.0, 0.0);
            for seed in 0..COUNT {
                let loads = (0..10_u32).map(|at| centre * (0.9 + 0.02 * f64::from(at) + 0.01));
                let samples: Vec<EdgeSample> =
                    loads.map(|load| bursty(seed * 7 + 1, load, slope)).collect();
                let edge = edge(&samples).unwrap();
                let truth = libm::log(10.0);
                let (low, high) = (edge.low.unwrap_or(-9.0), edge.high.unwrap_or(9.0));
                held += u32::from(low <= truth && truth <= high);
                error += (edge.x - truth) / COUNT as f64;
                width += (high.min(truth + 0.5) - low.max(truth - 0.5)) / COUNT as f64;
            }
            assert!(held >= 36, "slope {slope} around {centre}: {held} of {COUNT}");
            assert!(error.abs() < 0.02, "slope {slope} around {centre}: off by {error}");
            assert!(width < 3.5 / slope, "slope {slope} around {centre}: {width} wide");
        }
    }
}
