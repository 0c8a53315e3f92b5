//! The result of a capacity search: the load held, the estimate, and caveats.

use serde::{Deserialize, Serialize};
use tokometer_base::digits::digits;

use super::measured_point::{MeasuredPoint, ObjectiveAtPoint};
use crate::search::{PointOutcome, SearchResult, Stage};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Requests per second (open loop).
    RequestRate,
    /// Requests in flight (closed loop).
    Concurrency,
    /// Sessions in progress, the pauses between their turns included (closed loop).
    Sessions,
}

impl LoadKind {
    /// Whether it counts what is in progress.
    pub fn is_closed(self) -> bool {
        self != Self::RequestRate
    }

    /// For messages.
    pub fn unit(self) -> &'static str {
        match self {
            Self::RequestRate => "req/s",
            Self::Concurrency => "in flight",
            Self::Sessions => "sessions",
        }
    }

    /// A load for people: what is in progress is whole.
    pub fn text(self, load: f64) -> String {
        match self {
            Self::RequestRate => digits(load),
            _ if load.fract() == 0.0 => format!("{load:.0}"),
            _ => digits(load),
        }
    }
}

impl SearchResult {
    /// `limit about 44 req/s (42 to 47)`. `None` without an estimate.
    pub fn words(&self, over: LoadKind) -> Option<String> {
        let Self::Found { load, low, high, .. } = self else { return None };
        Some(format!("limit about {}", with_interval(*load, *low, *high, over.unit())))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    Answered(SearchResult),
    Interrupted,
    /// The server became unreachable and did not recover.
    ServerGone,
    /// Two points in a row had no success.
    NoSuccess {
        /// Why the requests of the second failed.
        why: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Findings {
    pub over: LoadKind,
    /// The objectives as typed.
    pub slo: String,
    /// Decides the sentence and the exit code.
    pub ending: Ending,
    pub sentence: String,
    /// GPUs behind the endpoint. `None` when the user did not give the number.
    pub gpus: Option<u32>,
    /// In the order measured.
    pub points: Vec<MeasuredPoint>,
    /// The load that met all objectives when it was run after the estimate. `None` where none did.
    #[serde(default)]
    pub held: Option<f64>,
    /// What the estimate would take to be as precise as was asked for. `None` where it is, and for a search
    /// that no time bounds.
    #[serde(default)]
    pub finer: Option<FinerSearch>,
}

/// A search with the precision that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FinerSearch {
    /// Half the width of the interval, as a share of the estimate.
    pub resolution: f64,
    /// The whole search.
    pub seconds: f64,
}

/// Decimals that a margin supports: one digit of it, two where the first is a one.
fn decimals(margin: f64) -> usize {
    if margin <= 0.0 || !margin.is_finite() {
        return 2;
    }
    let order = margin.log10().floor();
    let is_small = margin / 10_f64.powf(order) < 2.0;
    let decimals = if is_small { 1.0 - order } else { -order };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between zero and four"
    )]
    let decimals = decimals.clamp(0.0, 4.0) as usize;
    decimals
}

