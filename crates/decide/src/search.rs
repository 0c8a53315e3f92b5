//! Searches the highest load that meets objectives, as a pure function of the measured points.
//!
//! In: the points so far, each with its load, whether it met the objectives, and the share of each
//! objective's allowance that it used. Out: the next load to measure, or the answer. Only the points
//! decide, so a search can be resumed from its run folders. Loads are doubled until a point violates
//! an objective, the bracket is narrowed, a violation is measured again, and then the edge itself
//! until a line through the points near it is precise enough.

mod allowance;
mod edge;
mod length;
mod options;

use serde::{Deserialize, Serialize};

use self::edge::{Edge, EdgeSample};

pub use self::allowance::{Allowance, Use};
pub use self::length::{PointLength, fit, needed};
pub use self::options::SearchOptions;

/// The result of a point against all objectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointOutcome {
    /// All objectives were met.
    Met,
    /// At least one was violated.
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

/// One measured point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Requests per second, or requests in flight.
    pub load: f64,
    /// Over all objectives.
    pub fit: PointOutcome,
    /// Requests measured.
    pub requests: u64,
    /// Share of each objective's allowance that was used. `None` where nothing was measured.
    pub uses: Vec<Option<Use>>,
}

impl Point {
    /// The input of an objective's line from this point.
    fn sample(&self, objective: usize) -> Option<EdgeSample> {
        let measured = self.uses.get(objective).copied().flatten();
        let Use { used, variance } = match self.fit {
            PointOutcome::Met | PointOutcome::Missed => measured?,
            // Ended early or not measured: its figures show only that the limit was exceeded.
            PointOutcome::Overloaded | PointOutcome::Failed => {
                let used = measured.map_or(LEAST_MISS, |one| one.used.max(LEAST_MISS));
                Use { used, variance: 0.0 }
            }
        };
        let weight = self.requests.max(1) as f64;
        Some(EdgeSample { x: libm::log(self.load), used, variance, weight })
    }
}

/// Least use that counts for a point that was ended for overload.
const LEAST_MISS: f64 = 2.0;

/// Parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchLimits {
    /// The first load.
    pub start: f64,
    /// No lower load is tried.
    pub least: f64,
    /// No higher load is tried.
    pub most: f64,
    /// The search ends when half the width of the answer's interval is at most this share of the
    /// answer.
    pub resolution: f64,
    /// Least number of measurements near the edge.
    pub repeats: usize,
    /// Maximum number of points.
    pub points: usize,
    /// Whether loads are integers.
    pub is_whole: bool,
}

/// The next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Measure this load.
    Measure(f64),
    /// The search has ended.
    Done(SearchResult),
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchResult {
    /// The highest load that meets the objectives.
    Found {
        /// The estimate.
        load: f64,
        /// Half the width of its 95 % confidence interval.
        margin: f64,
        /// Index of the objective that limits it; `None` where unknown.
        objective: Option<usize>,
        /// The highest measured load that met the objectives.
        highest_met: f64,
        /// The lowest measured load that violated them.
        lowest_missed: f64,
    },
    /// Every load up to the maximum meets the objectives, so the maximum is the limit, not the
    /// server.
    LimitedByMost {
        /// The highest measured load.
        load: f64,
    },
    /// Even the minimum load violates the objectives.
    NoneMeets {
        /// The lowest measured load.
        load: f64,
    },
    /// The maximum number of points was reached.
    Unfinished {
        /// The highest measured load that met the objectives; `None` if none did.
        highest_met: Option<f64>,
        /// The lowest measured load that violated them; `None` if none did.
        lowest_missed: Option<f64>,
    },
}

/// All measurements of one load.
struct Rung {
    load: f64,
    met: usize,
    count: usize,
}

impl Rung {
    /// A tie counts as violated: half of the measurements are not enough.
    fn holds(&self) -> bool {
        self.met * 2 > self.count
    }
}

fn rungs(points: &[Point]) -> Vec<Rung> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| a.load.total_cmp(&b.load));
    let groups = sorted.chunk_by(|a, b| (a.load - b.load).abs() <= 1e-9 * a.load.max(1.0));
    groups
        .map(|group| Rung {
            load: group[0].load,
            met: group.iter().filter(|point| point.fit.is_met()).count(),
            count: group.len(),
        })
        .collect()
}

/// The bracket: the highest load that holds, and the lowest one above it that does not.
fn bracket(rungs: &[Rung]) -> (Option<&Rung>, Option<&Rung>) {
    let missed = rungs.iter().find(|rung| !rung.holds());
    let below = |rung: &&Rung| rung.holds() && missed.is_none_or(|missed| rung.load < missed.load);
    (rungs.iter().rfind(below), missed)
}

/// Where the first objective reaches its limit.
#[derive(Debug, Clone, Copy)]
struct Found {
    load: f64,
    margin: f64,
    objective: usize,
}

