//! Several runs of one measurement as a table for people: load, throughput and latencies, one row each.
//!
//! It fits 80 columns for a sweep over one field. Latencies are in milliseconds; a percentile that the
//! sample cannot support has a `?`, and one among failed requests is a lower bound.

use tokometer_metrics::figure::{Figure, Quantity, Statistic};
use tokometer_metrics::{Distribution, Summary, Verdict};

use crate::grid::Grid;
use crate::style::{Style, Tone};
use crate::summary::whole;

/// One run of a sweep.
#[derive(Debug)]
pub struct SweepRow<'a> {
    /// The run's value of each varied field, or its name.
    pub coordinates: Vec<String>,
    /// `None` where the figures were computed: nothing was measured that could be judged.
    pub verdict: Option<Verdict>,
    /// What was measured.
    pub summary: &'a Summary,
    /// A word at the end of the row, such as `knee`.
    pub remark: &'static str,
}

/// Latencies of a row: head, quantity and statistic.
const LATENCIES: [(&str, Quantity, Statistic); 5] = [
    ("TTFT p50", Quantity::Ttft, Statistic::MEDIAN),
    ("p99", Quantity::Ttft, Statistic::P99),
    ("TPOT", Quantity::Tpot, Statistic::MEDIAN),
    ("E2E p50", Quantity::E2e, Statistic::MEDIAN),
    ("p99", Quantity::E2e, Statistic::P99),
];

/// What the columns and marks mean.
const LEGEND: &str = "tok/s: output tokens; per user: p50 of one request; latencies in ms; TPOT: p50\n\
     ✓ VALID, ~ SUSPECT, ! INVALID; ? too few requests for this percentile";

/// The table with its legend. `heads` are the words for the varied fields.
pub fn sweep_table(heads: &[String], rows: &[SweepRow<'_>], style: Style) -> String {
    let has_failures = rows.iter().any(|row| row.summary.counts.failed > 0);
    let mut grid = heads.iter().fold(Grid::new(), |grid, head| grid.right(head.as_str()));
    grid = ["req/s", "tok/s", "per user"].into_iter().fold(grid, Grid::right);
    grid = LATENCIES.iter().fold(grid, |grid, (head, ..)| grid.right(*head));
    if has_failures {
        grid = grid.right("failed");
    }
    grid = grid.left("");
    for row in rows {
        let summary = row.summary;
        let mut cells = row.coordinates.clone();
        cells.push(number(summary.figure(Quantity::Requests.key())));
        cells.push(number(summary.figure(Quantity::Output.key())));
        cells.push(percentile(summary, Quantity::UserSpeed, Statistic::MEDIAN));
        let latency = |(_, quantity, statistic): &(&str, Quantity, Statistic)| {
            percentile(summary, *quantity, *statistic)
        };
        cells.extend(LATENCIES.iter().map(latency));
        if has_failures {
            cells.push(summary.counts.failed.to_string());
        }
        let (mark, tone) = mark(row.verdict);
        cells.push(format!("{} {}", style.paint(tone, mark), row.remark).trim_end().to_owned());
        grid.push(cells);
    }
    format!("{}{}\n", grid.text(), style.paint(Tone::Faint, LEGEND))
}

fn mark(verdict: Option<Verdict>) -> (&'static str, Tone) {
    match verdict {
        Some(Verdict::Valid) => ("✓", Tone::Good),
        Some(Verdict::Suspect) => ("~", Tone::Doubtful),
        Some(Verdict::Invalid) => ("!", Tone::Bad),
        None => ("–", Tone::Faint),
    }
}

const ABSENT: &str = "–";

/// At most four digits, and all of a larger number.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), short)
}

/// Three digits: a row has room for no more.
fn short(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => whole(value),
    }
}

fn percentile(summary: &Summary, quantity: Quantity, statistic: Statistic) -> String {
    let figure = Figure::new(quantity, statistic);
    let distribution = summary.distribution(quantity.key());
    let shown = |found: &Distribution| {
        let entry = found.percentile(figure.statistic.percentile()?.percent())?;
        let doubt = if entry.is_supported { "" } else { "?" };
        match (entry.value, entry.above) {
            (Some(value), _) => Some(format!("{}{doubt}", short(value))),
            (None, Some(above)) => Some(format!(">{}", short(above))),
            (None, None) => None,
        }
    };
    let known = distribution.filter(|found| !found.is_withheld);
    known.and_then(shown).unwrap_or_else(|| ABSENT.to_owned())
}

#[cfg(test)]
mod tests {
    use tokometer_metrics::ConfidenceInterval;
    use tokometer_metrics::summary::PercentileValue;

    use super::*;

    fn distribution(p50: f64, p99: Option<f64>) -> Distribution {
        let entry = |percent: f64, value: Option<f64>, is_supported| PercentileValue {
            percent,
            value,
            above: Some(9_999.0),
            interval: ConfidenceInterval::default(),
            is_supported,
        };
        let percentiles = vec![entry(50.0, Some(p50), true), entry(99.0, p99, p50 > 20.0)];
        Distribution { count: 9, percentiles, ..Distribution::default() }
    }

    fn summary(flights: f64, verdict: Verdict, failed: u64) -> Summary {
        let mut summary = Summary { verdict, ..Summary::default() };
        summary.counts.failed = failed;
        summary.figures = [
            ("requests_per_s".to_owned(), Some(flights * 1.5)),
            ("output_tokens_per_s".to_owned(), Some(flights * 191.8)),
        ]
        .into();
        let p99 = Some(flights * 33.3).filter(|_| failed == 0);
        summary.distributions = [
            ("tokens_per_s_per_user", distribution(81.2, None)),
            ("ttft_ms", distribution(flights * 12.3, p99)),
            ("tpot_ms", distribution(12.34, None)),
            ("e2e_ms", distribution(flights * 1_571.0, p99.map(|millis| millis * 100.0))),
        ]
        .map(|(key, found)| (key.to_owned(), found))
        .into();
        summary
    }

    #[test]
    fn a_sweep_over_one_field_fits_a_terminal() {
        let runs = [
            (1.0, summary(1.0, Verdict::Suspect, 0), ""),
            (32.0, summary(32.0, Verdict::Valid, 0), "knee"),
            (1024.0, summary(1024.0, Verdict::Invalid, 7), ""),
        ];
        let rows: Vec<SweepRow<'_>> = runs
            .iter()
            .map(|(load, summary, remark)| SweepRow {
                coordinates: vec![load.to_string()],
                verdict: Some(summary.verdict),
                summary,
                remark,
            })
            .collect();
        let text = sweep_table(&["concurrency".to_owned()], &rows[..2], Style::default());
        insta::assert_snapshot!(text);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let failing = sweep_table(&["concurrency".to_owned()], &rows, Style::default());
        let last = failing.lines().nth(3).unwrap();
        let end: Vec<&str> = last.split_whitespace().rev().take(3).collect();
        assert_eq!(end, ["!", "7", ">9,999"], "{last}");
    }

    #[test]
    fn a_run_without_figures_has_dashes() {
        let empty = Summary::default();
        let coordinates = vec!["a".to_owned()];
        let row = SweepRow { coordinates, verdict: None, summary: &empty, remark: "" };
        let text = sweep_table(&["run".to_owned()], &[row], Style::default());
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["a", "–", "–", "–", "–", "–", "–", "–", "–", "–"]);
    }
}
