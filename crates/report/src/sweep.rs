//! The runs of one measurement as one table, in the words of the field.
//!
//! The varied fields are read from the runs' own plans, so `report` shows the table that `bench` showed.

use serde_json::Value;
use tokometer_decide::staircase::{StairStep, knee};
use tokometer_figures::Summary;
use tokometer_plan::{PlanField, varied_fields};

use crate::Style;
use crate::saved::SummarisedRun;
use crate::sweep_table::{SweepRow, sweep_table};

/// What the table needs of a run.
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

/// The table of a staircase, whose only step has its concurrency too.
pub(crate) fn stairs_text(entries: &[SweepEntry], style: Style) -> String {
    let mut fields = varied(entries);
    if fields.is_empty() {
        fields.push(PlanField::MAX_CONCURRENCY);
    }
    table(entries, &fields, style)
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
