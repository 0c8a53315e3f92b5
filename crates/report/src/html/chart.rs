//! Tables, and charts with one point per run. The page's script draws them.

use serde::Serialize;
use serde_json::Value;
use tokometer_figures::figure::{Figure, Statistic};
use tokometer_figures::{ConfidenceInterval, Summary, Verdict};

use crate::summary::mark;

#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    pub columns: Vec<String>,
    /// Cells; `null` is shown as absent.
    pub rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// From zero, in even steps.
    #[default]
    Linear,
    /// In even steps around the values, for changes that zero would hide.
    Fitted,
    /// By factors.
    Log,
    /// Seconds since 1970, shown as dates.
    Time,
    /// Positions in a list of words.
    Words,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct ChartAxis {
    pub label: String,
    pub scale: Scale,
    /// The words of [`Scale::Words`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

impl ChartAxis {
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, words: Vec::new() }
    }

    pub fn linear(label: impl Into<String>) -> Self {
        Self::new(label, Scale::Linear)
    }

    /// Linear, or by factors where the values spread over more than `ratio`.
    pub fn spread(label: impl Into<String>, values: &[f64], ratio: f64) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let is_log = low > 0.0 && high / low > ratio;
        Self::new(label, if is_log { Scale::Log } else { Scale::Linear })
    }
}

/// How a point looks. A shape of its own for each, so that colour is never the only sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointMark {
    /// The shape of its series.
    #[default]
    Plain,
    /// Another point of its series is better in both directions.
    Dominated,
    Met,
    Missed,
    /// The server could not keep up.
    Overloaded,
    Failed,
    /// Better than the point before it.
    Better,
    /// Worse than the point before it.
    Worse,
    Knee,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct ChartPoint {
    pub x: f64,
    pub y: f64,
    /// Lower end of the 95 % confidence interval of `y`, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Index into the runs of the page; `None` for a point without a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<usize>,
    pub mark: PointMark,
    /// `!`, `~` or `?`: how far the point cannot be trusted, as behind a figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<char>,
    /// A remark of the point's own, such as a verdict.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// Number of its colour and shape; the same on every chart of the page.
    pub look: usize,
    /// In the order in which the line connects them.
    pub points: Vec<ChartPoint>,
    /// Whether a line connects the points that are not dominated.
    pub is_line: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    X,
    Y,
}

/// A line across the chart, such as an objective.
#[derive(Debug, Clone, Serialize)]
pub struct LimitLine {
    pub of: Of,
    pub at: f64,
    pub label: String,
}

/// A shaded range, such as a confidence interval.
#[derive(Debug, Clone, Serialize)]
pub struct Band {
    pub of: Of,
    /// Lower end; `None` is open.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub label: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Chart {
    pub title: String,
    /// A sentence under the heading; empty for none.
    pub remark: String,
    pub x: ChartAxis,
    pub y: ChartAxis,
    /// One per configuration.
    pub series: Vec<Series>,
    pub limits: Vec<LimitLine>,
    /// Confidence intervals of what an axis shows.
    pub bands: Vec<Band>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct ChartGroup {
    pub title: String,
    pub charts: Vec<Chart>,
}

/// A figure's value with the ends of its interval, where they are known and finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureEstimate {
    /// In the unit of the figure.
    pub value: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The mark behind the figure: `!`, `~` or `?`.
    pub mark: Option<char>,
}

impl FigureEstimate {
    /// A number that is known, such as a load.
    pub(super) fn exact(value: f64) -> Self {
        Self { value, low: None, high: None, mark: None }
    }
}

/// The graver of two marks; INVALID comes before SUSPECT, and that before too few requests.
pub fn graver(a: Option<char>, b: Option<char>) -> Option<char> {
    ['!', '~', '?'].into_iter().find(|mark| [a, b].contains(&Some(*mark)))
}

