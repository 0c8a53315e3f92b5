//! One run, as input of a comparison: figures, their values in blocks of time, and facts.

use std::collections::BTreeMap;

use tokometer_metrics::figure::{Figure, Quantity, Statistic};
use tokometer_metrics::{Summary, Verdict};
use tokometer_record::RunInfo;

use super::answers::{GoodAnswers, GreedyAnswers, good_answers};
use crate::Error;

/// A run, a result file or a printed report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// As the user named it: a path, with the number of the report where a file has several.
    pub name: String,
    /// Absent figures have no entry.
    pub values: BTreeMap<Figure, f64>,
    /// The same in blocks of time; empty where only the figures are known.
    pub blocks: BTreeMap<Figure, Vec<f64>>,
    /// Greedy answers; empty where answers are sampled, and of printed reports.
    pub answers: GreedyAnswers,
    /// For the check of similar conditions.
    pub facts: Facts,
}

/// Conditions of a run. What is unknown is `None` and is not compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// URL of the target.
    pub target: Option<String>,
    /// What identifies the server process that answered, such as its start time; `None` where the
    /// server does not report it.
    pub process: Option<String>,
    /// The tool whose definitions its figures follow.
    pub definitions: String,
    /// Why its plan cannot be compared with the others.
    pub unreadable_plan: Option<String>,
    /// Dataset as opened.
    pub dataset: Option<String>,
    /// Name of the tokenizer.
    pub tokenizer: Option<String>,
    /// Per successful request.
    pub prompt_tokens: Option<f64>,
    /// Per successful request.
    pub output_tokens: Option<f64>,
    /// Program version that wrote the record.
    pub version: Option<String>,
    /// Successful requests.
    pub succeeded: u64,
    /// Failed requests.
    pub failed: u64,
    /// Good answers by kind; none judged where they are unknown.
    pub good_answers: [GoodAnswers; 4],
    /// From its own notes.
    pub verdict: Option<Verdict>,
    /// Whether less was measured than planned.
    pub is_partial: bool,
    /// Whether the target was the embedded simulator, or a prediction.
    pub is_simulated: bool,
}

/// Whose definitions the figures of a summary follow.
const OWN_DEFINITIONS: &str = "tokometer's own";

impl Run {
    /// From a summary. An error for a run without a success, which has nothing to compare.
    pub fn of_summary(
        name: &str,
        info: &RunInfo,
        summary: &Summary,
        figures: &[Figure],
    ) -> Result<Self, Error> {
        if summary.counts.succeeded == 0 {
            return Err(Error::NoSuccess { name: name.to_owned() });
        }
        let value = |figure: &Figure| {
            let key = figure.quantity.key();
            let spread = || summary.distribution(key).filter(|spread| !spread.is_withheld);
            match figure.statistic {
                Statistic::Whole => summary.figure(key),
                Statistic::Mean => summary.distribution(key)?.mean,
                Statistic::Percentile(percent) => spread()?.percentile(percent.percent())?.value,
                Statistic::Std | Statistic::Min | Statistic::Max => None,
            }
        };
        let values = figures.iter().filter_map(|figure| Some((*figure, value(figure)?))).collect();
        let facts = Facts::of_summary(info, summary);
        let (blocks, answers) = (BTreeMap::new(), GreedyAnswers::default());
        Ok(Self { name: name.to_owned(), values, blocks, answers, facts })
    }
}

impl Facts {
    fn of_summary(info: &RunInfo, summary: &Summary) -> Self {
        let mean = |key: &str| summary.distribution(key).and_then(|spread| spread.mean);
        let target = info.targets.first();
        Self {
            target: target.map(|target| {
                let simulated = if target.is_simulated { " (embedded simulator)" } else { "" };
                format!("{} {}{simulated}", target.base_url, target.model)
            }),
            process: None,
            definitions: OWN_DEFINITIONS.to_owned(),
            unreadable_plan: None,
            dataset: Some(info.dataset.clone()),
            tokenizer: info.tokenizer.as_deref().map(tokenizer),
            prompt_tokens: mean("prompt_tokens"),
            output_tokens: mean("output_tokens"),
            version: Some(info.version.clone()),
            succeeded: summary.counts.succeeded,
            failed: summary.counts.failed,
            good_answers: good_answers(summary),
            verdict: Some(summary.verdict),
            is_partial: summary.ended.is_partial(),
            is_simulated: target.is_some_and(|target| target.is_simulated),
        }
    }
}

/// A tokenizer's name. The server's own is named by its address, which is not a difference.
fn tokenizer(name: &str) -> String {
    if name.starts_with("http") { "the server's own".to_owned() } else { name.to_owned() }
}

/// Throughputs in blocks of time, without the first and the last one, which hold the ramp and the
/// tail.
pub fn throughput_blocks(summary: &Summary) -> BTreeMap<Figure, Vec<f64>> {
    let inner = summary.blocks.get(1..summary.blocks.len().saturating_sub(1)).unwrap_or_default();
    if inner.len() < 2 {
        return BTreeMap::new();
    }
    BTreeMap::from([
        (
            Figure::whole(Quantity::Requests),
            inner.iter().map(|block| block.requests_per_s).collect(),
        ),
        (
            Figure::whole(Quantity::Output),
            inner.iter().map(|block| block.output_tokens_per_s).collect(),
        ),
    ])
}
