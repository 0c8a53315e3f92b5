//! A run by its stages and classes: each part has figures, intervals and a verdict of its own.
//!
//! A request belongs to the stage in which it was intended to start, and is followed to its end. Rates and the
//! number in flight are those of the time of the stage, whoever's requests they were.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::{RecordedLoad, RecordedStage, RunInfo};

use crate::distribution::Distribution;
use crate::goodput::{Goodput, Objectives};
use crate::interval::ConfidenceInterval;
use crate::judgement::{FigureVerdict, Note, Verdict};
use crate::quantity::Quantity;
use crate::rows::{Fate, RequestRow, TimeSpan};
use crate::steady::LoadClass;
use crate::summary::{Counts, Summary, Unjudged};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    Stage,
    Class,
}

/// A stage or a class of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub kind: PartKind,
    pub name: String,
    /// After the start of the measured phase.
    pub begin_s: f64,
    pub end_s: f64,
    /// Of a class.
    pub weight: Option<f64>,
    /// Output tokens of a class's answers; `None` for a stage.
    pub output_tokens: Option<u64>,
    /// Its figures, notes and verdict, as of a run of its own.
    pub summary: PartSummary,
}

/// What a [`Summary`] says of a run, as far as it is known of a part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PartSummary {
    pub counts: Counts,
    pub figures: BTreeMap<String, Option<f64>>,
    pub distributions: BTreeMap<String, Distribution>,
    pub goodput: Option<Goodput>,
    pub load_class: LoadClass,
    pub notes: Vec<Note>,
    pub verdict: Verdict,
    pub figure_verdicts: BTreeMap<String, FigureVerdict>,
}

impl PartSummary {
    pub fn figure(&self, key: &str) -> Option<f64> {
        self.figures.get(key).copied().flatten()
    }

    pub fn distribution(&self, quantity: Quantity) -> Option<&Distribution> {
        self.distributions.get(quantity.key())
    }
}

impl From<Summary> for PartSummary {
    fn from(of: Summary) -> Self {
        let Summary { counts, figures, distributions, goodput, load_class, .. } = of;
        let (notes, verdict, figure_verdicts) = (of.notes, of.verdict, of.figure_verdicts);
        Self {
            counts,
            figures,
            distributions,
            goodput,
            load_class,
            notes,
            verdict,
            figure_verdicts,
        }
    }
}

/// A part before its notes and verdict.
#[derive(Debug, Clone)]
pub struct UnjudgedPart {
    pub kind: PartKind,
    pub name: String,
    pub begin_s: f64,
    pub end_s: f64,
    pub weight: Option<f64>,
    pub output_tokens: Option<u64>,
    pub run: Unjudged,
}

impl UnjudgedPart {
    /// `judge` finds notes and verdict.
    pub fn judged(self, judge: fn(Unjudged) -> Summary) -> Part {
        let Self { kind, name, begin_s, end_s, weight, output_tokens, run } = self;
        Part { kind, name, begin_s, end_s, weight, output_tokens, summary: judge(run).into() }
    }

    /// The upper end of the interval of its p90 TTFT.
    fn p90_high(&self) -> Option<f64> {
        match self.run.summary.distribution(Quantity::Ttft)?.percentile(90.0)?.interval {
            ConfidenceInterval::Known { high, .. } => Some(high),
            ConfidenceInterval::Unknown(_) => None,
        }
    }
}

/// How a run came back from a stage with more load than the one before and the one after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// The stage.
    pub spike: String,
    /// Upper end of the interval of p90 TTFT in the stage before. `None`: it has no interval.
    pub limit_ms: Option<f64>,
    /// From the end of the spike until p90 TTFT was inside it again. `None`: never, within the run.
    pub after_s: Option<f64>,
    /// From the end of the spike to the last request.
    pub within_s: f64,
}

/// What a part is made of, before its figures are known.
pub(crate) struct PartPlan {
    pub(crate) kind: PartKind,
    pub(crate) name: String,
    pub(crate) span: TimeSpan,
    pub(crate) weight: Option<f64>,
    pub(crate) load: RecordedLoad,
    pub(crate) objectives: Option<Objectives>,
    /// Of a class.
    pub(crate) class: Option<u8>,
}

