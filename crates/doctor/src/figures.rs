//! The figures of a report as intervals, in seconds and counts.

use crate::interval::Interval;
use tokometer_compat::model::{Field, Key, Metric, Percentile, Report, Stat};

/// Fewer answers have a whole mean length by chance often enough.
const FEWEST_EQUAL: f64 = 8.0;

/// A report as the checks see it. Absent figures are `None`, and the check is not made.
pub(crate) struct Figures<'a> {
    pub(crate) report: &'a Report,
    /// The time over which throughputs were computed, where it is not the printed duration.
    rate_duration: Option<Interval>,
}

impl<'a> Figures<'a> {
    pub(crate) fn new(report: &'a Report, rate_duration: Option<Interval>) -> Self {
        Self { report, rate_duration }
    }

    /// A field; an empty report's zero counts as absent where it would be divided by.
    pub(crate) fn field(&self, field: Field) -> Option<Interval> {
        self.report.values.get(Key::Field(field)).and_then(Interval::of)
    }

    pub(crate) fn positive(&self, field: Field) -> Option<Interval> {
        self.field(field).filter(|value| value.low > 0.0)
    }

    /// Successful requests.
    pub(crate) fn requests(&self) -> Option<f64> {
        self.report.number(Field::Successful).filter(|count| *count > 0.0)
    }

    /// Length of the run in seconds, without what a longer printed duration includes beside it.
    pub(crate) fn duration(&self) -> Option<Interval> {
        let printed = self.positive(Field::Duration);
        self.rate_duration
            .filter(|agreed| printed.is_some_and(|one| one.is_above(*agreed)))
            .or(printed)
    }

    /// The time that throughputs and the mean concurrency are divided by.
    pub(crate) fn rate_duration(&self) -> Option<Interval> {
        self.rate_duration.or_else(|| self.positive(Field::Duration))
    }

    /// Length of the run in seconds as it is printed, whatever it is.
    pub(crate) fn printed_duration(&self) -> Option<Interval> {
        self.field(Field::Duration)
    }

    pub(crate) fn seconds(&self, metric: Metric, stat: Stat) -> Option<Interval> {
        let value = self.report.values.get(Key::Latency(metric, stat))?;
        Some(Interval::of(value)? * 1e-3)
    }

    /// A mean in seconds that is above zero: the tools print 0.00 for a list without values.
    pub(crate) fn mean(&self, metric: Metric) -> Option<Interval> {
        self.seconds(metric, Stat::Mean).filter(|mean| mean.low > 0.0)
    }

    pub(crate) fn answer_tokens(&self) -> Option<f64> {
        Some(self.report.number(Field::OutputTokens)? / self.requests()?)
    }

    /// Whether all answers are probably equally long: their mean length is a whole number, which a few
    /// answers often have by chance.
    pub(crate) fn has_equal_lengths(&self) -> bool {
        let requests = self.requests().filter(|requests| *requests >= FEWEST_EQUAL);
        requests.zip(self.answer_tokens()).is_some_and(|(requests, length)| {
            length >= 1.0 && (length - length.round()).abs() < 0.5 / requests
        })
    }

    /// Quantiles in rising order of their share, in seconds: the median counts as P50 and the
    /// largest as P100.
    pub(crate) fn quantiles(&self, metric: Metric) -> Vec<(f64, Interval)> {
        let percentile = |key: Key| match key {
            Key::Latency(of, _) if of != metric => None,
            Key::Latency(_, Stat::Percentile(percentile)) => Some(percentile),
            Key::Latency(_, Stat::Median) => Some(Percentile::whole(50)),
            Key::Latency(_, Stat::Max) => Some(Percentile::whole(100)),
            _ => None,
        };
        let mut found: Vec<(f64, Interval)> = self
            .report
            .values
            .iter()
            .filter_map(|(key, value)| {
                Some((percentile(key)?.share(), Interval::of(value)? * 1e-3))
            })
            .collect();
        found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        found
    }

    /// Mean latency of a request in seconds: E2E, else what TTFT and TPOT give.
    pub(crate) fn latency(&self) -> Option<Interval> {
        self.mean(Metric::E2el).or_else(|| {
            let later_tokens = (self.answer_tokens()? - 1.0).max(0.0);
            Some(self.mean(Metric::Ttft)? + self.seconds(Metric::Tpot, Stat::Mean)? * later_tokens)
        })
    }

    /// Mean requests in flight by Little's law.
    pub(crate) fn in_flight(&self) -> Option<Interval> {
        let total = self.mean(Metric::E2el)? * self.requests()?;
        Some(total / self.rate_duration()?)
    }

    /// Requests that were decoding on average: tokens per second times seconds per token.
    pub(crate) fn decoding(&self) -> Option<Interval> {
        Some(self.positive(Field::OutputThroughput)? * self.mean(Metric::Itl)?)
    }
}

/// The metrics of whole requests: one value per request, unlike gaps.
pub(crate) const PER_REQUEST: [(Metric, &str); 3] =
    [(Metric::Ttft, "TTFT"), (Metric::Tpot, "TPOT"), (Metric::E2el, "E2E")];

/// Metrics with the time that requests wait in the client.
pub(crate) const QUEUED: [(Metric, &str); 2] = [
    (Metric::ClientQueue, "client queue time"),
    (Metric::QueuedE2el, "E2E with client queue time"),
];

/// All metrics that every family prints.
pub(crate) const ALL_METRICS: [(Metric, &str); 4] =
    [(Metric::Ttft, "TTFT"), (Metric::Tpot, "TPOT"), (Metric::Itl, "ITL"), (Metric::E2el, "E2E")];
