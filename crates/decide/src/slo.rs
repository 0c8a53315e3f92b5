//! Service-level objectives as people type them: `p99 ttft < 2s, p99 tpot < 100ms, goodput > 99%`.
//!
//! In: the text, and a [`Summary`]. Out: for each objective its value, whether it is met, and how
//! near its limit it is. A value that the run does not have is neither met nor missed.

use serde::{Deserialize, Serialize};
use tokometer_base::{Nanos, units};
use tokometer_metrics::{Distribution, Objectives, Summary};

use crate::Error;

/// What is taken of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Arithmetic mean of the answered requests.
    Mean,
    /// Largest value; absent when a request failed.
    Max,
    /// A percentile.
    Percentile(f64),
    /// The figure itself: it is no distribution.
    Figure,
}

/// On which side of its limit a good value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// At most the limit.
    Below,
    /// At least the limit.
    Above,
}

/// One objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// As it was typed.
    pub text: String,
    /// Key of [`tokometer_metrics::define`].
    pub key: String,
    /// What is taken of it.
    pub statistic: Statistic,
    /// Where a good value lies.
    pub side: Side,
    /// The limit, in the unit of the key.
    pub limit: f64,
}

/// All objectives of a text.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Slo {
    /// In the order typed.
    pub objectives: Vec<Objective>,
}

/// How one objective came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Result {
    /// The objective as typed.
    pub text: String,
    /// Its value; `None` when the run does not have one, or when it falls among failed requests.
    pub value: Option<f64>,
    /// The limit.
    pub limit: f64,
    /// Whether it is met; `None` when that cannot be told.
    pub is_met: Option<bool>,
    /// How much of the limit is used up: above one is a miss. `None` without a value.
    pub use_of_limit: Option<f64>,
    /// Whether the sample is large enough for the percentile.
    pub is_supported: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Span,
    Share,
    Number,
}

/// Words for metrics, their keys, and what their limits are.
const METRICS: [(&str, &str, Kind); 14] = [
    ("ttft", "ttft_ms", Kind::Span),
    ("tpot", "tpot_ms", Kind::Span),
    ("itl", "gap_ms", Kind::Span),
    ("gap", "gap_ms", Kind::Span),
    ("e2e", "e2e_ms", Kind::Span),
    ("e2el", "e2e_ms", Kind::Span),
    ("queue", "client_queue_ms", Kind::Span),
    ("ttft-from-intended", "ttft_from_intended_ms", Kind::Span),
    ("e2e-from-intended", "e2e_from_intended_ms", Kind::Span),
    ("user-speed", "tokens_per_s_per_user", Kind::Number),
    ("goodput", "goodput_share", Kind::Share),
    ("requests", "requests_per_s", Kind::Number),
    ("output", "output_tokens_per_s", Kind::Number),
    ("total", "total_tokens_per_s", Kind::Number),
];

impl Slo {
    /// Reads objectives separated by commas.
    pub fn parse(text: &str) -> std::result::Result<Self, Error> {
        let objectives = text
            .split(',')
            .map(|part| Objective::parse(part.trim()))
            .collect::<std::result::Result<_, _>>()?;
        Ok(Self { objectives })
    }

    /// The limits that a single request must meet to be good: those of the latencies named here.
    pub fn request_limits(&self) -> Objectives {
        let limit = |key: &str| {
            let of_key = self.objectives.iter().filter(|objective| objective.key == key);
            of_key.map(|objective| objective.limit).min_by(f64::total_cmp)
        };
        Objectives {
            ttft_ms: limit("ttft_ms"),
            tpot_ms: limit("tpot_ms"),
            e2el_ms: limit("e2e_ms"),
        }
    }

    /// The percentiles that a summary must hold for these objectives.
    pub fn percentiles(&self) -> Vec<f64> {
        let of = |objective: &Objective| match objective.statistic {
            Statistic::Percentile(percent) => Some(percent),
            _ => None,
        };
        tokometer_metrics::sample::with_median(
            &self.objectives.iter().filter_map(of).collect::<Vec<_>>(),
        )
    }

