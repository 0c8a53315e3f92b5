//! The first stage of a search: between which two loads the limit lies.
//!
//! In: the points in the order in which they were measured. Out: the next load, or the bracket, or the
//! reason why there is none. Loads are doubled (or halved) until one load meets the objectives and a
//! higher one does not, and the bracket is then halved until it is narrow. Only its middle and width
//! are used further on, so that a wrong outcome costs precision, not truth.

use super::{Climb, Point, PointOutcome, SearchLimits, SearchResult, Stage};

impl Climb {
    /// The next load above one that met the objectives, as a multiple of it.
    fn factor(self) -> f64 {
        match self {
            Self::Far => 2.0,
            Self::Near => std::f64::consts::SQRT_2,
        }
    }

    /// What the points on the way to the limit are measured for.
    fn stage(self) -> Stage {
        match self {
            Self::Far => Stage::Climb,
            Self::Near => Stage::Narrow,
        }
    }

    /// A bracket is narrow when its upper end is at most so many times its lower end. Near the limit one step
    /// is: a short point between its ends tells less than the line through them, and the time is worth more
    /// in the estimate.
    fn narrow(self) -> f64 {
        match self {
            Self::Far => 1.15,
            Self::Near => 1.45,
        }
    }
}

/// Two loads with the limit between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bracket {
    /// Met the objectives.
    pub(super) low: f64,
    /// Violated them.
    pub(super) high: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum BracketStep {
    Measure(f64, Stage),
    Found(Bracket),
    Done(SearchResult),
}

/// All measurements of one load: the longer ones, where there are any.
struct Rung {
    load: f64,
    met: usize,
    count: usize,
    /// Whether one was so far beyond a limit that it need not be repeated.
    is_far: bool,
    /// Whether these are longer than a short look.
    is_long: bool,
}

impl Rung {
    /// A tie counts as violated: half of the measurements are not enough.
    fn holds(&self) -> bool {
        self.met * 2 > self.count
    }

    /// Whether the violation may be an outlier: it happened once and was not gross.
    fn is_doubtful(&self) -> bool {
        self.count - self.met < 2 && !self.is_far
    }
}

/// A use of this much, or a server that does not keep up, is no outlier.
const FAR: f64 = 10.0;

fn is_far(point: &Point) -> bool {
    let used = point.uses.iter().flatten().map(|one| one.used).fold(0.0, f64::max);
    match point.fit {
        PointOutcome::Met => false,
        PointOutcome::Missed => used >= FAR,
        PointOutcome::Overloaded | PointOutcome::Failed => true,
    }
}

fn rungs(points: &[Point]) -> Vec<Rung> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| a.load.total_cmp(&b.load));
    let groups = sorted.chunk_by(|a, b| (a.load - b.load).abs() <= 1e-9 * a.load.max(1.0));
    groups
        .map(|group| {
            let long: Vec<&Point> =
                group.iter().copied().filter(|point| point.stage != Stage::Climb).collect();
            let (counted, is_long) =
                if long.is_empty() { (group.to_vec(), false) } else { (long, true) };
            Rung {
                load: group[0].load,
                met: counted.iter().filter(|point| point.fit.is_met()).count(),
                count: counted.len(),
                is_far: counted.iter().any(|point| is_far(point)),
                is_long,
            }
        })
        .collect()
}

/// Three digits are enough for a load that a user may type again.
pub(super) fn rounded(load: f64) -> f64 {
    let unit = 10_f64.powf(load.log10().floor() - 2.0);
    (load / unit).round() * unit
}

impl SearchLimits {
    /// A load that may be measured.
    pub(super) fn tidy(&self, load: f64) -> f64 {
        let load = load.clamp(self.least, self.most);
        if self.is_whole { load.round().max(1.0) } else { load }
    }

    /// The next load after one that met the objectives.
    fn above(&self, met: f64) -> f64 {
        let next = self.tidy(met * self.climb.factor());
        // Rounding must not measure the same load again.
        if next > met { next } else { self.tidy(met + 1.0) }
    }

    pub(super) fn bracket(&self, points: &[Point]) -> BracketStep {
        let rungs = rungs(points);
        let stage = self.climb.stage();
        let missed = rungs.iter().find(|rung| !rung.holds());
        let is_below =
            |rung: &&Rung| rung.holds() && missed.is_none_or(|missed| rung.load < missed.load);
        match (rungs.iter().rfind(is_below), missed) {
            (None, None) => BracketStep::Measure(self.tidy(self.start), stage),
            (Some(low), None) if low.load >= self.most => {
                BracketStep::Done(SearchResult::LimitedByMost { load: low.load })
            }
            (Some(low), None) => BracketStep::Measure(self.above(low.load), stage),
            (None, Some(high)) if high.load <= self.least => {
                BracketStep::Done(SearchResult::NoneMeets { load: high.load })
            }
            (None, Some(high)) => BracketStep::Measure(self.tidy(high.load / 2.0), stage),
            (Some(low), Some(high)) => self.narrowed(low, high),
        }
    }

    fn narrowed(&self, low: &Rung, high: &Rung) -> BracketStep {
        let is_next = self.is_whole && high.load - low.load <= 1.0;
        if !is_next && high.load / low.load > self.climb.narrow() {
            let middle = (low.load * high.load).sqrt();
            let middle = if self.is_whole {
                // Rounding must not measure an end again.
                self.tidy(middle).clamp(low.load + 1.0, high.load - 1.0)
            } else {
                self.tidy(rounded(middle))
            };
            return BracketStep::Measure(middle, Stage::Narrow);
        }
        // A server that is a little overloaded meets everything at first.
        if !low.is_long {
            return BracketStep::Measure(low.load, Stage::Narrow);
        }
        if high.is_doubtful() {
            return BracketStep::Measure(high.load, Stage::Narrow);
        }
        BracketStep::Found(Bracket { low: low.load, high: high.load })
    }