impl PartPlan {
    pub(crate) fn has(&self, row: &RequestRow) -> bool {
        self.class.map_or_else(|| self.span.contains(row.due), |class| row.class == Some(class))
    }
}

/// The stages and classes of a run. One stage alone is the run.
pub(crate) fn plans(info: &RunInfo, span: TimeSpan) -> Vec<PartPlan> {
    let stages = info.load.stages.iter().filter(|_| info.load.stages.len() > 1);
    let stages = stages.map(|stage| PartPlan {
        kind: PartKind::Stage,
        name: stage.text.clone(),
        span: TimeSpan {
            begin: span.begin + stage.begin,
            end: stage.end.map_or(span.end, |end| span.begin + end),
        },
        weight: None,
        load: load_of(&info.load, stage),
        objectives: None,
        class: None,
    });
    let classes = (0..).zip(&info.classes).map(|(at, class)| PartPlan {
        kind: PartKind::Class,
        name: class.name.clone(),
        span,
        weight: Some(class.weight),
        // The limit in flight is that of all classes.
        load: RecordedLoad {
            request_rate: None,
            max_concurrency: None,
            is_traced: LoadClass::of(&info.load) != LoadClass::Burst,
            planned_requests: None,
            ..info.load.clone()
        },
        objectives: Some(Objectives::of(&class.objectives)).filter(|all| !all.is_empty()),
        class: Some(at),
    });
    stages.chain(classes).collect()
}

/// The load of a stage as if it were a run.
fn load_of(run: &RecordedLoad, stage: &RecordedStage) -> RecordedLoad {
    let is_flat = |(from, to): &(f64, f64)| from.total_cmp(to).is_eq();
    let flat = stage.rates.filter(is_flat).map(|(rate, _)| rate);
    let is_ramp = flat.is_none() && stage.sessions.is_none();
    RecordedLoad {
        request_rate: flat,
        max_concurrency: stage.sessions.or(run.max_concurrency),
        planned_requests: None,
        duration: stage.end.map(|end| end - stage.begin),
        stages: if is_ramp { vec![stage.clone()] } else { Vec::new() },
        ..run.clone()
    }
}

/// The most that a stage asks for: requests per second, or sessions.
fn peak(stage: &RecordedStage) -> (bool, f64) {
    let of_rates = stage.rates.map(|(from, to)| (false, from.max(to)));
    of_rates.unwrap_or((true, f64::from(stage.sessions.unwrap_or(0))))
}

/// Requests of which one p90 is made.
const WINDOW: usize = 20;

/// The recoveries of a run whose first parts are its stages.
pub(crate) fn recoveries_of(
    info: &RunInfo,
    parts: &[UnjudgedPart],
    rows: &[RequestRow],
    begin: Option<Nanos>,
) -> Vec<Recovery> {
    let Some(begin) = begin else { return Vec::new() };
    let limits: Vec<Option<f64>> = parts.iter().map(UnjudgedPart::p90_high).collect();
    recoveries(&info.load.stages, &limits, rows, begin)
}

/// From each stage whose load is above that of the stages around it; `limits` are those of the stages before.
fn recoveries(
    stages: &[RecordedStage],
    limits: &[Option<f64>],
    rows: &[RequestRow],
    begin: Nanos,
) -> Vec<Recovery> {
    let mut starts: Vec<FirstToken> = rows.iter().map(FirstToken::of).collect();
    starts.sort_unstable_by(|a, b| a.due.cmp(&b.due).then(a.ttft_ms.total_cmp(&b.ttft_ms)));
    let mut found = Vec::new();
    for (at, around) in stages.windows(3).enumerate() {
        let [before, spike, after] = around else { continue };
        let [low, high, next] = [before, spike, after].map(peak);
        let is_spike = low.0 == high.0 && high.0 == next.0 && high.1 > low.1 && high.1 > next.1;
        let Some(end) = spike.end.filter(|_| is_spike) else { continue };
        let end = begin + end;
        let limit_ms = limits.get(at).copied().flatten();
        let later = &starts[starts.partition_point(|one| one.due < end)..];
        let back =
            limit_ms.and_then(|limit| later.windows(WINDOW).find(|window| p90(window) <= limit));
        let since = |one: &FirstToken| one.due.signed_since(end) as f64 / 1e9;
        found.push(Recovery {
            spike: spike.text.clone(),
            limit_ms,
            after_s: back.and_then(|window| window.first()).map(since),
            within_s: later.last().map_or(0.0, since),
        });
    }
    found
}