    /// How each objective came out.
    pub fn results(&self, summary: &Summary) -> Vec<Result> {
        self.objectives.iter().map(|objective| objective.result(summary)).collect()
    }
}

impl Objective {
    fn parse(text: &str) -> std::result::Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::EmptyObjective);
        }
        let no_comparison = || Error::NoComparison(text.to_owned());
        let (left, right) = text.split_once(['<', '>']).ok_or_else(no_comparison)?;
        let side = if text[left.len()..].starts_with('<') { Side::Below } else { Side::Above };
        let limit = right.trim_start_matches('=').trim();
        let words: Vec<&str> = left.split_whitespace().collect();
        // `p99 ttft` and `ttft p99` are both said.
        let (name, statistic) = match words[..] {
            [name] => (name, None),
            [one, other] if metric(other).is_some() => (other, Some(one)),
            [one, other] => (one, Some(other)),
            _ => return Err(no_comparison()),
        };
        let Some((key, kind)) = metric(name) else {
            let known = METRICS.iter().map(|(word, ..)| *word).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownMetric {
                text: text.to_owned(),
                name: name.to_owned(),
                known,
            });
        };
        let is_figure = tokometer_metrics::define::metric(key).is_some_and(|metric| {
            matches!(metric.formula, tokometer_metrics::define::Formula::Run(_))
        });
        let statistic = match (is_figure, statistic) {
            (true, None) => Statistic::Figure,
            (false, None) => Statistic::Mean,
            (_, Some(word)) => parse_statistic(word).filter(|_| !is_figure).ok_or_else(|| {
                Error::UnknownStatistic { text: text.to_owned(), name: word.to_owned() }
            })?,
        };
        let limit = parse_limit(limit, kind)
            .map_err(|source| Error::Limit { text: text.to_owned(), source })?;
        Ok(Self { text: text.to_owned(), key: key.to_owned(), statistic, side, limit })
    }

    fn result(&self, summary: &Summary) -> Result {
        let distribution = summary.distribution(&self.key);
        let (value, is_supported) = match self.statistic {
            Statistic::Figure => (summary.figure(&self.key), true),
            statistic => distribution.map_or((None, false), |found| value_of(found, statistic)),
        };
        // A percentile among failed requests is slower than any limit.
        let is_beyond = value.is_none()
            && distribution.is_some_and(|found| found.infinite > 0)
            && self.side == Side::Below;
        let is_met = match (value, self.side) {
            (Some(value), Side::Below) => Some(value <= self.limit),
            (Some(value), Side::Above) => Some(value >= self.limit),
            (None, _) => is_beyond.then_some(false),
        };
        let use_of_limit = value.and_then(|value| {
            let (above, below) = match self.side {
                Side::Below => (value, self.limit),
                Side::Above => (self.limit, value),
            };
            (below > 0.0).then(|| above / below)
        });
        Result {
            text: self.text.clone(),
            value,
            limit: self.limit,
            is_met,
            use_of_limit,
            is_supported,
        }
    }
}

fn value_of(found: &Distribution, statistic: Statistic) -> (Option<f64>, bool) {
    match statistic {
        Statistic::Mean => (found.mean.filter(|_| found.infinite == 0), true),
        Statistic::Max => (found.max.filter(|_| found.infinite == 0), true),
        Statistic::Percentile(percent) => found
            .percentile(percent)
            .map_or((None, false), |percentile| (percentile.value, percentile.is_supported)),
        Statistic::Figure => (None, false),
    }
}

fn metric(word: &str) -> Option<(&'static str, Kind)> {
    let word = word.to_ascii_lowercase();
    METRICS.iter().find(|(name, ..)| *name == word).map(|(_, key, kind)| (*key, *kind))
}

fn parse_statistic(word: &str) -> Option<Statistic> {
    match word.to_ascii_lowercase().as_str() {
        "mean" | "avg" => Some(Statistic::Mean),
        "median" => Some(Statistic::Percentile(50.0)),
        "max" => Some(Statistic::Max),
        other => {
            let percent: f64 = other.strip_prefix('p')?.parse().ok()?;
            (percent > 0.0 && percent < 100.0).then_some(Statistic::Percentile(percent))
        }
    }
}