    /// What is known when no more points may be measured.
    pub(super) fn unfinished(points: &[Point]) -> SearchResult {
        let rungs = rungs(points);
        let missed = rungs.iter().find(|rung| !rung.holds());
        let is_below =
            |rung: &&Rung| rung.holds() && missed.is_none_or(|missed| rung.load < missed.load);
        SearchResult::Unfinished {
            highest_met: rungs.iter().rfind(is_below).map(|rung| rung.load),
            lowest_missed: missed.map(|rung| rung.load),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Use;
    use super::super::tests::LIMITS;
    use super::*;

    fn point(load: f64, stage: Stage, fit: PointOutcome, used: f64) -> Point {
        let one = Use { used, variance: 0.0, allowed: Some(0.01) };
        let (sent, is_short) = (load, false);
        Point { load, sent, stage, fit, is_short, requests: 400, uses: vec![Some(one)] }
    }

    #[test]
    fn loads_are_doubled_until_one_misses_and_the_bracket_is_halved() {
        use PointOutcome::{Met, Missed, Overloaded};
        use Stage::{Climb, Narrow};
        let mut points = vec![point(1.0, Climb, Met, 0.0)];
        let mut check = |next: PointOutcome, used: f64, expected: BracketStep| {
            assert_eq!(LIMITS.bracket(&points), expected);
            if let BracketStep::Measure(load, stage) = expected {
                points.push(point(load, stage, next, used));
            }
        };
        check(Met, 0.1, BracketStep::Measure(2.0, Climb));
        check(Overloaded, 50.0, BracketStep::Measure(4.0, Climb));
        check(Met, 0.2, BracketStep::Measure(2.83, Narrow));
        check(Missed, 40.0, BracketStep::Measure(3.36, Narrow));
        check(Missed, 1.5, BracketStep::Measure(3.08, Narrow));
        // One violation by a little may be an outlier.
        check(Missed, 3.0, BracketStep::Measure(3.08, Narrow));
        check(Met, 0.0, BracketStep::Found(Bracket { low: 2.83, high: 3.08 }));
    }

    #[test]
    fn near_the_limit_every_point_is_long_and_one_step_is_the_bracket() {
        use PointOutcome::{Met, Missed};
        use Stage::Narrow;
        let near = SearchLimits { start: 30.0, climb: Climb::Near, ..LIMITS };
        let mut points = Vec::new();
        for (load, fit) in [(30.0, Met), (42.426, Missed)] {
            let BracketStep::Measure(next, stage) = near.bracket(&points) else { panic!() };
            assert!((next - load).abs() < 0.01, "{next} instead of {load}");
            assert_eq!(stage, Narrow);
            points.push(point(next, stage, fit, 60.0));
        }
        assert!(matches!(near.bracket(&points), BracketStep::Found(_)));
        let whole = SearchLimits { start: 1.0, is_whole: true, ..near };
        let one = [point(1.0, Narrow, Met, 0.0)];
        assert_eq!(whole.bracket(&one), BracketStep::Measure(2.0, Narrow));
    }

    #[test]
    fn a_violation_that_is_not_repeated_moves_the_bracket_up() {
        use PointOutcome::{Met, Missed};
        use Stage::{Climb, Narrow};
        let points = [
            point(2.83, Narrow, Met, 0.1),
            point(3.4, Climb, Missed, 60.0),
            point(3.1, Narrow, Missed, 1.2),
            point(3.1, Narrow, Met, 0.1),
        ];
        assert_eq!(LIMITS.bracket(&points), BracketStep::Measure(3.1, Narrow));
        let again: Vec<Point> =
            points.iter().cloned().chain([point(3.1, Narrow, Met, 0.3)]).collect();
        assert_eq!(LIMITS.bracket(&again), BracketStep::Found(Bracket { low: 3.1, high: 3.4 }));
    }

    /// Between 1 and 3 in flight lies 2: rounding the middle must not measure an end again.
    #[test]
    fn the_middle_of_whole_loads_is_neither_end() {
        use PointOutcome::{Met, Missed};
        use Stage::Narrow;
        let limits = SearchLimits { is_whole: true, ..LIMITS };
        for (low, high, middle) in [(1.0, 3.0, 2.0), (2.0, 4.0, 3.0), (5.0, 7.0, 6.0)] {
            let points = [point(low, Narrow, Met, 0.1), point(high, Narrow, Missed, 90.0)];
            assert_eq!(limits.bracket(&points), BracketStep::Measure(middle, Narrow));
        }
        let points = [point(1.0, Narrow, Met, 0.1), point(2.0, Narrow, Missed, 90.0)];
        let found = BracketStep::Found(Bracket { low: 1.0, high: 2.0 });
        assert_eq!(limits.bracket(&points), found);
    }

    /// Ten seconds at a load that is 10 % too high met every objective, because the queue had only
    /// begun to grow.
    #[test]
    fn a_short_look_is_no_lower_end() {
        use PointOutcome::{Met, Missed};
        use Stage::{Climb, Narrow};
        let mut points = vec![point(40.0, Climb, Met, 0.0), point(45.0, Narrow, Missed, 90.0)];
        assert_eq!(LIMITS.bracket(&points), BracketStep::Measure(40.0, Narrow));
        points.push(point(40.0, Narrow, Missed, 50.0));
        assert_eq!(LIMITS.bracket(&points), BracketStep::Measure(20.0, Climb));
    }
}
