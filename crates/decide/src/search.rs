//! The search for the highest load that meets objectives, as a pure function of what was measured.
//!
//! In: the points so far, each with its load, whether it met the objectives, and how much of each
//! objective's allowance it used. Out: the next load to measure, or the answer. Because nothing but the
//! points decides, a search can be interrupted and taken up again from its run folders. Loads are
//! doubled until a point misses, the bracket is narrowed, a miss is tried again, and then the edge
//! itself is measured until a line through all points near it knows it well enough.

mod allowance;
mod edge;
mod length;
mod options;

use serde::{Deserialize, Serialize};

use self::edge::{Edge, Sample};

pub use self::allowance::{Allowance, Use};
pub use self::length::{Length, fit, needed};
pub use self::options::SearchOptions;

/// How a point came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// All objectives were met.
    Met,
    /// At least one was missed.
    Missed,
    /// The server could not keep up; the point was ended early.
    Overloaded,
    /// The server failed or could not be reached.
    Failed,
}

impl Fit {
    fn is_met(self) -> bool {
        self == Self::Met
    }
}

/// One measured point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its load: requests per second, or requests in flight.
    pub load: f64,
    /// How it came out.
    pub fit: Fit,
    /// Requests measured.
    pub requests: u64,
    /// How much of each objective's allowance was used. `None` where nothing was measured.
    pub uses: Vec<Option<Use>>,
}

impl Point {
    /// What the line of an objective sees of this point.
    fn sample(&self, objective: usize) -> Option<Sample> {
        let measured = self.uses.get(objective).copied().flatten();
        let Use { used, variance } = match self.fit {
            Fit::Met | Fit::Missed => measured?,
            // Ended early or not at all: its figures say little but that the limit was missed.
            Fit::Overloaded | Fit::Failed => {
                let used = measured.map_or(LEAST_MISS, |one| one.used.max(LEAST_MISS));
                Use { used, variance: 0.0 }
            }
        };
        let weight = self.requests.max(1) as f64;
        Some(Sample { x: libm::log(self.load), used, variance, weight })
    }
}

/// What a point that was ended for overload counts for at least.
const LEAST_MISS: f64 = 2.0;

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The first load.
    pub start: f64,
    /// No load below this is tried.
    pub least: f64,
    /// No load above this is tried.
    pub most: f64,
    /// Half the width of the answer's interval that is narrow enough, as a share of the answer.
    pub resolution: f64,
    /// Least number of measurements at the edge.
    pub repeats: usize,
    /// Most points in all.
    pub points: usize,
    /// Whether loads are whole numbers.
    pub is_whole: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Measure this load.
    Measure(f64),
    /// Nothing more to measure.
    Done(Answer),
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The highest load that meets the objectives.
    Found {
        /// The estimate.
        load: f64,
        /// Half the width of its 95 % interval.
        margin: f64,
        /// Which objective limits it, where that is known.
        objective: Option<usize>,
        /// The highest load measured to meet them.
        highest_met: f64,
        /// The lowest load measured to miss them.
        lowest_missed: f64,
    },
    /// Every load up to the highest allowed one meets them: the limit was ours, not the server's.
    LimitedByMost {
        /// The highest load tried.
        load: f64,
    },
    /// Not even the least load meets them.
    NoneMeets {
        /// The lowest load tried.
        load: f64,
    },
    /// The points ran out first.
    Unfinished {
        /// The highest load measured to meet the objectives, if any did.
        highest_met: Option<f64>,
        /// The lowest load measured to miss them, if any did.
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
    /// A tie counts as missed: an edge that holds half of the time does not hold.
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

/// The bracket: the highest load that holds below the lowest that does not.
fn bracket(rungs: &[Rung]) -> (Option<&Rung>, Option<&Rung>) {
    let missed = rungs.iter().find(|rung| !rung.holds());
    let below = |rung: &&Rung| rung.holds() && missed.is_none_or(|missed| rung.load < missed.load);
    (rungs.iter().rfind(below), missed)
}

/// Where the first of the objectives reaches its limit.
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
        let samples: Vec<Sample> = points.iter().filter_map(|one| one.sample(objective)).collect();
        edge::edge(&samples, guess).map(|edge| (objective, edge))
    });
    let (objective, Edge { x, margin }) = edges.min_by(|(_, a), (_, b)| a.x.total_cmp(&b.x))?;
    let load = libm::exp(x);
    // Between two neighbours that were measured nothing is known, however straight the line.
    let below = points.iter().map(|one| one.load).filter(|one| *one <= load).fold(0.0, f64::max);
    let above =
        points.iter().map(|one| one.load).filter(|one| *one >= load).fold(f64::INFINITY, f64::min);
    let gap = if below > 0.0 && above.is_finite() { (above - below) / 2.0 } else { load };
    Some(Found { load, margin: (load * margin).max(gap), objective })
}

/// Whether the objectives are met with room to spare up to `low` and missed by far from `high` on: the
/// edge then surely lies between them, though no line describes it.
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

/// Three digits: a load that is to be typed again should not need more.
fn rounded(load: f64) -> f64 {
    let unit = 10_f64.powf(load.log10().floor() - 2.0);
    (load / unit).round() * unit
}

