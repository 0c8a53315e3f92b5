//! The grid of latencies: one row per metric, one column per statistic.

use tokometer_figures::define::{self, Formula};
use tokometer_figures::figure::{Quantity, Statistic};
use tokometer_figures::{Distribution, PercentileValue};

use super::{CELL, COLUMNS, LABEL, LATENCIES, SummaryPage, line};
use crate::grid::{GAP, Grid};
use crate::style::Tone;

const DOUBTFUL: &str = "too few independent values beyond this percentile; a longer run helps";

impl SummaryPage<'_> {
    pub(super) fn latencies(&self) -> Vec<String> {
        let grid = self.latency_grid(str::to_owned);
        if grid.is_empty() {
            return Vec::new();
        }
        let mut lines = grid.lines();
        lines[0] = self.style.paint(Tone::Faint, &lines[0]);
        lines.extend(self.doubts());
        lines
    }

    /// What the mark `?` means, where a percentile carries it.
    pub(super) fn doubts(&self) -> Option<String> {
        let is_doubtful = |(_, key): (&str, &str)| {
            let Some(values) = self.summary.distribution(key) else { return false };
            let percentiles = COLUMNS.iter().filter_map(|column| column.percentile());
            let mut found = percentiles.filter_map(|one| values.percentile(one.percent()));
            !values.is_withheld && found.any(|one| one.is_doubtful() && one.value.is_some())
        };
        let mut shown = self.shown_latencies();
        shown.any(is_doubtful).then(|| line("?", DOUBTFUL))
    }

    /// The latencies worth showing, each cell as `write` writes it.
    pub(super) fn latency_grid(&self, write: fn(&str) -> String) -> Grid {
        let mut grid = Grid::new().left("ms").at_least(LABEL - GAP);
        for head in COLUMNS {
            grid = grid.right(format!("{head} ")).at_least(CELL - GAP);
        }
        for (label, key) in self.shown_latencies() {
            let Some(values) = self.summary.distribution(key) else { continue };
            let mut cells = vec![label.to_owned()];
            cells.extend(self.latency_cells(key, values));
            grid.push(cells.iter().map(|cell| write(cell)));
        }
        grid
    }

    pub(super) fn shown_latencies(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        LATENCIES.into_iter().filter(|(_, key)| self.is_worth_showing(key))
    }

    /// A row that explains another is shown when its mean differs by more than a percent; one that
    /// should be near zero when its largest value reaches a millisecond.
    pub(super) fn is_worth_showing(&self, key: &str) -> bool {
        let found = self.summary.distribution(key).filter(|values| values.count > 0);
        let Some((values, metric)) = found.zip(define::metric(key)) else { return false };
        let per_item = (key == Quantity::E2ePerItem.key()).then_some(Quantity::E2e);
        match metric.repeats.or(per_item) {
            Some(other) => {
                let both = values.mean.zip(self.summary.mean(other));
                both.is_some_and(|(ours, other)| (ours / other - 1.0).abs() > 0.01)
            }
            None if matches!(metric.formula, Formula::Value(_)) => {
                values.max.is_some_and(|max| max >= 1.0)
            }
            None => true,
        }
    }

    /// Mean, percentiles and largest value. Each ends in the column of a mark, so that digits line up.
    pub(super) fn latency_cells(&self, key: &str, values: &Distribution) -> Vec<String> {
        let marked = |mut cell: String, statistic: Statistic| {
            if let Some(mark) = self.mark(&format!("{key}_{statistic}")) {
                let _ = cell.pop();
                cell.push(mark);
            }
            cell
        };
        if values.is_withheld {
            let mean = marked(self.plain(values.mean), Statistic::Mean);
            return vec![mean, "percentiles withheld".to_owned()];
        }
        let cell = |statistic: Statistic| {
            let cell = match statistic {
                Statistic::Percentile(one) => self.percentile(values, one.percent()),
                Statistic::Max => self.largest(values),
                _ => self.plain(values.mean),
            };
            marked(cell, statistic)
        };
        COLUMNS.map(cell).to_vec()
    }

    pub(super) fn plain(&self, value: Option<f64>) -> String {
        value.map_or_else(|| "-".to_owned(), |value| self.style.millis(value)) + " "
    }

    pub(super) fn largest(&self, values: &Distribution) -> String {
        if values.infinite > 0 { "failed ".to_owned() } else { self.plain(values.max) }
    }

    pub(super) fn percentile(&self, values: &Distribution, percent: f64) -> String {
        match values.percentile(percent) {
            None => "- ".to_owned(),
            Some(PercentileValue { value: None, above, .. }) => above.map_or_else(
                || "failed ".to_owned(),
                |above| format!("> {} ", self.style.millis(above)),
            ),
            Some(found @ PercentileValue { value: Some(value), .. }) => {
                let sure = if found.is_doubtful() { "?" } else { " " };
                self.style.millis(*value) + sure
            }
        }
    }
}
