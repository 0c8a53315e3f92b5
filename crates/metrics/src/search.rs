//! The search for the highest load that meets objectives, as a pure function of what was measured.
//!
//! In: the points so far, each with its load, whether it met the objectives, and how near the limit
//! its worst objective was. Out: the next load to measure, or the answer. Because nothing but the
//! points decides, a search can be interrupted and taken up again from its run folders. Loads are
//! doubled until a point misses, then the bracket is bisected, then its edge is repeated.

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its load: requests per second, or requests in flight.
    pub load: f64,
    /// How it came out.
    pub fit: Fit,
    /// The worst objective's value over its limit: below 1 it is met. `None` where nothing was
    /// measured.
    pub strain: Option<f64>,
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The first load.
    pub start: f64,
    /// No load below this is tried.
    pub least: f64,
    /// No load above this is tried.
    pub most: f64,
    /// The bracket is narrow enough when its ends differ by this share.
    pub resolution: f64,
    /// Measurements of the edge.
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
        /// Half the width of what the data leave open.
        margin: f64,
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
    log_strain: Option<f64>,
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
        .map(|group| {
            let logs: Vec<f64> = group
                .iter()
                .filter_map(|point| point.strain)
                .filter(|s| *s > 0.0)
                .map(libm::log)
                .collect();
            Rung {
                load: group[0].load,
                met: group.iter().filter(|point| point.fit.is_met()).count(),
                count: group.len(),
                log_strain: (!logs.is_empty())
                    .then(|| logs.iter().sum::<f64>() / logs.len() as f64),
            }
        })
        .collect()
}

/// The bracket: the highest load that holds below the lowest that does not.
fn bracket(rungs: &[Rung]) -> (Option<&Rung>, Option<&Rung>) {
    let missed = rungs.iter().find(|rung| !rung.holds());
    let below = |rung: &&Rung| rung.holds() && missed.is_none_or(|missed| rung.load < missed.load);
    (rungs.iter().rfind(below), missed)
}

impl Limits {
    fn tidy(&self, load: f64) -> f64 {
        let load = load.clamp(self.least, self.most);
        if self.is_whole { load.round().max(1.0) } else { load }
    }

    fn is_narrow(&self, low: f64, high: f64) -> bool {
        let is_next = self.is_whole && high - low <= 1.0;
        is_next || high / low <= 1.0 + self.resolution
    }

    /// The next load to measure, or the answer.
    pub fn next(&self, points: &[Point]) -> Next {
        let rungs = rungs(points);
        if rungs.is_empty() {
            return Next::Measure(self.tidy(self.start));
        }
        let (low, high) = bracket(&rungs);
        if points.len() >= self.points {
            return Next::Done(self.best(low, high));
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
            (Some(low), Some(high)) if !self.is_narrow(low.load, high.load) => {
                Next::Measure(self.tidy(middle(low, high)))
            }
            (Some(low), Some(_)) if low.count < self.repeats => Next::Measure(low.load),
            _ => Next::Done(self.best(low, high)),
        }
    }

    fn best(&self, low: Option<&Rung>, high: Option<&Rung>) -> Answer {
        let (Some(below), Some(above)) = (low, high) else {
            return Answer::Unfinished {
                highest_met: low.map(|rung| rung.load),
                lowest_missed: high.map(|rung| rung.load),
            };
        };
        if !self.is_narrow(below.load, above.load) {
            return Answer::Unfinished {
                highest_met: Some(below.load),
                lowest_missed: Some(above.load),
            };
        }
        let load = if self.is_whole { below.load } else { crossing(below, above) };
        Answer::Found {
            load,
            margin: (above.load - below.load) / 2.0,
            highest_met: below.load,
            lowest_missed: above.load,
        }
    }
}

/// Where the strain crosses 1 on a straight line of its logarithm, kept inside the bracket.
fn crossing(low: &Rung, high: &Rung) -> f64 {
    let half = f64::midpoint(low.load, high.load);
    let (Some(a), Some(b)) = (low.log_strain, high.log_strain) else { return half };
    if !(a < 0.0 && b > 0.0) {
        return half;
    }
    low.load + (high.load - low.load) * (-a / (b - a))
}

/// The load to try inside a bracket: where the objective should cross its limit, but never nearer to
/// an end than a fifth, since a strain that explodes at the edge says little about where it begins.
fn middle(low: &Rung, high: &Rung) -> f64 {
    let width = high.load - low.load;
    crossing(low, high).clamp(low.load + 0.2 * width, high.load - 0.2 * width)
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
                    points.push(Point { load, fit, strain: Some(strain) });
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
        let point = |load, fit| Point { load, fit, strain: None };
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
