//! Estimates the load at which an objective reaches its limit, from points with scatter.
//!
//! In: loads with the share of the allowance that each run used. Out: the load at which the mean use
//! is 1, with a 95 % confidence interval. Near the edge the use grows by a factor per step of load,
//! so a line is fitted to its logarithm, but the uses themselves are averaged (a regression for
//! counts whose variance is a multiple of their mean). The logarithm of zero does not exist, and a
//! mean of logarithms would underestimate rare bursts. Points far from the edge weigh less.

use tokometer_metrics::statistics;

/// Upper limit on the use of a run: beyond it only the fact of the violation matters, and an
/// overloaded run's own figure depends on its length.
pub(super) const MOST_USE: f64 = 20.0;
/// Number of nearest points that the line is fitted to.
const NEIGHBOURS: usize = 10;
/// Range of the fit around the edge, as a difference of logarithms of load.
const REACH: (f64, f64) = (0.08, 0.5);
/// Bounds of the slope of the logarithm of use: from twice the use at ten times the load to a cliff
/// within a percent.
const SLOPES: (f64, f64) = (0.3, 300.0);
/// Least number of points for an estimate of the scatter.
const FEWEST: f64 = 3.5;

/// One run as input of the fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct EdgeSample {
    /// Logarithm of the load.
    pub(super) x: f64,
    /// Share of the allowance used.
    pub(super) used: f64,
    /// Variance of `used` between runs.
    pub(super) variance: f64,
    /// Number of requests of the run.
    pub(super) weight: f64,
}

/// The edge as a logarithm of load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge {
    /// Where the use is 1.
    pub(super) x: f64,
    /// Half the width of the 95 % confidence interval.
    pub(super) margin: f64,
}

/// A line through the logarithm of the use, around a centre.
#[derive(Debug, Clone, Copy)]
struct LogLine {
    level: f64,
    slope: f64,
}

impl LogLine {
    fn log_used(self, x: f64) -> f64 {
        (self.level + self.slope * x).clamp(-30.0, 10.0)
    }

    fn used(self, x: f64) -> f64 {
        libm::exp(self.log_used(x))
    }

    /// Whether the line passes above a run that is only known to have exceeded the limit by far.
    fn is_above(self, one: &EdgeSample) -> bool {
        one.used >= MOST_USE && self.used(one.x) >= MOST_USE
    }
}

/// The edge, searched from `guess`. `None` where the points do not rise, or are too few.
pub(super) fn edge(samples: &[EdgeSample], guess: f64) -> Option<Edge> {
    let mut centre = guess;
    let mut found = None;
    for _ in 0..6 {
        let near = weighed(samples, centre);
        let line = line(&near)?;
        let x = centre - line.level / line.slope;
        // A line through few points may extrapolate far: the centre follows it only so far.
        let next = x.clamp(centre - 0.2, centre + 0.2);
        found = margin(&near, line).map(|margin| Edge { x, margin });
        if (next - centre).abs() < 1e-4 {
            break;
        }
        centre = next;
    }
    found.filter(|edge| edge.x.is_finite() && edge.margin.is_finite())
}

/// The nearest points with their weights; x is relative to `centre`.
fn weighed(samples: &[EdgeSample], centre: f64) -> Vec<EdgeSample> {
    let mut near: Vec<EdgeSample> = samples
        .iter()
        .map(|one| EdgeSample { x: one.x - centre, used: one.used.min(MOST_USE), ..*one })
        .collect();
    near.sort_by(|a, b| a.x.abs().total_cmp(&b.x.abs()));
    let last = near.get(NEIGHBOURS - 1).or(near.last()).map_or(0.0, |one| one.x.abs());
    let reach = (1.2 * last).clamp(REACH.0, REACH.1);
    let most = near.iter().map(|one| one.weight).fold(f64::MIN_POSITIVE, f64::max);
    for one in &mut near {
        let far = (one.x.abs() / reach).min(1.0);
        one.weight = (1.0 - far.powi(3)).powi(3) * one.weight / most;
    }
    near.retain(|one| one.weight > 1e-6);
    near
}

/// Newton's method for the line of maximum likelihood; each step is halved until it improves.
fn line(near: &[EdgeSample]) -> Option<LogLine> {
    let has = |is: fn(f64) -> bool| near.iter().any(|one| is(one.used));
    if !has(|used| used > 1.0) || !has(|used| used < 1.0) {
        return None;
    }
    let gain = |line: LogLine| -> f64 {
        let of = |one: &EdgeSample| {
            let log = if line.is_above(one) { libm::log(MOST_USE) } else { line.log_used(one.x) };
            one.weight * (one.used * log - libm::exp(log))
        };
        near.iter().map(of).sum()
    };
    let mut line = LogLine { level: 0.0, slope: 8.0 };
    for _ in 0..60 {
        let (information, score) = derivatives(near, line);
        let Some(step) = step(line.slope, information, score) else { break };
        let mut share = 1.0;
        let from = gain(line);
        let tried = |share: f64| LogLine {
            level: line.level + share * step.0,
            slope: (line.slope + share * step.1).clamp(SLOPES.0, SLOPES.1),
        };
        while share > 1e-4 && gain(tried(share)) < from {
            share /= 2.0;
        }
        let next = tried(share);
        let is_settled =
            (next.level - line.level).abs() < 1e-9 && (next.slope - line.slope).abs() < 1e-9;
        line = next;
        if is_settled {
            break;
        }
    }
    Some(line)
}

