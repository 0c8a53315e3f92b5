//! The 95 % confidence intervals of the main figures.

use tokometer_figures::figure::{Quantity, Statistic};
use tokometer_figures::{ConfidenceInterval, Distribution, NoInterval};

use super::{CELL, LABEL, SummaryPage, rate};
use crate::grid::{GAP, Grid};
use crate::style::Tone;

const RATES: [(&str, Quantity); 3] = [
    ("req/s", Quantity::Requests),
    ("items/s", Quantity::Items),
    ("output tok/s", Quantity::Output),
];
const COLUMNS: [Statistic; 4] =
    [Statistic::Mean, Statistic::MEDIAN, Statistic::P90, Statistic::P99];

impl SummaryPage<'_> {
    pub(super) fn intervals(&self) -> Vec<String> {
        let grid = self.interval_grid(str::to_owned);
        if grid.is_empty() {
            return Vec::new();
        }
        let mut lines = grid.lines();
        lines[0] = self.style.paint(Tone::Faint, &lines[0]);
        lines
    }

    /// Rows with at least one interval, or with a run that is too short for one. A burst has none: it
    /// is a single observation.
    pub(super) fn interval_grid(&self, write: fn(&str) -> String) -> Grid {
        let mut grid = Grid::new().left("95 % CI").at_least(LABEL - GAP);
        for head in COLUMNS {
            grid = grid.right(head.to_string()).at_least(CELL - GAP);
        }
        // The other latencies have theirs in the JSON and on the page.
        for quantity in Quantity::LATENCIES {
            let Some(values) = self.summary.distribution(quantity) else { continue };
            let cells = COLUMNS.map(|statistic| self.cell(values, statistic));
            if cells.iter().any(|cell| !matches!(cell.as_str(), "" | "?")) {
                grid.push(
                    [format!("{} ms", quantity.label())]
                        .into_iter()
                        .chain(cells)
                        .map(|cell| write(&cell)),
                );
            }
        }
        for (label, quantity) in RATES {
            let interval = self.summary.intervals.get(quantity.key()).copied().unwrap_or_default();
            let cell = text(&interval, rate);
            if !matches!(cell.as_str(), "" | "?") {
                let blank = COLUMNS[1..].iter().map(|_| String::new());
                let cells = [label.to_owned(), cell].into_iter().chain(blank);
                grid.push(cells.map(|cell| write(&cell)));
            }
        }
        grid
    }

    fn cell(&self, values: &Distribution, statistic: Statistic) -> String {
        let millis = |value: f64| self.style.millis(value);
        match statistic {
            Statistic::Percentile(_) if values.is_withheld => String::new(),
            Statistic::Percentile(one) => values
                .percentile(one.percent())
                .map_or_else(String::new, |entry| text(&entry.interval, millis)),
            _ => text(&values.mean_interval, millis),
        }
    }
}

fn text(interval: &ConfidenceInterval, number: impl Fn(f64) -> String) -> String {
    match interval {
        ConfidenceInterval::Known { low, high } if high.is_finite() => {
            format!("{}–{}", number(*low), number(*high))
        }
        ConfidenceInterval::Known { low, .. } => format!("{}–failed", number(*low)),
        ConfidenceInterval::Unknown(NoInterval::TooShort) => "too short".to_owned(),
        ConfidenceInterval::Unknown(NoInterval::FewSamples) => "?".to_owned(),
        ConfidenceInterval::Unknown(NoInterval::Failures) => "failed".to_owned(),
        ConfidenceInterval::Unknown(NoInterval::Burst) => String::new(),
    }
}