/// A value with its 95 % interval, rounded to the digits that the interval supports: `44 req/s (42 to 47)`.
/// An end that the data do not bound is left out.
fn with_interval(value: f64, low: Option<f64>, high: Option<f64>, unit: &str) -> String {
    let apart = [low, high].into_iter().flatten().map(|end| (end - value).abs());
    let decimals = decimals(apart.fold(0.0, f64::max));
    let number = |value: f64| format!("{value:.decimals$}");
    let interval = match (low, high) {
        (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
        (Some(low), None) => format!("from {}, not bounded above", number(low)),
        (None, Some(high)) => format!("up to {}, not bounded below", number(high)),
        (None, None) => "not bounded".to_owned(),
    };
    format!("{} {unit} ({interval})", number(value))
}

/// Points within this share of the answer count as near it.
const AT_THE_EDGE: f64 = 0.25;

/// A reason not to rely on the answer. Counts are of points near the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caveat {
    /// The client, not the server, was at its limit.
    ClientAtLimit {
        points: usize,
        /// All points near the answer.
        of: usize,
        /// Codes of the first such point's notes.
        notes: Vec<String>,
    },
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

impl Findings {
    /// The run that held its load.
    pub fn held_point(&self) -> Option<&MeasuredPoint> {
        let held = self.held?;
        self.points.iter().rfind(|one| one.stage == Stage::Hold && is_same(one.sent(), held))
    }

    /// The point that the answer is about: the one that held its load, or the nearest that met the
    /// objectives.
    pub fn edge(&self) -> Option<&MeasuredPoint> {
        let Ending::Answered(answer) = &self.ending else { return None };
        let load = match answer {
            SearchResult::Found { load, .. } | SearchResult::LimitedByMost { load } => *load,
            SearchResult::NoneMeets { .. } | SearchResult::Unfinished { .. } => return None,
        };
        let away = |point: &&MeasuredPoint| (point.sent() - load).abs();
        let met = self.points.iter().filter(|point| point.point().is_met());
        self.held_point().or_else(|| met.min_by(|a, b| away(a).total_cmp(&away(b))))
    }

    /// Output tokens per second and GPU at a point; `None` without a number of GPUs.
    pub fn tokens_per_s_per_gpu(&self, point: &MeasuredPoint) -> Option<f64> {
        let gpus = self.gpus.filter(|gpus| *gpus > 0)?;
        Some(point.tokens_per_s? / f64::from(gpus))
    }

    /// The points by load, each with its throughput as a share of the highest.
    pub fn course(&self) -> Vec<(&MeasuredPoint, f64)> {
        let mut sorted: Vec<&MeasuredPoint> = self.points.iter().collect();
        sorted.sort_by(|a, b| a.sent().total_cmp(&b.sent()));
        let most = sorted.iter().filter_map(|point| point.throughput()).fold(0.0, f64::max);
        let share = |point: &MeasuredPoint| {
            point.throughput().filter(|_| most > 0.0).map_or(0.0, |rate| rate / most)
        };
        sorted.into_iter().map(|point| (point, share(point))).collect()
    }

    pub fn sentence(&self) -> String {
        let unit = self.over.unit();
        let answer = match &self.ending {
            Ending::Answered(answer) => answer,
            Ending::Interrupted => return self.known("interrupted before the search finished"),
            Ending::ServerGone => {
                let last = self.points.last().map_or(0.0, MeasuredPoint::sent);
                let why =
                    format!("the server became unreachable at {} {unit}", self.over.text(last));
                return self.known(&format!("{why} and did not recover"));
            }
            Ending::NoSuccess { why } => {
                return self.known(&format!("no request of the last two points succeeded: {why}"));
            }
        };
        match answer {
            SearchResult::Found { .. } => match self.held_point() {
                Some(point) => format!("{}{}", self.held_words(point), self.too_little()),
                None => format!(
                    "{}; no load was held{}",
                    self.estimate().unwrap_or_default(),
                    self.too_little()
                ),
            },
            SearchResult::LimitedByMost { load } => format!(
                "at least {} {unit}: every load up to it meets the objectives, so the limit is `--max`, not the server{}",
                self.over.text(*load),
                self.too_little()
            ),
            SearchResult::NoneMeets { load } => {
                let at = self.points.iter().rfind(|point| is_same(point.load, *load));
                let why = at
                    .and_then(MeasuredPoint::worst)
                    .map_or(String::new(), |worst| format!(" ({})", worst.words()));
                let at = self.over.text(at.map_or(*load, MeasuredPoint::sent));
                match self.over {
                    // One in progress is the lowest load: none was left out.
                    LoadKind::Concurrency | LoadKind::Sessions => {
                        format!("no load meets the objectives: even {at} {unit} violates them{why}")
                    }
                    LoadKind::RequestRate => format!(
                        "no measured load meets the objectives: even {at} {unit} violates them{why}; to try lower loads, raise `--budget` or `--max-duration`, or set a lower `--start`"
                    ),
                }
            }
            SearchResult::Unfinished { .. } => {
                self.known("the points or the time ended before an estimate was possible")
            }
        }
    }

    /// The least throughput that the capacity does not reach.
    pub fn unreached(&self) -> Option<&ObjectiveAtPoint> {
        self.edge()?.objectives.iter().find(|one| one.is_met == Some(false))
    }

    fn too_little(&self) -> String {
        self.unreached()
            .map_or(String::new(), |one| format!("; no load reaches `{}`", one.objective))
    }

    /// `43.2 req/s held (p99 ttft 448 ms < 500ms), 5530 tok/s`.
    fn held_words(&self, point: &MeasuredPoint) -> String {
        let met: Vec<String> = point.objectives.iter().map(ObjectiveAtPoint::words).collect();
        let tokens = point.tokens_per_s.map(|tokens| format!(", {} tok/s", digits(tokens)));
        let load = format!("{} {}", self.over.text(point.sent()), self.over.unit());
        format!("{load} held ({}){}", met.join(", "), tokens.unwrap_or_default())
    }

    /// `limit about 44 req/s (42 to 47)`. `None` without an estimate.
    pub fn estimate(&self) -> Option<String> {
        let Ending::Answered(answer) = &self.ending else { return None };
        answer.words(self.over)
    }

    /// What stands behind the sentence of an estimate: the lowest load that missed, the estimate where the
    /// sentence is about a load held, and what more precision takes. `None` without an estimate.
    pub fn behind(&self) -> Option<String> {
        let estimate = self.estimate()?;
        let missed = self.points.iter().filter(|point| point.point().is_missed());
        let missed = missed.min_by(|a, b| a.sent().total_cmp(&b.sent()));
        let missed = missed.map(|point| {
            let at = self.over.text(point.sent());
            match (point.fit, point.worst()) {
                (PointOutcome::Overloaded, _) => format!("overloaded at {at}"),
                (PointOutcome::Failed, _) => format!("failed at {at}"),
                (_, Some(worst)) => format!("missed at {at} ({})", worst.name_and_value()),
                (_, None) => format!("missed at {at}"),
            }
        });
        let estimate = self.held.is_some().then_some(estimate);
        let finer = self.finer.map(|finer| {
            let (percent, time) = (100.0 * finer.resolution, budget_words(finer.seconds));
            format!("±{percent:.0} % needs `--budget {time}`")
        });
        let parts: Vec<String> = [missed, estimate, finer].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" · "))
    }

    /// The range that is known from the points alone.
    fn known(&self, why: &str) -> String {
        let unit = self.over.unit();
        let highest = |is_in: fn(&MeasuredPoint) -> bool| {
            let of = self.points.iter().filter(|point| is_in(point));
            of.map(MeasuredPoint::sent).max_by(f64::total_cmp)
        };
        let met = highest(|point| point.point().is_met());
        let briefly_met = highest(|point| point.is_short && point.fit == PointOutcome::Met);
        let missed = self.points.iter().filter(|point| point.point().is_missed());
        let missed = missed.map(MeasuredPoint::sent).min_by(f64::total_cmp);
        let known = match (met, missed) {
            (Some(met), Some(missed)) if met < missed => {
                format!("between {} and {} {unit}", self.over.text(met), self.over.text(missed))
            }
            (Some(met), Some(missed)) if self.over.text(met) == self.over.text(missed) => {
                format!("near {} {unit}: it was met once and missed once", self.over.text(met))
            }
            (Some(met), Some(missed)) => {
                format!("near {} to {} {unit}", self.over.text(missed), self.over.text(met))
            }
            (Some(met), None) => format!("at least {} {unit}", self.over.text(met)),
            (None, Some(missed)) => format!("below {} {unit}", self.over.text(missed)),
            (None, None) => "unknown".to_owned(),
        };
        let brief = briefly_met.filter(|load| met.is_none_or(|met| met < *load)).map(|load| {
            format!("; {} {unit} was met, but too briefly to tell", self.over.text(load))
        });
        format!("{known}{} ({why})", brief.unwrap_or_default())
    }

    pub fn caveats(&self) -> Vec<Caveat> {
        let near = |point: &&MeasuredPoint| match &self.ending {
            Ending::Answered(SearchResult::Found { load, .. }) => {
                (point.sent() / load - 1.0).abs() < AT_THE_EDGE
            }
            _ => true,
        };
        let close: Vec<&MeasuredPoint> = self.points.iter().filter(near).collect();
        let spoilt: Vec<_> = close.iter().filter(|point| !point.client_notes.is_empty()).collect();
        let at_limit = spoilt.first().map(|first| Caveat::ClientAtLimit {
            points: spoilt.len(),
            of: close.len(),
            notes: first.client_notes.clone(),
        });
        at_limit.into_iter().collect()
    }
}

