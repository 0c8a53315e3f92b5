//! What a search found, in words.
//!
//! Pure: from the measured points and how the search ended to the text and the JSON that are shown.

use serde::Serialize;
use tokometer_metrics::search::{Answer, Fit};

use super::reading::Reading;

/// What the load of a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Over {
    /// Requests per second, sent whatever the server does
    #[default]
    RequestRate,
    /// Requests in flight, the next sent as one ends
    Concurrency,
}

impl Over {
    /// The unit of a load.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::RequestRate => "req/s",
            Self::Concurrency => "in flight",
        }
    }
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    /// With an answer.
    Answered(Answer),
    /// By a signal.
    Interrupted,
    /// The server was gone after a point and did not come back.
    ServerGone,
}

/// Everything a search found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Findings {
    /// What was varied.
    pub(crate) over: Over,
    /// The objectives as typed.
    pub(crate) slo: String,
    /// How it ended.
    pub(crate) ending: Ending,
    /// The answer in one sentence.
    pub(crate) sentence: String,
    /// GPUs behind the endpoint, where they were told.
    pub(crate) gpus: Option<u32>,
    /// The points in the order measured.
    pub(crate) points: Vec<Reading>,
    /// Requests that a point needs for its percentiles.
    #[serde(skip)]
    pub(crate) requests_needed: u64,
}

fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A value with as many digits as its margin allows.
fn with_margin(value: f64, margin: f64) -> String {
    let places = if margin > 0.0 { (1.0 - margin.log10().floor()).clamp(0.0, 4.0) } else { 2.0 };
    // One digit of the margin is enough, two where the first is a one.
    let is_small = margin / 10_f64.powf(margin.max(1e-9).log10().floor()) < 2.0;
    let places = if is_small { places } else { (places - 1.0).max(0.0) };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between zero and four"
    )]
    let places = places as usize;
    format!("{value:.places$} ± {margin:.places$}")
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), digits)
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

impl Findings {
    /// The point that stands for the answer: of those that met the objectives, the nearest to it.
    fn edge(&self) -> Option<&Reading> {
        let Ending::Answered(answer) = &self.ending else { return None };
        let load = match answer {
            Answer::Found { load, .. } | Answer::LimitedByMost { load } => *load,
            Answer::NoneMeets { .. } | Answer::Unfinished { .. } => return None,
        };
        let met = self.points.iter().filter(|point| point.fit == Fit::Met);
        met.min_by(|a, b| (a.load - load).abs().total_cmp(&(b.load - load).abs()))
    }

    /// The answer in one sentence, with its uncertainty.
    pub(crate) fn sentence(&self) -> String {
        let unit = self.over.unit();
        let answer = match &self.ending {
            Ending::Answered(answer) => answer,
            Ending::Interrupted => return self.known("interrupted before the edge was found"),
            Ending::ServerGone => {
                let last = self.points.last().map_or(0.0, |point| point.load);
                let why = format!("the server went away at {} {unit}", digits(last));
                return self.known(&format!("{why} and did not come back"));
            }
        };
        match answer {
            Answer::Found { load, margin, objective, lowest_missed, .. } => {
                let near = objective
                    .and_then(|at| self.edge()?.objectives.get(at))
                    .map_or(String::new(), |one| format!(" ({})", one.words()));
                let load = with_margin(*load, *margin);
                format!("{load} {unit}{near}{}", self.beyond(*lowest_missed))
            }
            Answer::LimitedByMost { load } => format!(
                "at least {} {unit}: every load up to it meets the objectives, so `--max` was the limit, not the server",
                digits(*load)
            ),
            Answer::NoneMeets { load } => {
                let at = self.points.iter().rfind(|point| is_same(point.load, *load));
                let why = at
                    .and_then(Reading::worst)
                    .map_or(String::new(), |worst| format!(" ({})", worst.words()));
                format!(
                    "no load meets the objectives: even {} {unit} misses them{why}",
                    digits(*load)
                )
            }
            Answer::Unfinished { .. } => self.known("the points ran out before the edge was found"),
        }
    }

    /// What happens just above the edge, where it is more than a missed objective.
    fn beyond(&self, lowest_missed: f64) -> String {
        let (unit, load) = (self.over.unit(), digits(lowest_missed));
        let missed =
            self.points.iter().find(|p| is_same(p.load, lowest_missed) && p.fit != Fit::Met);
        match missed.map(|point| point.fit) {
            Some(Fit::Overloaded) => format!("; at {load} {unit} the server falls behind"),
            Some(Fit::Failed) => format!("; at {load} {unit} the server fails"),
            _ => String::new(),
        }
    }

    /// What the points alone say.
    fn known(&self, why: &str) -> String {
        let unit = self.over.unit();
        let loads = |is_met: bool| {
            let of = self.points.iter().filter(move |point| (point.fit == Fit::Met) == is_met);
            of.map(|point| point.load)
        };
        let met = loads(true).max_by(f64::total_cmp);
        let missed = loads(false).min_by(f64::total_cmp);
        let known = match (met, missed) {
            (Some(met), Some(missed)) if met < missed => {
                format!("between {} and {} {unit}", digits(met), digits(missed))
            }
            (Some(met), Some(missed)) => {
                format!("near {} to {} {unit}", digits(missed), digits(met))
            }
            (Some(met), None) => format!("at least {} {unit}", digits(met)),
            (None, Some(missed)) => format!("below {} {unit}", digits(missed)),
            (None, None) => "unknown".to_owned(),
        };
        format!("{known} ({why})")
    }

