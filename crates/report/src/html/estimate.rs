//! A figure of a run with its interval, for charts.

use tokometer_figures::figure::{Figure, Statistic};
use tokometer_figures::{ConfidenceInterval, Summary};

/// A figure's value with the ends of its interval, where they are known and finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureEstimate {
    /// In the unit of the figure.
    pub value: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// A figure of a run; `None` where it has none, or must not be shown.
pub fn estimate(summary: &Summary, figure: Figure) -> Option<FigureEstimate> {
    let key = figure.quantity.key();
    let found = summary.distribution(key).filter(|found| !found.is_withheld);
    let (value, interval) = match figure.statistic {
        Statistic::Whole => (summary.figure(key), summary.intervals.get(key)),
        Statistic::Mean => (found?.mean, Some(&found?.mean_interval)),
        Statistic::Std => (found?.std, None),
        Statistic::Min => (found?.min, None),
        Statistic::Max => (found?.max, None),
        Statistic::Percentile(one) => {
            let entry = found?.percentile(one.percent())?;
            (entry.value, Some(&entry.interval))
        }
    };
    let ends = interval.and_then(ConfidenceInterval::ends);
    let finite = |end: f64| Some(end).filter(|end| end.is_finite());
    Some(FigureEstimate {
        value: value.filter(|value| value.is_finite())?,
        low: ends.and_then(|ends| finite(ends.0)),
        high: ends.and_then(|ends| finite(ends.1)),
    })
}
