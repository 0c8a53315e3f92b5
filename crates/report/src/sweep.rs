//! The runs of one measurement as one table, in the words of the field.
//!
//! The varied fields are read from the runs' own plans, so `report` shows the table that `bench` showed.
//! It fits 80 columns for a sweep over one field. Latencies are in milliseconds; a percentile that the
//! sample cannot support has a `?`, and one among failed requests is a lower bound.

use serde_json::Value;
use tokometer_decide::staircase::{StairStep, knee};
use tokometer_figures::figure::{Quantity, Statistic};
use tokometer_figures::{Distribution, Summary, Verdict};
use tokometer_plan::{PlanField, varied_fields};

use crate::grid::Grid;
use crate::saved::SummarisedRun;
use crate::style::{Style, Tone};
use crate::summary::short;

#[derive(Debug)]
pub struct SweepEntry {
    name: String,
    plan: Value,
    is_prediction: bool,
    summary: Summary,
}

impl SweepEntry {
    /// A run by its name, without what takes memory: a sweep may have thousands of points.
    pub fn new(name: String, shown: &SummarisedRun) -> Self {
        let summary = &shown.summary;
        let summary = Summary {
            counts: summary.counts,
            verdict: summary.verdict,
            figures: summary.figures.clone(),
            distributions: summary.distributions.clone(),
            ..Summary::default()
        };
        let is_prediction = shown.info.is_prediction();
        Self { name, plan: shown.info.plan.clone(), is_prediction, summary }
    }

    /// The step of a staircase that a run is; `None` for a run with a request rate.
    fn step(&self) -> Option<StairStep> {
        let flights = PlanField::MAX_CONCURRENCY.stored_text(&self.plan)?.parse().ok()?;
        let rate = PlanField::REQUEST_RATE.stored_text(&self.plan);
        let is_closed = rate.is_none_or(|rate| rate == "inf");
        is_closed.then(|| StairStep::new(flights, &self.summary))
    }
}

/// The table. A sweep over rising concurrency alone has its knee marked.
pub fn sweep_text(entries: &[SweepEntry], style: Style) -> String {
    table(entries, &varied(entries), style)
}

fn varied(entries: &[SweepEntry]) -> Vec<PlanField> {
    let plans: Vec<&Value> = entries.iter().map(|entry| &entry.plan).collect();
    varied_fields(&plans)
}

fn table(entries: &[SweepEntry], fields: &[PlanField], style: Style) -> String {
    let heads: Vec<String> = match fields {
        [] => vec!["run".to_owned()],
        fields => fields.iter().map(|field| head(*field)).collect(),
    };
    let knee = if fields == [PlanField::MAX_CONCURRENCY] { knee_of(entries) } else { None };
    let rows: Vec<SweepRow<'_>> = entries
        .iter()
        .enumerate()
        .map(|(at, entry)| SweepRow {
            coordinates: coordinates(entry, fields),
            verdict: Some(entry.summary.verdict).filter(|_| !entry.is_prediction),
            summary: &entry.summary,
            remark: if knee == Some(at) { "knee" } else { "" },
        })
        .collect();
    let is_predicted = entries.iter().any(|entry| entry.is_prediction);
    let head = if is_predicted { "PREDICTED, not measured\n" } else { "" };
    format!("{head}{}", sweep_table(&heads, &rows, style))
}

fn coordinates(entry: &SweepEntry, fields: &[PlanField]) -> Vec<String> {
    if fields.is_empty() {
        return vec![entry.name.clone()];
    }
    let value = |field: &PlanField| field.stored_text(&entry.plan);
    fields.iter().map(|field| value(field).unwrap_or_else(|| "–".to_owned())).collect()
}

fn knee_of(entries: &[SweepEntry]) -> Option<usize> {
    let steps: Vec<StairStep> = entries.iter().map(SweepEntry::step).collect::<Option<_>>()?;
    let is_rising = steps.windows(2).all(|pair| pair[0].concurrency < pair[1].concurrency);
    if is_rising { knee(&steps) } else { None }
}

