//! What a search found, in words.
//!
//! Pure: from the measured points and the answer to the text and the JSON that are shown.

use serde::Serialize;
use tokometer_metrics::search::{Answer, Fit};

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

/// One point as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Reading {
    /// Its load.
    pub(crate) load: f64,
    /// How it came out.
    pub(crate) fit: Fit,
    /// The worst objective with its value, such as `p99 ttft < 2s: 1.92 s`.
    pub(crate) worst: Option<String>,
    /// The worst objective's value over its limit.
    pub(crate) strain: Option<f64>,
    /// Requests per second that were answered.
    pub(crate) requests_per_s: Option<f64>,
    /// Output tokens per second.
    pub(crate) tokens_per_s: Option<f64>,
    /// Median output tokens per second of one request.
    pub(crate) tokens_per_s_per_user: Option<f64>,
    /// Requests measured.
    pub(crate) requests: u64,
    /// Whether every percentile asked for is supported by the sample.
    pub(crate) is_supported: bool,
    /// Folder of the run.
    pub(crate) folder: String,
}

/// Everything a search found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Findings {
    /// What was varied.
    pub(crate) over: Over,
    /// The objectives as typed.
    pub(crate) slo: String,
    /// The answer; absent when the search was interrupted.
    pub(crate) answer: Option<Answer>,
    /// GPUs behind the endpoint, where they were told.
    pub(crate) gpus: Option<u32>,
    /// The points in the order measured.
    pub(crate) points: Vec<Reading>,
}

fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), digits)
}

impl Findings {
    /// The measured point at the edge: the last one at the highest load that held.
    fn edge(&self, load: f64) -> Option<&Reading> {
        self.points
            .iter()
            .rfind(|point| point.fit == Fit::Met && (point.load - load).abs() <= 1e-9 * load)
    }

    /// The answer in one sentence, with its uncertainty.
    pub(crate) fn sentence(&self) -> String {
        let unit = self.over.unit();
        match &self.answer {
            Some(Answer::Found { load, margin, highest_met, lowest_missed }) => {
                let worst = self.edge(*highest_met).and_then(|edge| edge.worst.clone());
                let worst = worst.map_or(String::new(), |worst| format!(" ({worst})"));
                let missed =
                    self.points.iter().find(|p| (p.load - lowest_missed).abs() <= 1e-9 * p.load);
                let why = missed.map_or(String::new(), |point| limit(point, unit));
                format!("{} ± {} {unit}{worst}{why}", digits(*load), digits(*margin))
            }
            Some(Answer::LimitedByMost { load }) => format!(
                "at least {} {unit}: every load up to it meets the objectives, so `--max` was the limit, not the server",
                digits(*load)
            ),
            Some(Answer::NoneMeets { load }) => {
                format!("no load meets the objectives: even {} {unit} misses them", digits(*load))
            }
            Some(Answer::Unfinished { highest_met, lowest_missed }) => {
                unfinished("the points ran out", *highest_met, *lowest_missed, unit)
            }
            None => {
                let met = self.points.iter().filter(|point| point.fit == Fit::Met);
                let missed = self.points.iter().filter(|point| point.fit != Fit::Met);
                let highest = met
                    .map(|point| point.load)
                    .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
                let lowest = missed
                    .map(|point| point.load)
                    .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.min(b))));
                unfinished("interrupted", highest, lowest, unit)
            }
        }
    }

    /// The points as a table, then the sentence and what the edge delivers.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!("objectives: {}", self.slo), String::new(), self.head()];
        let mut sorted: Vec<&Reading> = self.points.iter().collect();
        sorted.sort_by(|a, b| a.load.total_cmp(&b.load));
        let most = sorted.iter().filter_map(|point| point.tokens_per_s).fold(0.0, f64::max);
        lines.extend(sorted.iter().map(|point| row(point, most)));
        lines.push(String::new());
        lines.push(format!("capacity: {}", self.sentence()));
        if let Some(Answer::Found { highest_met, .. }) = &self.answer
            && let Some(edge) = self.edge(*highest_met)
        {
            lines.push(self.delivered(edge));
        }
        lines.join("\n") + "\n"
    }

    fn head(&self) -> String {
        format!(
            "{:>12} {:<10} {:>8} {:>10} {:>10} {:>9}  worst objective",
            self.over.unit(),
            "objectives",
            "requests",
            "req/s",
            "tok/s",
            "per user"
        )
    }

    fn delivered(&self, edge: &Reading) -> String {
        let per_gpu = self.gpus.filter(|gpus| *gpus > 0).and_then(|gpus| {
            Some(format!(", {} tok/s per GPU", digits(edge.tokens_per_s? / f64::from(gpus))))
        });
        format!(
            "there: {} tok/s, {} tok/s per user{}",
            optional(edge.tokens_per_s),
            optional(edge.tokens_per_s_per_user),
            per_gpu.unwrap_or_default()
        )
    }
}

