//! One run, as input of a comparison: figures, their values in blocks of time, and facts.

use std::collections::BTreeMap;

use tokometer_base::Refusal;
use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::windows::Block;
use tokometer_figures::{Severity, Summary, Verdict};
use tokometer_record::RunInfo;

use super::answers::{GoodAnswers, GreedyAnswers, good_answers};

/// A run, a result file or a printed report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// As the user named it: a path, with the number of the report where a file has several.
    pub name: String,
    /// Absent figures have no entry; a percentile among failed requests is infinite.
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
    pub target: Option<String>,
    /// What identifies the server process that answered, such as its start time; `None` where the
    /// server does not report it.
    pub process: Option<String>,
    /// The tool whose definitions its figures follow.
    pub definitions: String,
    /// Why its plan cannot be compared with the others.
    pub unreadable_plan: Option<String>,
    pub dataset: Option<String>,
    pub tokenizer: Option<String>,
    /// Per successful request.
    pub prompt_tokens: Option<f64>,
    /// Per successful request.
    pub output_tokens: Option<f64>,
    /// Program version that wrote the record.
    pub version: Option<String>,
    pub succeeded: u64,
    pub failed: u64,
    /// Good answers by kind; none judged where they are unknown.
    pub good_answers: [GoodAnswers; 4],
    /// From its own notes.
    pub verdict: Option<Verdict>,
    /// The worst note of an INVALID run.
    pub disturbance: Option<String>,
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
    ) -> Result<Self, Refusal> {
        if summary.counts.succeeded == 0 {
            return Err(without_success(name));
        }
        let value = |figure: &Figure| {
            let key = figure.quantity.key();
            let spread = || summary.distribution(key).filter(|spread| !spread.is_withheld);
            match figure.statistic {
                Statistic::Whole => summary.figure(key),
                Statistic::Mean => summary.mean(key),
                Statistic::Percentile(percent) => {
                    let found = spread()?.percentile(percent.percent())?;
                    // It lies among the failed requests.
                    let is_infinite = found.above.is_some().then_some(f64::INFINITY);
                    found.value.or(is_infinite)
                }
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
            prompt_tokens: summary.mean("prompt_tokens"),
            output_tokens: summary.mean("output_tokens"),
            version: Some(info.version.clone()),
            succeeded: summary.counts.succeeded,
            failed: summary.counts.failed,
            good_answers: good_answers(summary),
            verdict: Some(summary.verdict),
            disturbance: summary
                .notes
                .iter()
                .find(|note| note.severity == Severity::Invalid)
                .map(|note| note.found.clone()),
            is_partial: summary.ended.is_partial(),
            is_simulated: target.is_some_and(|target| target.is_simulated),
        }
    }
}

/// A tokenizer's name. The server's own is named by its address, which is not a difference.
fn tokenizer(name: &str) -> String {
    if name.starts_with("http") { "the server's own".to_owned() } else { name.to_owned() }
}

/// The refusal for a run without a successful request.
pub fn without_success(name: &str) -> Refusal {
    let message = format!("cannot compare `{name}`: none of its requests succeeded");
    Refusal::usage(message, "`tokometer report` shows why its requests failed")
}

/// Mean times in flight that a block must last. Streams of equal lengths end in waves: shorter blocks
/// hold one wave each, show no scatter, and miss the rate by a wave.
const LEAST_STAYS: f64 = 2.0;
/// The record counts tokens by the second.
const TOKENS_COUNTED_S: f64 = 1.0;

/// Throughputs in blocks of time, without the first and the last one, which hold the ramp and the
/// tail. A run whose blocks are too short has none.
pub fn throughput_blocks(summary: &Summary) -> BTreeMap<Figure, Vec<f64>> {
    let inner = summary.blocks.get(1..summary.blocks.len().saturating_sub(1)).unwrap_or_default();
    let stay_s = summary.mean(Quantity::E2e).map(|mean| mean / 1e3);
    let block_s = summary.duration_s.map(|seconds| seconds / summary.blocks.len() as f64);
    let (Some(stay_s), Some(block_s)) = (stay_s, block_s) else { return BTreeMap::new() };
    if inner.len() < 2 || block_s < LEAST_STAYS * stay_s {
        return BTreeMap::new();
    }
    let of = |quantity: Quantity, rate: fn(&Block) -> f64| {
        (Figure::whole(quantity), inner.iter().map(rate).collect::<Vec<f64>>())
    };
    let requests = of(Quantity::Requests, |block| block.requests_per_s);
    let output = of(Quantity::Output, |block| block.output_tokens_per_s);
    [requests].into_iter().chain((block_s >= TOKENS_COUNTED_S).then_some(output)).collect()
}

#[cfg(test)]
mod tests {
    use tokometer_figures::Distribution;

    use super::*;

    /// Two runs of 3 s in a closed loop had the same number of completions in every block, and differed by
    /// "-5.0 % to -5.0 %" where the truth was -9 %; one of 0.2 s was shown with a sixth of its tokens
    /// per second.
    #[test]
    fn blocks_too_short_to_show_a_rate_are_not_compared() {
        let found = |duration_s: f64, stay_ms: f64| -> Vec<String> {
            let e2e = Distribution { mean: Some(stay_ms), ..Distribution::default() };
            let summary = Summary {
                duration_s: Some(duration_s),
                blocks: vec![Block { requests_per_s: 44.0, ..Block::default() }; 16],
                distributions: [("e2e_ms".to_owned(), e2e)].into(),
                ..Summary::default()
            };
            let blocks = throughput_blocks(&summary);
            assert!(blocks.values().all(|values| values.len() == 14), "{blocks:?}");
            blocks.keys().map(|figure| figure.key()).collect()
        };
        assert_eq!(found(2.8, 177.0), Vec::<String>::new());
        assert_eq!(found(8.0, 177.0), ["requests_per_s"]);
        assert_eq!(found(16.0, 177.0), ["requests_per_s", "output_tokens_per_s"]);
        assert_eq!(found(16.0, 600.0), Vec::<String>::new());
    }
}