    /// The points as a table, then the sentence and what the edge delivers.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!("objectives: {}", self.slo), String::new()];
        lines.extend(self.table());
        lines.push(String::new());
        lines.push(format!("capacity: {}", self.sentence));
        lines.extend(self.edge().map(|edge| self.delivered(edge)));
        lines.extend(self.doubts());
        lines.join("\n") + "\n"
    }

    fn table(&self) -> Vec<String> {
        let mut sorted: Vec<&Reading> = self.points.iter().collect();
        sorted.sort_by(|a, b| a.load.total_cmp(&b.load));
        let most = sorted.iter().filter_map(|point| point.tokens_per_s).fold(0.0, f64::max);
        let names: Vec<&str> = self.slo.split(',').map(str::trim).collect();
        let heads = names.iter().map(|name| format!("  {name:>width$}", width = width(name)));
        let objectives = heads.collect::<Vec<String>>().concat();
        let head = format!(
            "{:>10}  {:<10} {:>8} {:>9} {:>9} {:>9}{objectives}",
            self.over.unit(),
            "outcome",
            "requests",
            "req/s",
            "tok/s",
            "per user",
        );
        let rows = sorted.iter().map(|point| row(point, &names, most));
        std::iter::once(head).chain(rows).collect()
    }

    fn delivered(&self, edge: &Reading) -> String {
        let per_gpu = self.gpus.filter(|gpus| *gpus > 0).and_then(|gpus| {
            Some(format!(", {} tok/s per GPU", digits(edge.tokens_per_s? / f64::from(gpus))))
        });
        format!(
            "at {} {}: {} tok/s, {} tok/s per user{}",
            digits(edge.load),
            self.over.unit(),
            optional(edge.tokens_per_s),
            optional(edge.tokens_per_s_per_user),
            per_gpu.unwrap_or_default()
        )
    }

    /// What keeps the answer from being believed as it stands.
    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let near = |point: &&Reading| match &self.ending {
            Ending::Answered(Answer::Found { load, .. }) => (point.load / load - 1.0).abs() < 0.25,
            _ => true,
        };
        let close: Vec<&Reading> = self.points.iter().filter(near).collect();
        let is_unsupported =
            |point: &&&Reading| point.objectives.iter().any(|one| !one.is_supported);
        let unsupported: Vec<_> = close.iter().filter(is_unsupported).collect();
        if let Some(fewest) = unsupported.iter().map(|point| point.requests).min() {
            doubts.push(format!(
                "doubt: {} of {} points at the edge were too short for their percentiles (down to {fewest} requests, {} needed)\n  use a longer `--max-duration`",
                unsupported.len(),
                close.len(),
                self.requests_needed
            ));
        }
        let spoilt: Vec<_> = close.iter().filter(|point| !point.client_notes.is_empty()).collect();
        if let Some(first) = spoilt.first() {
            doubts.push(format!(
                "doubt: at {} of {} points at the edge the client, not the server, was at its limit ({})\n  use a faster client machine, or several",
                spoilt.len(),
                close.len(),
                first.client_notes.join(", ")
            ));
        }
        doubts
    }
}

fn width(name: &str) -> usize {
    name.chars().count().max(9)
}

fn row(point: &Reading, names: &[&str], most: f64) -> String {
    let fit = match point.fit {
        Fit::Met => "met",
        Fit::Missed => "missed",
        Fit::Overloaded => "overloaded",
        Fit::Failed => "failed",
    };
    let share =
        point.tokens_per_s.map_or(0.0, |tokens| if most > 0.0 { tokens / most } else { 0.0 });
    let value = |at: usize| match point.objectives.get(at) {
        None => "–".to_owned(),
        Some(one) => {
            let doubt = if one.is_supported { "" } else { "?" };
            format!("{}{doubt}", one.shown.as_deref().unwrap_or("–"))
        }
    };
    let cell = |(at, name): (usize, &&str)| format!("  {:>width$}", value(at), width = width(name));
    let objectives = names.iter().enumerate().map(cell).collect::<Vec<String>>().concat();
    format!(
        "{:>10}  {fit:<10} {:>8} {:>9} {:>9} {:>9}{objectives}  {}",
        digits(point.load),
        point.requests,
        optional(point.requests_per_s),
        optional(point.tokens_per_s),
        optional(point.tokens_per_s_per_user),
        bar(share)
    )
    .trim_end()
    .to_owned()
}

/// A bar of at most twenty cells: the curve of throughput, turned on its side.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 times twenty"
)]
fn bar(share: f64) -> String {
    "▮".repeat((share.clamp(0.0, 1.0) * 20.0).round() as usize)
}

#[cfg(test)]
mod tests {
    use tokometer_metrics::search::Use;