fn limit(point: &Reading, unit: &str) -> String {
    let load = digits(point.load);
    match (point.fit, &point.worst) {
        (Fit::Overloaded, _) => format!("; at {load} {unit} the server falls behind"),
        (Fit::Failed, _) => format!("; at {load} {unit} the server fails"),
        (_, Some(worst)) => format!("; at {load} {unit}: {worst}"),
        (_, None) => String::new(),
    }
}

fn unfinished(why: &str, met: Option<f64>, missed: Option<f64>, unit: &str) -> String {
    let known = match (met, missed) {
        (Some(met), Some(missed)) => {
            format!("between {} and {} {unit}", digits(met), digits(missed))
        }
        (Some(met), None) => format!("at least {} {unit}", digits(met)),
        (None, Some(missed)) => format!("below {} {unit}", digits(missed)),
        (None, None) => "unknown".to_owned(),
    };
    format!("{known} ({why} before the edge was found)")
}

fn row(point: &Reading, most: f64) -> String {
    let fit = match point.fit {
        Fit::Met => "met",
        Fit::Missed => "missed",
        Fit::Overloaded => "overloaded",
        Fit::Failed => "failed",
    };
    let doubt = if point.is_supported { "" } else { " ?" };
    let share =
        point.tokens_per_s.map_or(0.0, |tokens| if most > 0.0 { tokens / most } else { 0.0 });
    format!(
        "{:>12} {fit:<10} {:>8} {:>10} {:>10} {:>9}  {}{doubt}  {}",
        digits(point.load),
        point.requests,
        optional(point.requests_per_s),
        optional(point.tokens_per_s),
        optional(point.tokens_per_s_per_user),
        point.worst.as_deref().unwrap_or("–"),
        bar(share)
    )
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
    use super::*;

    fn reading(load: f64, fit: Fit) -> Reading {
        Reading {
            load,
            fit,
            worst: Some(format!("p99 ttft < 2s: {:.2} s", load / 6.0)),
            strain: Some(load / 12.0),
            requests_per_s: Some(load * 0.99),
            tokens_per_s: Some(load * 128.0),
            tokens_per_s_per_user: Some(61.4),
            requests: 400,
            is_supported: true,
            folder: String::new(),
        }
    }

    fn findings(answer: Option<Answer>) -> Findings {
        Findings {
            over: Over::RequestRate,
            slo: "p99 ttft < 2s".into(),
            answer,
            gpus: Some(2),
            points: vec![
                reading(8.0, Fit::Met),
                reading(16.0, Fit::Overloaded),
                reading(12.0, Fit::Met),
                reading(12.5, Fit::Missed),
            ],
        }
    }

    #[test]
    fn the_answer_is_one_sentence_with_its_uncertainty() {
        let found =
            Answer::Found { load: 12.3, margin: 0.25, highest_met: 12.0, lowest_missed: 12.5 };
        insta::assert_snapshot!(findings(Some(found)).text(), @r#"
        objectives: p99 ttft < 2s

               req/s objectives requests      req/s      tok/s  per user  worst objective
                8.00 met             400       7.92       1024     61.40  p99 ttft < 2s: 1.33 s  ▮▮▮▮▮▮▮▮▮▮
               12.00 met             400      11.88       1536     61.40  p99 ttft < 2s: 2.00 s  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮
               12.50 missed          400      12.38       1600     61.40  p99 ttft < 2s: 2.08 s  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮
               16.00 overloaded      400      15.84       2048     61.40  p99 ttft < 2s: 2.67 s  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮

        capacity: 12.30 ± 0.250 req/s (p99 ttft < 2s: 2.00 s); at 12.50 req/s: p99 ttft < 2s: 2.08 s
        there: 1536 tok/s, 61.40 tok/s per user, 768.0 tok/s per GPU
        "#);
    }

    #[test]
    fn other_endings_say_what_is_known() {
        let check = |answer, expected: &str| {
            assert_eq!(findings(answer).sentence(), expected);
        };
        check(None, "between 12.00 and 12.50 req/s (interrupted before the edge was found)");
        check(
            Some(Answer::NoneMeets { load: 0.1 }),
            "no load meets the objectives: even 0.100 req/s misses them",
        );
        check(
            Some(Answer::LimitedByMost { load: 64.0 }),
            "at least 64.00 req/s: every load up to it meets the objectives, so `--max` was the limit, not the server",
        );
    }
}