fn parse_limit(text: &str, kind: Kind) -> std::result::Result<f64, units::Error> {
    match kind {
        Kind::Span => units::parse_span(text, Nanos::from_millis(1)).map(Nanos::as_millis_f64),
        Kind::Share => units::parse_share(text),
        Kind::Number => units::parse_rate(text.split_whitespace().next().unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_metrics::summary::Percentile;

    #[test]
    fn objectives_are_read_as_people_write_them() {
        let check = |text: &str, key: &str, statistic: Statistic, side: Side, limit: f64| {
            let found = Objective::parse(text).unwrap();
            assert_eq!((found.key.as_str(), found.statistic, found.side), (key, statistic, side));
            assert!((found.limit - limit).abs() < 1e-9, "{text}: {}", found.limit);
        };
        check("p99 ttft < 2s", "ttft_ms", Statistic::Percentile(99.0), Side::Below, 2_000.0);
        check("ttft p99.9<=250", "ttft_ms", Statistic::Percentile(99.9), Side::Below, 250.0);
        check("mean TPOT < 50ms", "tpot_ms", Statistic::Mean, Side::Below, 50.0);
        check("median e2e < 1.5 s", "e2e_ms", Statistic::Percentile(50.0), Side::Below, 1_500.0);
        check("goodput > 99%", "goodput_share", Statistic::Figure, Side::Above, 0.99);
        check("output > 1200", "output_tokens_per_s", Statistic::Figure, Side::Above, 1_200.0);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let check = |text: &str, expected: &str| {
            let message = Slo::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        check("", "empty");
        check("p99 ttft < 2s,", "empty");
        check("p99 ttft 2s", "no comparison");
        check("p99 tttf < 2s", "names `p99`");
        check("p200 ttft < 2s", "asks for `p200`");
        check("p99 goodput > 99%", "asks for `p99`");
        check("p99 ttft < 2 apples", "apples");
    }

    fn summary(p99: Option<f64>, infinite: u64) -> Summary {
        let percentile = Percentile {
            percent: 99.0,
            value: p99,
            above: None,
            low: None,
            high: None,
            is_supported: true,
        };
        let ttft = Distribution {
            count: 500,
            infinite,
            mean: Some(100.0),
            percentiles: vec![percentile],
            ..Distribution::default()
        };
        Summary {
            distributions: [("ttft_ms".to_owned(), ttft)].into(),
            figures: [("goodput_share".to_owned(), Some(0.995))].into(),
            ..Summary::default()
        }
    }

    #[test]
    fn an_objective_is_met_missed_or_unknown() {
        let check = |text: &str, summary: &Summary, expected: Option<bool>| {
            let found = Slo::parse(text).unwrap().results(summary);
            assert_eq!(found[0].is_met, expected, "{text}");
        };
        let sound = summary(Some(150.0), 0);
        check("p99 ttft < 150ms", &sound, Some(true));
        check("p99 ttft < 149ms", &sound, Some(false));
        check("goodput > 99%", &sound, Some(true));
        check("p99 tpot < 1s", &sound, None);
        check("p95 ttft < 1s", &sound, None);
        let failing = summary(None, 20);
        check("p99 ttft < 10s", &failing, Some(false));
        check("mean ttft < 10s", &failing, Some(false));
        let near = Slo::parse("p99 ttft < 200ms").unwrap().results(&sound);
        assert_eq!(near[0].use_of_limit, Some(0.75));
    }

    #[test]
    fn the_limits_of_a_good_request_are_those_of_the_latencies() {
        let slo =
            Slo::parse("p99 ttft < 2s, p50 ttft < 1s, p99 tpot < 100ms, goodput > 99%").unwrap();
        let limits = slo.request_limits();
        assert_eq!(
            (limits.ttft_ms, limits.tpot_ms, limits.e2el_ms),
            (Some(1_000.0), Some(100.0), None)
        );
        assert_eq!(slo.percentiles(), [50.0, 99.0]);
    }
}