    use super::super::reading::Judged;
    use super::*;

    fn reading(load: f64, fit: Fit) -> Reading {
        let judged = |objective: &str, value: f64, limit: f64, unit: &str| Judged {
            objective: objective.to_owned(),
            shown: Some(format!("{value:.2} {unit}")),
            value: Some(value),
            is_met: Some(value <= limit),
            allowance: Some(Use { used: value / limit, variance: 0.0 }),
            is_supported: true,
        };
        Reading {
            load,
            fit,
            objectives: vec![
                judged("p99 ttft < 2s", load / 6.3, 2.0, "s"),
                judged("p99 tpot < 50ms", 20.0 + load, 50.0, "ms"),
            ],
            requests_per_s: Some(load * 0.99),
            tokens_per_s: Some(load * 128.0),
            tokens_per_s_per_user: Some(61.4),
            requests: 400,
            client_notes: Vec::new(),
            folder: String::new(),
        }
    }

    fn findings(ending: Ending) -> Findings {
        let mut findings = Findings {
            over: Over::RequestRate,
            slo: "p99 ttft < 2s, p99 tpot < 50ms".into(),
            ending,
            sentence: String::new(),
            gpus: Some(2),
            points: vec![
                reading(8.0, Fit::Met),
                reading(16.0, Fit::Overloaded),
                reading(12.0, Fit::Met),
                reading(12.8, Fit::Missed),
            ],
            requests_needed: 368,
        };
        findings.sentence = findings.sentence();
        findings
    }

    fn found() -> Ending {
        Ending::Answered(Answer::Found {
            load: 12.41,
            margin: 0.27,
            objective: Some(0),
            highest_met: 12.0,
            lowest_missed: 12.8,
        })
    }

    #[test]
    fn the_answer_is_one_sentence_with_its_uncertainty() {
        insta::assert_snapshot!(findings(found()).text(), @r#"
        objectives: p99 ttft < 2s, p99 tpot < 50ms

             req/s  outcome    requests     req/s     tok/s  per user  p99 ttft < 2s  p99 tpot < 50ms
              8.00  met             400      7.92      1024     61.40         1.27 s         28.00 ms  ▮▮▮▮▮▮▮▮▮▮
             12.00  met             400     11.88      1536     61.40         1.90 s         32.00 ms  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮
             12.80  missed          400     12.67      1638     61.40         2.03 s         32.80 ms  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮
             16.00  overloaded      400     15.84      2048     61.40         2.54 s         36.00 ms  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮

        capacity: 12.4 ± 0.3 req/s (p99 ttft 1.90 s < 2s)
        at 12.00 req/s: 1536 tok/s, 61.40 tok/s per user, 768.0 tok/s per GPU
        "#);
    }

    #[test]
    fn short_points_and_a_client_at_its_limit_are_said() {
        let mut doubtful = findings(found());
        doubtful.points[2].objectives[0].is_supported = false;
        doubtful.points[2].requests = 90;
        doubtful.points[3].client_notes = vec!["late-sends".into()];
        let text = doubtful.text();
        let doubts: Vec<&str> =
            text.lines().skip_while(|line| !line.starts_with("doubt")).collect();
        insta::assert_snapshot!(doubts.join("\n"), @"
        doubt: 1 of 2 points at the edge were too short for their percentiles (down to 90 requests, 368 needed)
          use a longer `--max-duration`
        doubt: at 1 of 2 points at the edge the client, not the server, was at its limit (late-sends)
          use a faster client machine, or several
        ");
    }

    #[test]
    fn other_endings_say_what_is_known() {
        let check = |ending, expected: &str| assert_eq!(findings(ending).sentence, expected);
        let answered = Ending::Answered;
        check(
            Ending::Interrupted,
            "between 12.00 and 12.80 req/s (interrupted before the edge was found)",
        );
        check(
            Ending::ServerGone,
            "between 12.00 and 12.80 req/s (the server went away at 12.80 req/s and did not come back)",
        );
        check(
            answered(Answer::NoneMeets { load: 8.0 }),
            "no load meets the objectives: even 8.00 req/s misses them (p99 ttft 1.27 s < 2s)",
        );
        check(
            answered(Answer::LimitedByMost { load: 64.0 }),
            "at least 64.00 req/s: every load up to it meets the objectives, so `--max` was the limit, not the server",
        );
        let cliff = Answer::Found {
            load: 14.0,
            margin: 2.0,
            objective: None,
            highest_met: 12.0,
            lowest_missed: 16.0,
        };
        check(answered(cliff), "14 ± 2 req/s; at 16.00 req/s the server falls behind");
    }

    #[test]
    fn a_value_has_the_digits_that_its_margin_allows() {
        let check =
            |value, margin, expected: &str| assert_eq!(with_margin(value, margin), expected);
        check(12.41, 0.27, "12.4 ± 0.3");
        check(12.41, 0.13, "12.41 ± 0.13");
        check(1234.5, 31.0, "1234 ± 31");
        check(0.5123, 0.012, "0.512 ± 0.012");
        check(16.0, 0.0, "16.00 ± 0.00");
    }
}