/// The weighted sums of one Newton step: (11, 1x, xx) and (1, x).
fn derivatives(near: &[EdgeSample], line: LogLine) -> ((f64, f64, f64), (f64, f64)) {
    let mut information = (0.0, 0.0, 0.0);
    let mut score = (0.0, 0.0);
    for one in near.iter().filter(|one| !line.is_above(one)) {
        let used = line.used(one.x);
        let weight = one.weight * used;
        information.0 += weight;
        information.1 += weight * one.x;
        information.2 += weight * one.x * one.x;
        score.0 += one.weight * (one.used - used);
        score.1 += one.weight * (one.used - used) * one.x;
    }
    (information, score)
}

/// One Newton step. Where the slope is at its bound and would leave it, only the level changes.
fn step(slope: f64, m: (f64, f64, f64), score: (f64, f64)) -> Option<(f64, f64)> {
    let determinant = m.0 * m.2 - m.1 * m.1;
    if determinant <= 1e-300 {
        return None;
    }
    let level = (m.2 * score.0 - m.1 * score.1) / determinant;
    let turn = (m.0 * score.1 - m.1 * score.0) / determinant;
    let is_stuck = (slope <= SLOPES.0 && turn < 0.0) || (slope >= SLOPES.1 && turn > 0.0);
    Some(if is_stuck { (score.0 / m.0, 0.0) } else { (level, turn) })
}

/// Half the width of the 95 % confidence interval of the crossing with 1.
fn margin(near: &[EdgeSample], line: LogLine) -> Option<f64> {
    let sum: f64 = near.iter().map(|one| one.weight).sum();
    let squares: f64 = near.iter().map(|one| one.weight * one.weight).sum();
    let effective = sum * sum / squares;
    if effective < FEWEST {
        return None;
    }
    let freedom = effective - 2.0;
    // A point far below the edge with a small use must not dominate the misfit.
    let misfit = |one: &EdgeSample| {
        let used = if line.is_above(one) { one.used } else { line.used(one.x) };
        one.weight * (one.used - used).powi(2) / used.max(0.2)
    };
    let scattered = near.iter().map(misfit).sum::<f64>() / sum * effective / freedom;
    // Few runs may agree by chance, although each shows how bursty it is.
    let (variance, used) = near.iter().fold((0.0, 0.0), |(variance, used), one| {
        (variance + one.weight * one.variance, used + one.weight * one.used)
    });
    let dispersion = if used > 0.0 { scattered.max(variance / used) } else { scattered };
    let (information, _) = derivatives(near, line);
    let determinant = information.0 * information.2 - information.1 * information.1;
    if determinant <= 0.0 {
        return None;
    }
    let x = -line.level / line.slope;
    let variance = (information.2 - 2.0 * x * information.1 + x * x * information.0) / determinant;
    let error = (dispersion * variance).sqrt() / line.slope;
    Some(statistics::student_quantile(0.975, freedom) * error)
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_base::seed::unit_float;

    use super::*;

    fn sample(load: f64, used: f64) -> EdgeSample {
        EdgeSample { x: libm::log(load), used, variance: 0.0, weight: 400.0 }
    }

    #[test]
    fn the_edge_of_a_smooth_objective_lies_where_its_use_is_one() {
        let samples: Vec<EdgeSample> = [4.0, 8.0, 12.0, 11.0, 10.0, 9.5, 10.2, 9.9]
            .into_iter()
            .map(|load: f64| sample(load, (load / 10.0).powi(6)))
            .collect();
        let edge = edge(&samples, libm::log(11.0)).unwrap();
        assert!((libm::exp(edge.x) - 10.0).abs() < 0.02, "{edge:?}");
        assert!(edge.margin < 0.01, "{edge:?}");
    }

    #[test]
    fn a_cliff_is_found_between_its_sides() {
        let loads = [8.0, 16.0, 12.0, 14.0, 13.0, 12.5, 12.8, 12.9];
        let samples: Vec<EdgeSample> =
            loads.iter().map(|load| sample(*load, if *load < 12.85 { 0.0 } else { 1e6 })).collect();
        let edge = edge(&samples, libm::log(12.85)).unwrap();
        assert!((libm::exp(edge.x) / 12.85 - 1.0).abs() < 0.01, "{}", libm::exp(edge.x));
    }

    #[test]
    fn points_that_all_miss_or_all_meet_have_no_edge() {
        for used in [0.2, 3.0] {
            let samples: Vec<EdgeSample> =
                [1.0, 2.0, 3.0, 4.0, 5.0].iter().map(|load| sample(*load, used)).collect();
            assert_eq!(edge(&samples, 1.0), None);
        }
    }

    /// Uses with the scatter of rare bursts: most runs have none, some have several.
    #[test]
    fn the_interval_holds_the_truth_about_as_often_as_it_says() {
        let mut held = 0;
        for seed in 0..200 {
            let mut generator = Seed(seed).stream("edge").at(0);
            let mut burst = |mean: f64| {
                // A sum of four exponentials: its variance is a quarter of its squared mean.
                let draw = (0..4).map(|_| -libm::log(unit_float(&mut generator).max(1e-12)));
                draw.sum::<f64>() * mean / 4.0
            };
            let samples: Vec<EdgeSample> = [7.0, 8.5, 10.0, 9.2, 9.7, 10.4, 9.9, 10.1, 10.2, 9.8]
                .iter()
                .map(|load: &f64| sample(*load, burst((load / 10.0).powi(12))))
                .collect();
            let Some(edge) = edge(&samples, libm::log(10.0)) else { continue };
            held += u32::from((edge.x - libm::log(10.0)).abs() <= edge.margin);
        }
        assert!(held >= 180, "{held} of 200");
    }
}
