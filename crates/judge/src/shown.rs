//! The figures that a report shows, and what each is to its reader.

use tokometer_base::Conventions;
use tokometer_figures::Unjudged;
use tokometer_figures::define::{self, Definition, Unit};
use tokometer_figures::figure::{self, Figure, Quantity, Statistic};
use tokometer_figures::summary::{Distribution, PercentileValue, Summary};
use tokometer_record::RunInfo;

/// The name of a figure's key for people: `p99 TTFT`.
pub fn figure_label(key: &str) -> String {
    if let Ok(figure) = Figure::parse(key) {
        return figure.label();
    }
    let named = |key: &str| define::metric(key).map(|metric| within_text(metric.label));
    let parts = key.rsplit_once('_');
    let statistic = parts.and_then(|(key, statistic)| Some(format!("{statistic} {}", named(key)?)));
    named(key).or(statistic).unwrap_or_else(|| key.to_owned())
}

/// A label inside a sentence: `Mean requests` becomes `mean requests`, `ITL per token` stays.
fn within_text(label: &str) -> String {
    let is_acronym = label.chars().take(2).all(char::is_uppercase);
    let mut letters = label.chars();
    match letters.next() {
        Some(first) if !is_acronym => first.to_lowercase().chain(letters).collect(),
        _ => label.to_owned(),
    }
}

/// Means that differ by less than this share are the same for a reader.
const SAME: f64 = 0.01;

/// What a figure is to a reader of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It counts in the run's verdict.
    Result,
    /// Printed with `?`: too few samples to count.
    Unsure,
    /// It explains results, or no report of this run prints it.
    Beside,
}

#[derive(Clone, Copy)]
pub(crate) struct ShownFigure {
    pub(crate) metric: &'static Definition,
    pub(crate) statistic: Statistic,
    pub(crate) standing: Standing,
}

impl ShownFigure {
    pub(crate) fn key(&self) -> String {
        match self.statistic {
            Statistic::Whole => self.metric.key.to_owned(),
            statistic => format!("{}_{statistic}", self.metric.key),
        }
    }

    pub(crate) fn is_one_of(&self, quantities: &[Quantity]) -> bool {
        self.metric.names.is_some_and(|names| quantities.contains(&names.quantity))
    }

    pub(crate) fn is_rate(&self) -> bool {
        self.statistic == Statistic::Whole
            && !matches!(self.metric.unit, Unit::Tokens | Unit::Items)
    }

    /// Token totals are the same at every load.
    pub(crate) fn depends_on_load(&self) -> bool {
        !matches!(self.statistic, Statistic::Whole) || self.is_rate()
    }
}

/// The figures that a report shows. The largest value of a distribution is one request and is not judged.
/// Without a wait for the concurrency cap, latencies from the intended time only repeat the client's
/// lateness, so they are then checked, but not part of the verdict; so are percentiles that no report of this
/// run prints, and those with too few samples.
pub(crate) fn shown(run: &Unjudged) -> Vec<ShownFigure> {
    let Unjudged { summary, info, health, .. } = run;
    let results = || define::METRICS.iter().filter(|metric| metric.is_result);
    let whole = results().filter(|metric| summary.figure(metric.key).is_some());
    let whole = whole.map(|metric| ShownFigure {
        metric,
        statistic: Statistic::Whole,
        standing: Standing::Result,
    });
    let has_waited = health.as_ref().is_some_and(|health| health.cap_waits > 0);
    let mut found: Vec<ShownFigure> = whole.collect();
    for metric in results() {
        let values = summary.distribution(metric.key).filter(|values| values.count > 0);
        let Some(values) = values.filter(|_| !is_repeated(summary, metric)) else { continue };
        let is_result = has_waited || !is_from_intended(metric);
        let percentiles = values.percentiles.iter().filter(|_| !values.is_withheld);
        let percentiles = percentiles.filter_map(|one| {
            figure::Percentile::from_percent(one.percent).map(Statistic::Percentile)
        });
        let statistics = values.mean.map(|_| Statistic::Mean).into_iter().chain(percentiles);
        let standing = |statistic: Statistic| match statistic.percentile() {
            _ if !is_result => Standing::Beside,
            Some(one) if !is_printed(one, info) => Standing::Beside,
            Some(one) if is_too_few(values, one) => Standing::Unsure,
            _ => Standing::Result,
        };
        found.extend(statistics.map(|statistic| ShownFigure {
            metric,
            statistic,
            standing: standing(statistic),
        }));
    }
    found
}

/// Whether a percentile has the mark `?`.
pub(crate) fn is_too_few(values: &Distribution, percentile: figure::Percentile) -> bool {
    values.percentile(percentile.percent()).is_some_and(PercentileValue::is_doubtful)
}

/// Whether a report of this run prints a percentile: the summary's columns, those that the plan asks for, and
/// one more in SGLang's block.
fn is_printed(percentile: figure::Percentile, info: &RunInfo) -> bool {
    let is_of = |percent: f64| figure::Percentile::from_percent(percent) == Some(percentile);
    [50.0, 90.0, 99.0].into_iter().any(is_of)
        || info.family == Conventions::Sglang && is_of(95.0)
        || info.asked_percentiles().any(is_of)
}

pub(crate) fn is_from_intended(metric: &Definition) -> bool {
    metric.key.ends_with("_from_intended_ms")
}

/// Whether a latency says the same as another one, so that reports leave it out.
fn is_repeated(summary: &Summary, metric: &Definition) -> bool {
    summary.apart(metric).is_some_and(|share| share <= SAME)
}

/// Half the width of a figure's 95 % interval, as a share of the figure. `None` where it has none.
pub(crate) fn margin(summary: &Summary, shown: &ShownFigure) -> Option<f64> {
    let values = summary.distribution(shown.metric.key)?;
    let (margin, value) = match shown.statistic {
        Statistic::Mean => (values.mean_interval.margin()?, values.mean?),
        Statistic::Percentile(one) => {
            let found = values.percentile(one.percent())?;
            (found.interval.margin()?, found.value?)
        }
        _ => return None,
    };
    (value > 0.0).then(|| margin / value)
}