/// The field's word for a varied field.
fn head(field: PlanField) -> String {
    match field {
        PlanField::MAX_CONCURRENCY => "concurrency".to_owned(),
        PlanField::REQUEST_RATE => "request rate".to_owned(),
        PlanField::NUM_PROMPTS => "requests".to_owned(),
        PlanField::INPUT_LEN => "input".to_owned(),
        PlanField::OUTPUT_LEN => "output".to_owned(),
        other => other.name().rsplit('.').next().unwrap_or_default().replace('_', " "),
    }
}

#[derive(Debug)]
struct SweepRow<'a> {
    /// The run's value of each varied field, or its name.
    coordinates: Vec<String>,
    /// `None` where the figures were computed: nothing was measured that could be judged.
    verdict: Option<Verdict>,
    summary: &'a Summary,
    /// A word at the end of the row, such as `knee`.
    remark: &'static str,
}

pub(crate) struct FigureColumn {
    pub(crate) head: &'static str,
    quantity: Quantity,
    /// `None` for a figure of the whole run.
    pub(crate) statistic: Option<Statistic>,
    /// What the legend says of it.
    meaning: &'static str,
}

pub(crate) const fn whole_run(
    head: &'static str,
    quantity: Quantity,
    meaning: &'static str,
) -> FigureColumn {
    FigureColumn { head, quantity, statistic: None, meaning }
}

pub(crate) const fn latency(
    head: &'static str,
    quantity: Quantity,
    statistic: Statistic,
) -> FigureColumn {
    FigureColumn { head, quantity, statistic: Some(statistic), meaning: "" }
}

/// The columns of a run that generates text.
const GENERATED: [FigureColumn; 8] = [
    whole_run("req/s", Quantity::Requests, ""),
    whole_run("tok/s", Quantity::Output, "tok/s: output tokens"),
    FigureColumn {
        head: "per user",
        quantity: Quantity::UserSpeed,
        statistic: Some(Statistic::MEDIAN),
        meaning: "per user: p50 of one request",
    },
    FigureColumn {
        meaning: "latencies in ms",
        ..latency("TTFT p50", Quantity::Ttft, Statistic::MEDIAN)
    },
    latency("p99", Quantity::Ttft, Statistic::P99),
    FigureColumn { meaning: "TPOT: p50", ..latency("TPOT", Quantity::Tpot, Statistic::MEDIAN) },
    latency("E2E p50", Quantity::E2e, Statistic::MEDIAN),
    latency("p99", Quantity::E2e, Statistic::P99),
];

/// Those of a run whose answers are vectors, scores or classes.
const POOLED: [FigureColumn; 6] = [
    whole_run("req/s", Quantity::Requests, ""),
    whole_run("items/s", Quantity::Items, "items/s: inputs or documents"),
    whole_run("tok/s", Quantity::Prompt, "tok/s: prompt tokens"),
    FigureColumn {
        meaning: "latencies in ms",
        ..latency("E2E p50", Quantity::E2e, Statistic::MEDIAN)
    },
    latency("p90", Quantity::E2e, Statistic::P90),
    latency("p99", Quantity::E2e, Statistic::P99),
];

const MARKS: &str = "✓ VALID, ~ SUSPECT, ! INVALID; ? too few requests for this percentile";