fn found(points: &[Point], low: &Rung, high: &Rung) -> Option<Found> {
    let guess = f64::midpoint(libm::log(low.load), libm::log(high.load));
    let objectives = points.iter().map(|point| point.uses.len()).max().unwrap_or(0);
    let edges = (0..objectives).filter_map(|objective| {
        let samples: Vec<EdgeSample> =
            points.iter().filter_map(|one| one.sample(objective)).collect();
        edge::edge(&samples, guess).map(|edge| (objective, edge))
    });
    let (objective, Edge { x, margin }) = edges.min_by(|(_, a), (_, b)| a.x.total_cmp(&b.x))?;
    let load = libm::exp(x);
    // Between two measured neighbours nothing is known, however well the line fits.
    let below = points.iter().map(|one| one.load).filter(|one| *one <= load).fold(0.0, f64::max);
    let above =
        points.iter().map(|one| one.load).filter(|one| *one >= load).fold(f64::INFINITY, f64::min);
    let gap = if below > 0.0 && above.is_finite() { (above - below) / 2.0 } else { load };
    Some(Found { load, margin: (load * margin).max(gap), objective })
}

/// Whether the objectives are met with margin up to `low` and clearly violated from `high` on: the
/// edge then lies between them, even if no line fits.
fn is_clear(points: &[Point], low: &Rung, high: &Rung) -> bool {
    let worst = |point: &Point| {
        let samples = (0..point.uses.len()).filter_map(|at| point.sample(at));
        samples.map(|sample| sample.used).fold(0.0, f64::max)
    };
    points.iter().all(|point| match worst(point) {
        used if point.load <= low.load => used <= 0.5,
        used if point.load >= high.load => used >= 2.0,
        _ => false,
    })
}

/// Three digits are enough for a load that a user may type again.
fn rounded(load: f64) -> f64 {
    let unit = 10_f64.powf(load.log10().floor() - 2.0);
    (load / unit).round() * unit
}

impl SearchLimits {
    fn tidy(&self, load: f64) -> f64 {
        let load = load.clamp(self.least, self.most);
        if self.is_whole { load.round().max(1.0) } else { load }
    }

    fn is_narrow(&self, low: f64, high: f64) -> bool {
        let is_next = self.is_whole && high - low <= 1.0;
        is_next || high / low <= 1.0 + 2.0 * self.resolution
    }

    /// A pure function of `points`, in any order.
    pub fn next(&self, points: &[Point]) -> Next {
        let rungs = rungs(points);
        if rungs.is_empty() {
            return Next::Measure(self.tidy(self.start));
        }
        let (low, high) = bracket(&rungs);
        if points.len() >= self.points {
            return Next::Done(self.best(points, low, high));
        }
        match (low, high) {
            (Some(low), None) if low.load >= self.most => {
                Next::Done(SearchResult::LimitedByMost { load: low.load })
            }
            (Some(low), None) => Next::Measure(self.tidy(low.load * 2.0)),
            (None, Some(high)) if high.load <= self.least => {
                Next::Done(SearchResult::NoneMeets { load: high.load })
            }
            (None, Some(high)) => Next::Measure(self.tidy(high.load / 2.0)),
            (Some(low), Some(high)) => self.narrowed(points, low, high),
            (None, None) => Next::Measure(self.tidy(self.start)),
        }
    }

    /// The next step once one load holds and a higher one does not.
    fn narrowed(&self, points: &[Point], low: &Rung, high: &Rung) -> Next {
        let found = found(points, low, high);
        if !self.is_narrow(low.load, high.load) {
            let middle = found.map_or((low.load * high.load).sqrt(), |found| found.load);
            let width = high.load - low.load;
            let inside = middle.clamp(low.load + 0.2 * width, high.load - 0.2 * width);
            return Next::Measure(self.tidy(rounded(inside)));
        }
        // One violation may be an outlier, and no load above it has been measured.
        if high.count - high.met < 2 {
            return Next::Measure(high.load);
        }
        let is_clear = is_clear(points, low, high);
        match found {
            Some(found) if self.is_settled(points, found) => {
                Next::Done(self.best(points, Some(low), Some(high)))
            }
            _ if is_clear && high.load / low.load > 1.0 + self.resolution => {
                Next::Measure(self.tidy(rounded(f64::midpoint(low.load, high.load))))
            }
            _ if is_clear && low.count < self.repeats => Next::Measure(low.load),
            _ if is_clear => Next::Done(self.best(points, Some(low), Some(high))),
            Some(found) => {
                let reach = 1.0 + 2.0 * self.resolution;
                let load = found.load.clamp(low.load / reach, high.load * reach);
                Next::Measure(self.tidy(rounded(load)))
            }
            None if low.count < self.repeats => Next::Measure(low.load),
            None if high.count < self.repeats => Next::Measure(high.load),
            None => Next::Done(self.best(points, Some(low), Some(high))),
        }
    }