/// When a request was due, and how long its first token took; a failed one never had it.
struct FirstToken {
    due: Nanos,
    ttft_ms: f64,
}

impl FirstToken {
    fn of(row: &RequestRow) -> Self {
        let ttft = row.ttft().filter(|_| row.fate == Fate::Succeeded);
        Self { due: row.due, ttft_ms: ttft.map_or(f64::INFINITY, |ttft| ttft / 1e6) }
    }
}

fn p90(window: &[FirstToken]) -> f64 {
    let mut values: Vec<f64> = window.iter().map(|one| one.ttft_ms).collect();
    tokometer_base::sort_numbers(&mut values);
    values[values.len() * 9 / 10 - 1]
}

/// Jain's index of served tokens per weight: 1 where all classes got what they are entitled to, 1 ÷ their number
/// where one got all. `None` for fewer than two classes, and without a token.
pub(crate) fn fairness(parts: &[UnjudgedPart]) -> Option<f64> {
    let share = |part: &UnjudgedPart| Some(part.output_tokens? as f64 / part.weight?);
    jain(&parts.iter().filter_map(share).collect::<Vec<f64>>())
}

fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (shares.len() > 1 && sum > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

impl Objectives {
    /// Those of a plan, in milliseconds by metric.
    pub fn of(named: &BTreeMap<String, f64>) -> Self {
        let limit = |name: &str| named.get(name).copied();
        Self { ttft_ms: limit("ttft"), tpot_ms: limit("tpot"), e2el_ms: limit("e2el") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn stage(text: &str, seconds: [u64; 2], rate: f64) -> RecordedStage {
        RecordedStage {
            text: text.to_owned(),
            begin: Nanos::from_secs(seconds[0]),
            end: Some(Nanos::from_secs(seconds[1])),
            rates: Some((rate, rate)),
            sessions: None,
        }
    }

    #[test]
    fn fairness_is_one_where_tokens_are_as_weights_and_less_where_one_class_has_more() {
        assert_eq!(jain(&[500.0, 1_500.0 / 3.0]), Some(1.0));
        let ten_to_one = jain(&[1_000.0, 100.0]).unwrap();
        assert!((ten_to_one - 121.0 / 202.0).abs() < 1e-12, "{ten_to_one}");
        assert_eq!(jain(&[500.0]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    /// One request every 100 ms, as slow as `ttft` says of its time in seconds.
    fn recovery(ttft_ms: impl Fn(f64) -> f64, high: f64) -> Recovery {
        let stages =
            [stage("a", [0, 10], 10.0), stage("b", [10, 20], 40.0), stage("c", [20, 60], 10.0)];
        let rows: Vec<RequestRow> = (0..600)
            .map(|index| {
                let at = Nanos::from_millis(index * 100);
                let mut row = testing::row(index, at, at + Nanos::from_secs(1));
                row.ttft = Some(ttft_ms(at.as_secs_f64()) * 1e6).into();
                row
            })
            .collect();
        let mut found = recoveries(&stages, &[Some(high)], &rows, Nanos::ZERO);
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    #[test]
    fn a_run_recovers_when_p90_is_inside_the_interval_of_before() {
        let slow_until =
            |end: f64| move |at: f64| if (10.0..end).contains(&at) { 900.0 } else { 45.0 };
        let found = recovery(slow_until(27.0), 60.0);
        // The first window with at most two slow requests begins 200 ms before the last of them ends.
        assert!((found.after_s.unwrap() - 6.8).abs() < 1e-9, "{found:?}");
        assert_eq!(recovery(slow_until(15.0), 60.0).after_s, Some(0.0), "before the spike ended");
        let never = recovery(slow_until(99.0), 60.0);
        assert_eq!((never.after_s, never.limit_ms), (None, Some(60.0)));
        assert!((never.within_s - 39.9).abs() < 1e-9, "{never:?}");
    }
}