/// The table with its legend. `heads` are the words for the varied fields.
fn sweep_table(heads: &[String], rows: &[SweepRow<'_>], style: Style) -> String {
    let has_failures = rows.iter().any(|row| row.summary.counts.failed > 0);
    let columns = columns(rows);
    let mut grid = heads.iter().fold(Grid::new(), |grid, head| grid.right(head.as_str()));
    grid = columns.iter().fold(grid, |grid, column| grid.right(column.head));
    if has_failures {
        grid = grid.right("failed");
    }
    grid = grid.left("");
    for row in rows {
        let summary = row.summary;
        let mut cells = row.coordinates.clone();
        cells.extend(columns.iter().map(|column| column.cell(summary)));
        if has_failures {
            cells.push(summary.counts.failed.to_string());
        }
        let (mark, tone) = mark(row.verdict);
        cells.push(format!("{} {}", style.paint(tone, mark), row.remark).trim_end().to_owned());
        grid.push(cells);
    }
    let meanings: Vec<&str> =
        columns.iter().map(|column| column.meaning).filter(|text| !text.is_empty()).collect();
    let legend = format!("{}\n{MARKS}", meanings.join("; "));
    format!("{}{}\n", grid.text(), style.paint(Tone::Faint, &legend))
}

/// The columns that the runs have figures for: where answers come in one piece, none has a first token.
/// Runs without any latency keep all columns.
fn columns(rows: &[SweepRow<'_>]) -> Vec<&'static FigureColumn> {
    let summaries: Vec<&Summary> = rows.iter().map(|row| row.summary).collect();
    let all: &[FigureColumn] = if is_pooled(&summaries) { &POOLED } else { &GENERATED };
    let is_known =
        |column: &FigureColumn| rows.iter().any(|row| column.cell(row.summary) != ABSENT);
    let e2e = &latency("", Quantity::E2e, Statistic::MEDIAN);
    let is_answered = is_known(e2e);
    all.iter().filter(|column| !is_answered || is_known(column)).collect()
}

/// Whether answers are vectors, scores or classes.
pub(crate) fn is_pooled(summaries: &[&Summary]) -> bool {
    summaries.iter().any(|summary| summary.figure(Quantity::Items).is_some())
}

impl FigureColumn {
    pub(crate) fn is_supported(&self, summary: &Summary) -> bool {
        let percent = self
            .statistic
            .and_then(Statistic::percentile)
            .map(tokometer_compat::Percentile::percent);
        let found = summary.distribution(self.quantity).filter(|found| !found.is_withheld);
        let entry = found.zip(percent).and_then(|(found, percent)| found.percentile(percent));
        entry.is_some_and(|entry| entry.is_supported && entry.value.is_some())
    }

    pub(crate) fn cell(&self, summary: &Summary) -> String {
        match self.statistic {
            None => summary.figure(self.quantity).map_or_else(|| ABSENT.to_owned(), short),
            Some(statistic) => percentile(summary, self.quantity, statistic),
        }
    }
}

pub(crate) fn mark(verdict: Option<Verdict>) -> (&'static str, Tone) {
    match verdict {
        Some(Verdict::Valid) => ("✓", Tone::Good),
        Some(Verdict::Suspect) => ("~", Tone::Doubtful),
        Some(Verdict::Invalid) => ("!", Tone::Bad),
        None => ("–", Tone::Faint),
    }
}

pub(crate) const ABSENT: &str = "–";

fn percentile(summary: &Summary, quantity: Quantity, statistic: Statistic) -> String {
    let distribution = summary.distribution(quantity);
    let shown = |found: &Distribution| {
        let entry = found.percentile(statistic.percentile()?.percent())?;
        let doubt = if entry.is_doubtful() { "?" } else { "" };
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
    use tokometer_figures::ConfidenceInterval;
    use tokometer_figures::summary::PercentileValue;

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
    fn runs_without_a_stream_have_no_columns_for_one() {
        let mut pooled = Summary::default();
        let figures =
            [("requests_per_s", 9.0), ("items_per_s", 36.0), ("prompt_tokens_per_s", 900.0)];
        pooled.figures = figures.map(|(key, value)| (key.to_owned(), Some(value))).into();
        pooled.distributions = [("e2e_ms".to_owned(), distribution(31.0, Some(45.0)))].into();
        let mut whole = summary(1.0, Verdict::Valid, 0);
        let _streamed = ["ttft_ms", "tpot_ms"].map(|key| whole.distributions.remove(key));
        let head = |summary: &Summary| {
            let row =
                SweepRow { coordinates: vec!["1".to_owned()], verdict: None, summary, remark: "" };
            let text = sweep_table(&["concurrency".to_owned()], &[row], Style::default());
            assert!(!text.contains("TTFT") && !text.contains("TPOT"), "{text}");
            text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(head(&pooled), "concurrency req/s items/s tok/s E2E p50 p99");
        assert_eq!(head(&whole), "concurrency req/s tok/s per user E2E p50 p99");
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