/// A time as `--budget` takes it, rounded up to whole minutes, or hours where it is long.
pub fn budget_words(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil();
    if minutes < 120.0 {
        format!("{minutes:.0}m")
    } else {
        format!("{:.0}h", (minutes / 60.0).ceil())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search with four points: 8 and 12 req/s met the objectives, 12.8 missed one, 16 was too much.
    fn recorded() -> Findings {
        let text = include_str!("../../../../fixtures/run/capacity.json");
        serde_json::from_str(text).unwrap()
    }

    fn findings(ending: Ending) -> Findings {
        let mut findings = recorded();
        findings.ending = ending;
        findings.sentence = findings.sentence();
        findings
    }

    /// `report` shows a search from its folder; it showed the points as a plain table before.
    #[test]
    fn a_least_throughput_that_the_capacity_does_not_reach_is_named() {
        let mut found = recorded();
        assert_eq!(found.unreached(), None);
        let met = found.points.iter_mut().filter(|point| point.fit == PointOutcome::Met);
        for point in met {
            let mut floor = point.objectives[0].clone();
            (floor.objective, floor.is_met) = ("requests > 50".to_owned(), Some(false));
            point.objectives.push(floor);
        }
        let said = found.sentence();
        assert!(said.ends_with("; no load reaches `requests > 50`"), "{said}");
    }

    #[test]
    fn findings_are_read_back_as_they_were_written() {
        for ending in [found(), Ending::Interrupted, Ending::NoSuccess { why: "x".into() }] {
            let written = serde_json::to_string(&findings(ending.clone())).unwrap();
            let read: Findings = serde_json::from_str(&written).unwrap();
            assert_eq!(read.ending, ending);
            assert_eq!(serde_json::to_string(&read).unwrap(), written);
        }
    }

    fn found() -> Ending {
        recorded().ending
    }

    #[test]
    fn the_answer_is_one_sentence_with_its_uncertainty() {
        let plain = findings(found());
        assert_eq!(plain.sentence, "limit about 12.4 req/s (12.2 to 12.7); no load was held");
        assert_eq!(plain.behind().unwrap(), "missed at 12.80 (p99 ttft 2.03 s)");
        assert!(plain.edge().is_some_and(|edge| is_same(edge.load, 12.0)));
    }

    /// The estimate was shown as the answer, and the server missed the objectives at it.
    #[test]
    fn the_load_held_comes_first_and_the_estimate_follows() {
        let mut found = findings(found());
        let run = found.points.iter_mut().find(|point| is_same(point.load, 12.0)).unwrap();
        (run.stage, run.sent) = (Stage::Hold, Some(11.9));
        found.held = Some(11.9);
        found.finer = Some(FinerSearch { resolution: 0.05, seconds: 1_550.0 });
        assert_eq!(
            found.sentence(),
            "11.90 req/s held (p99 ttft 1.90 s < 2s, p99 tpot 32.00 ms < 50ms), 1536 tok/s"
        );
        assert_eq!(
            found.behind().unwrap(),
            "missed at 12.80 (p99 ttft 2.03 s) · limit about 12.4 req/s (12.2 to 12.7) · ±5 % needs `--budget 26m`"
        );
        assert_eq!(found.edge(), found.held_point());
    }

    #[test]
    fn a_client_at_its_limit_is_a_doubt() {
        let mut doubtful = findings(found());
        assert_eq!(doubtful.caveats(), []);
        doubtful.points[3].client_notes = vec!["late-sends".into()];
        // Far from the answer: it does not count.
        doubtful.points[0].client_notes = vec!["late-sends".into()];
        assert_eq!(
            doubtful.caveats(),
            [Caveat::ClientAtLimit { points: 1, of: 2, notes: vec!["late-sends".into()] }]
        );
    }

    #[test]
    fn other_endings_say_what_is_known() {
        let check = |ending, expected: &str| assert_eq!(findings(ending).sentence, expected);
        let answered = Ending::Answered;
        check(
            Ending::Interrupted,
            "between 12.00 and 12.80 req/s (interrupted before the search finished)",
        );
        check(
            Ending::ServerGone,
            "between 12.00 and 12.80 req/s (the server became unreachable at 12.80 req/s and did not recover)",
        );
        check(
            answered(SearchResult::NoneMeets { load: 8.0 }),
            "no measured load meets the objectives: even 8.00 req/s violates them (p99 ttft 1.27 s < 2s); to try lower loads, raise `--budget` or `--max-duration`, or set a lower `--start`",
        );
        let mut closed = findings(answered(SearchResult::NoneMeets { load: 8.0 }));
        closed.over = LoadKind::Concurrency;
        assert_eq!(
            closed.sentence(),
            "no load meets the objectives: even 8 in flight violates them (p99 ttft 1.27 s < 2s)"
        );
        check(
            answered(SearchResult::LimitedByMost { load: 64.0 }),
            "at least 64.00 req/s: every load up to it meets the objectives, so the limit is `--max`, not the server",
        );
        let mut once = findings(Ending::Interrupted);
        once.points = [PointOutcome::Met, PointOutcome::Missed]
            .map(|fit| MeasuredPoint { fit, ..once.points[1].clone() })
            .to_vec();
        assert_eq!(
            once.sentence(),
            "near 16.00 req/s: it was met once and missed once (interrupted before the search finished)"
        );
        let mut brief = findings(Ending::Interrupted);
        brief.points[2].is_short = true;
        assert_eq!(
            brief.sentence(),
            "between 8.00 and 12.80 req/s; 12.00 req/s was met, but too briefly to tell (interrupted before the search finished)"
        );
        brief.points[0].is_short = true;
        assert_eq!(
            brief.sentence(),
            "below 12.80 req/s; 12.00 req/s was met, but too briefly to tell (interrupted before the search finished)"
        );
        let cliff = SearchResult::Found {
            load: 14.0,
            margin: Some(2.0),
            low: Some(12.0),
            high: Some(16.0),
            objective: None,
            highest_met: 12.0,
            lowest_missed: 16.0,
        };
        check(answered(cliff), "limit about 14 req/s (12 to 16); no load was held");
    }

    #[test]
    fn a_value_has_the_digits_that_its_interval_allows() {
        let check = |value, low, high, expected: &str| {
            assert_eq!(with_interval(value, low, high, "req/s"), expected);
        };
        check(12.41, Some(12.2), Some(12.7), "12.4 req/s (12.2 to 12.7)");
        check(12.41, Some(12.28), Some(12.5), "12.41 req/s (12.28 to 12.50)");
        check(1234.5, Some(1203.0), Some(1265.0), "1234 req/s (1203 to 1265)");
        check(0.5123, Some(0.5), Some(0.524), "0.512 req/s (0.500 to 0.524)");
        check(16.0, Some(16.0), Some(16.0), "16.00 req/s (16.00 to 16.00)");
        check(12.0, Some(11.0), None, "12.0 req/s (from 11.0, not bounded above)");
        check(12.0, None, Some(13.0), "12.0 req/s (up to 13.0, not bounded below)");
        check(12.0, None, None, "12.00 req/s (not bounded)");
    }

    #[test]
    fn points_stand_by_load_with_their_share_of_the_highest_throughput() {
        let found = findings(Ending::Interrupted);
        let course: Vec<(f64, f64)> =
            found.course().iter().map(|(point, share)| (point.load, *share)).collect();
        assert_eq!(course, [(8.0, 0.5), (12.0, 0.75), (12.8, 0.8), (16.0, 1.0)]);
        assert_eq!(found.tokens_per_s_per_gpu(&found.points[0]), Some(512.0));
        let unknown = Findings { gpus: None, ..findings(Ending::Interrupted) };
        assert_eq!(unknown.tokens_per_s_per_gpu(&found.points[0]), None);
    }
}