/// The mark of a point: that of its figures, or that of its run's verdict.
pub fn doubt(summary: &Summary, figures: Option<char>) -> Option<char> {
    let of_run = match summary.verdict {
        Verdict::Valid => None,
        Verdict::Suspect => Some('~'),
        Verdict::Invalid => Some('!'),
    };
    graver(of_run, figures)
}

/// A figure of a run; `None` where it has none, or must not be shown.
pub fn estimate(summary: &Summary, figure: Figure) -> Option<FigureEstimate> {
    let key = figure.quantity.key();
    let found = summary.distribution(key).filter(|found| !found.is_withheld);
    let mut mark = mark(summary, &figure.key());
    let (value, interval) = match figure.statistic {
        Statistic::Whole => (summary.figure(key), summary.intervals.get(key)),
        Statistic::Mean => (found?.mean, Some(&found?.mean_interval)),
        Statistic::Std => (found?.std, None),
        Statistic::Min => (found?.min, None),
        Statistic::Max => (found?.max, None),
        Statistic::Percentile(one) => {
            let entry = found?.percentile(one.percent())?;
            mark = graver(mark, entry.is_doubtful().then_some('?'));
            (entry.value, Some(&entry.interval))
        }
    };
    let ends = interval.and_then(ConfidenceInterval::ends);
    let finite = |end: f64| Some(end).filter(|end| end.is_finite());
    Some(FigureEstimate {
        value: value.filter(|value| value.is_finite())?,
        low: ends.and_then(|ends| finite(ends.0)),
        high: ends.and_then(|ends| finite(ends.1)),
        mark,
    })
}

/// Sorts points by x and marks those for which another point is at least as good in both directions
/// and better in one. `better` is the sign of the better direction of each axis. A point of an INVALID
/// run beats none.
pub(super) fn mark_front(points: &mut [ChartPoint], better: [f64; 2]) {
    let [x, y] = better;
    let position = |one: &ChartPoint| (x * one.x, y * one.y);
    let sound = points.iter().filter(|one| one.doubt != Some('!'));
    let positions: Vec<(f64, f64)> = sound.map(position).collect();
    let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 >= b.0 && a.1 >= b.1 && a != b;
    for point in points.iter_mut() {
        let own = position(point);
        let is_beaten = positions.iter().any(|other| beats(other, &own));
        point.mark = if is_beaten { PointMark::Dominated } else { PointMark::Plain };
    }
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(prefer: [f64; 2], positions: &[(f64, f64)]) -> Vec<f64> {
        let mut points: Vec<ChartPoint> = positions
            .iter()
            .map(|(x, y)| ChartPoint { x: *x, y: *y, ..ChartPoint::default() })
            .collect();
        mark_front(&mut points, prefer);
        points.iter().filter(|one| one.mark == PointMark::Plain).map(|one| one.x).collect()
    }

    #[test]
    fn the_front_holds_points_that_no_other_beats_in_both_directions() {
        let positions = [(1.0, 5.0), (2.0, 6.0), (3.0, 4.0), (4.0, 1.0), (3.5, 0.5)];
        assert_eq!(front([1.0, 1.0], &positions), [2.0, 3.0, 4.0]);
        assert_eq!(front([-1.0, 1.0], &positions), [1.0, 2.0]);
        assert_eq!(front([1.0, -1.0], &positions), [3.5, 4.0]);
        // Of two equal points neither beats the other.
        assert_eq!(front([1.0, 1.0], &[(1.0, 1.0), (1.0, 1.0)]), [1.0, 1.0]);
    }

    #[test]
    fn an_axis_is_logarithmic_only_where_values_spread() {
        assert_eq!(ChartAxis::spread("x", &[1.0, 64.0], 20.0).scale, Scale::Log);
        assert_eq!(ChartAxis::spread("x", &[1.0, 8.0], 20.0).scale, Scale::Linear);
        assert_eq!(ChartAxis::spread("x", &[0.0, 64.0], 20.0).scale, Scale::Linear);
        assert_eq!(ChartAxis::spread("x", &[], 20.0).scale, Scale::Linear);
    }
}