    /// Whether the edge is precise enough and was measured often enough.
    fn is_settled(&self, points: &[Point], found: Found) -> bool {
        let reach = (self.resolution * found.load).max(if self.is_whole { 1.0 } else { 0.0 });
        let near = points.iter().filter(|point| (point.load - found.load).abs() <= reach);
        found.margin <= reach && near.count() >= self.repeats
    }

    fn best(&self, points: &[Point], low: Option<&Rung>, high: Option<&Rung>) -> SearchResult {
        let (Some(below), Some(above)) = (low, high) else {
            return SearchResult::Unfinished {
                highest_met: low.map(|rung| rung.load),
                lowest_missed: high.map(|rung| rung.load),
            };
        };
        let is_narrow = self.is_narrow(below.load, above.load);
        let half = (above.load - below.load) / 2.0;
        let is_clear = is_narrow && is_clear(points, below, above);
        let found = found(points, below, above)
            .filter(|found| is_narrow && found.margin < found.load)
            .filter(|found| !(is_clear && half < found.margin));
        match found {
            Some(found) => SearchResult::Found {
                load: if self.is_whole { found.load.floor() } else { found.load },
                margin: found.margin,
                objective: Some(found.objective),
                highest_met: below.load,
                lowest_missed: above.load,
            },
            None if is_narrow => SearchResult::Found {
                load: if self.is_whole {
                    below.load
                } else {
                    f64::midpoint(below.load, above.load)
                },
                margin: half,
                objective: None,
                highest_met: below.load,
                lowest_missed: above.load,
            },
            None => SearchResult::Unfinished {
                highest_met: Some(below.load),
                lowest_missed: Some(above.load),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SearchLimits = SearchLimits {
        start: 1.0,
        least: 0.1,
        most: 1_000.0,
        resolution: 0.04,
        repeats: 3,
        points: 20,
        is_whole: false,
    };

    /// Runs a search against a server whose use at a load is `strain`.
    fn search(limits: SearchLimits, strain: impl Fn(f64) -> f64) -> (SearchResult, usize) {
        let mut points = Vec::new();
        loop {
            match limits.next(&points) {
                Next::Done(answer) => return (answer, points.len()),
                Next::Measure(load) => {
                    let strain = strain(load);
                    let fit = if strain <= 1.0 { PointOutcome::Met } else { PointOutcome::Missed };
                    points.push(Point {
                        load,
                        fit,
                        requests: 400,
                        uses: vec![Some(Use { used: strain, variance: 0.0 })],
                    });
                }
            }
        }
    }

    #[test]
    fn a_smooth_server_is_found_within_its_resolution_in_few_points() {
        for capacity in [0.7, 3.3, 12.4, 187.0] {
            let (answer, count) = search(LIMITS, |load| (load / capacity).powi(3));
            let SearchResult::Found { load, margin, .. } = answer else { panic!("{answer:?}") };
            assert!((load / capacity - 1.0).abs() < 0.04, "{load} against {capacity}");
            assert!(margin / load <= 0.04 && count <= 20, "{margin} after {count} points");
        }
    }

    #[test]
    fn a_server_that_falls_off_a_cliff_is_found_too() {
        let (answer, count) = search(LIMITS, |load| if load < 42.0 { 0.1 } else { 1e6 });
        let SearchResult::Found { highest_met, lowest_missed, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(highest_met < 42.0 && lowest_missed >= 42.0 && count <= 20);
    }

    #[test]
    fn whole_loads_end_at_neighbours() {
        let limits = SearchLimits { is_whole: true, ..LIMITS };
        let (answer, _) = search(limits, |load| load / 13.0);
        assert!(
            matches!(answer, SearchResult::Found { load: 13.0, lowest_missed: 14.0, .. }),
            "{answer:?}"
        );
    }

    #[test]
    fn a_limit_that_was_ours_and_an_objective_that_nothing_meets_are_told_apart() {
        let (answer, _) = search(SearchLimits { most: 64.0, ..LIMITS }, |_| 0.1);
        assert_eq!(answer, SearchResult::LimitedByMost { load: 64.0 });
        let (answer, _) = search(LIMITS, |_| 5.0);
        assert_eq!(answer, SearchResult::NoneMeets { load: 0.1 });
    }

    #[test]
    fn an_edge_that_mostly_fails_when_repeated_moves_down() {
        let point = |load, fit| Point { load, fit, requests: 400, uses: vec![None] };
        let mut points = vec![
            point(1.0, PointOutcome::Met),
            point(2.0, PointOutcome::Missed),
            point(1.95, PointOutcome::Met),
            point(1.95, PointOutcome::Missed),
            point(1.95, PointOutcome::Failed),
        ];
        let Next::Measure(load) = LIMITS.next(&points) else { panic!("not done") };
        assert!(load > 1.0 && load < 1.95, "{load}");
        points.extend((0..20).map(|_| point(load, PointOutcome::Overloaded)));
        assert!(matches!(LIMITS.next(&points), Next::Done(SearchResult::Unfinished { .. })));
    }
}