impl Limits {
    fn tidy(&self, load: f64) -> f64 {
        let load = load.clamp(self.least, self.most);
        if self.is_whole { load.round().max(1.0) } else { load }
    }

    fn is_narrow(&self, low: f64, high: f64) -> bool {
        let is_next = self.is_whole && high - low <= 1.0;
        is_next || high / low <= 1.0 + 2.0 * self.resolution
    }

    /// The next load to measure, or the answer.
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
                Next::Done(Answer::LimitedByMost { load: low.load })
            }
            (Some(low), None) => Next::Measure(self.tidy(low.load * 2.0)),
            (None, Some(high)) if high.load <= self.least => {
                Next::Done(Answer::NoneMeets { load: high.load })
            }
            (None, Some(high)) => Next::Measure(self.tidy(high.load / 2.0)),
            (Some(low), Some(high)) => self.narrowed(points, low, high),
            (None, None) => Next::Measure(self.tidy(self.start)),
        }
    }

    /// What to do once one load holds and a higher one does not.
    fn narrowed(&self, points: &[Point], low: &Rung, high: &Rung) -> Next {
        let found = found(points, low, high);
        if !self.is_narrow(low.load, high.load) {
            let middle = found.map_or((low.load * high.load).sqrt(), |found| found.load);
            let width = high.load - low.load;
            let inside = middle.clamp(low.load + 0.2 * width, high.load - 0.2 * width);
            return Next::Measure(self.tidy(rounded(inside)));
        }
        // One miss may have been a hiccup, and everything above it is still unseen.
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

    /// Whether the edge is known well enough, and was measured often enough.
    fn is_settled(&self, points: &[Point], found: Found) -> bool {
        let reach = (self.resolution * found.load).max(if self.is_whole { 1.0 } else { 0.0 });
        let near = points.iter().filter(|point| (point.load - found.load).abs() <= reach);
        found.margin <= reach && near.count() >= self.repeats
    }

    fn best(&self, points: &[Point], low: Option<&Rung>, high: Option<&Rung>) -> Answer {
        let (Some(below), Some(above)) = (low, high) else {
            return Answer::Unfinished {
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
            Some(found) => Answer::Found {
                load: if self.is_whole { found.load.floor() } else { found.load },
                margin: found.margin,
                objective: Some(found.objective),
                highest_met: below.load,
                lowest_missed: above.load,
            },
            None if is_narrow => Answer::Found {
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
            None => Answer::Unfinished {
                highest_met: Some(below.load),
                lowest_missed: Some(above.load),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        start: 1.0,
        least: 0.1,
        most: 1_000.0,
        resolution: 0.04,
        repeats: 3,
        points: 20,
        is_whole: false,
    };

    /// Runs a search against a server whose strain at a load is `strain`.
    fn search(limits: Limits, strain: impl Fn(f64) -> f64) -> (Answer, usize) {
        let mut points = Vec::new();
        loop {
            match limits.next(&points) {
                Next::Done(answer) => return (answer, points.len()),
                Next::Measure(load) => {
                    let strain = strain(load);
                    let fit = if strain <= 1.0 { Fit::Met } else { Fit::Missed };
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
            let Answer::Found { load, margin, .. } = answer else { panic!("{answer:?}") };
            assert!((load / capacity - 1.0).abs() < 0.04, "{load} against {capacity}");
            assert!(margin / load <= 0.04 && count <= 20, "{margin} after {count} points");
        }
    }

    #[test]
    fn a_server_that_falls_off_a_cliff_is_found_too() {
        let (answer, count) = search(LIMITS, |load| if load < 42.0 { 0.1 } else { 1e6 });
        let Answer::Found { highest_met, lowest_missed, .. } = answer else { panic!("{answer:?}") };
        assert!(highest_met < 42.0 && lowest_missed >= 42.0 && count <= 20);
    }

    #[test]
    fn whole_loads_end_at_neighbours() {
        let limits = Limits { is_whole: true, ..LIMITS };
        let (answer, _) = search(limits, |load| load / 13.0);
        assert!(
            matches!(answer, Answer::Found { load: 13.0, lowest_missed: 14.0, .. }),
            "{answer:?}"
        );
    }

    #[test]
    fn a_limit_that_was_ours_and_an_objective_that_nothing_meets_are_told_apart() {
        let (answer, _) = search(Limits { most: 64.0, ..LIMITS }, |_| 0.1);
        assert_eq!(answer, Answer::LimitedByMost { load: 64.0 });
        let (answer, _) = search(LIMITS, |_| 5.0);
        assert_eq!(answer, Answer::NoneMeets { load: 0.1 });
    }

    #[test]
    fn an_edge_that_mostly_fails_when_repeated_moves_down() {
        let point = |load, fit| Point { load, fit, requests: 400, uses: vec![None] };
        let mut points = vec![
            point(1.0, Fit::Met),
            point(2.0, Fit::Missed),
            point(1.95, Fit::Met),
            point(1.95, Fit::Missed),
            point(1.95, Fit::Failed),
        ];
        let Next::Measure(load) = LIMITS.next(&points) else { panic!("not done") };
        assert!(load > 1.0 && load < 1.95, "{load}");
        points.extend((0..20).map(|_| point(load, Fit::Overloaded)));
        assert!(matches!(LIMITS.next(&points), Next::Done(Answer::Unfinished { .. })));
    }
}
