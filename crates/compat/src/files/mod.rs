//! Result files in other tools' schemas, written and read back.
//!
//! Out: vLLM's JSON ([`vllm`]), a line of SGLang's JSONL ([`sglang`]), the files of the InferenceX kit
//! ([`inferencex`]) or llm-d's benchmark report ([`llm_d`]), always valid JSON, as text for the caller to
//! write. In: the text of any such file, which may hold several objects
//! ([`read`](mod@read)).

pub mod inferencex;
pub mod llm_d;
pub mod object;
pub mod read;
pub mod sglang;
mod statistics;
pub mod vllm;
mod written;

#[cfg(test)]
mod tests;

pub use inferencex::{UnixWindow, inferencex_aggregate, inferencex_json};
pub use llm_d::{LlmdContext, llm_d_json, llm_d_percentiles};
pub use read::{INPUT_SEQUENCES, read};
pub use sglang::{sglang_file_name, sglang_line};
pub use vllm::{APPEND_SEPARATOR, vllm_file_name, vllm_json};

use tokometer_figures::Summary;
use tokometer_record::RunInfo;

use crate::from_summary::Selection;
use crate::model::Metric;

/// What a result file says besides the figures.
#[derive(Debug, Clone, Copy)]
pub struct ResultFile<'a> {
    /// The figures; its families must hold the one of the file's tool.
    pub summary: &'a Summary,
    pub info: &'a RunInfo,
    /// `--label` or `--tag`.
    pub label: Option<&'a str>,
    /// `--metadata KEY=VALUE`.
    pub metadata: &'a [(String, String)],
    pub shown: &'a Selection,
    /// Options of the workload under the tool's own names, such as `random_input_len`.
    pub workload: &'a [(String, serde_json::Value)],
    pub extent: Extent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// Figures of the run.
    #[default]
    Run,
    /// And values of each request.
    Requests,
}

/// SGLang's word for E2E, its only one that is not vLLM's.
const SGLANG_E2E: &str = "e2e_latency";

/// The name of a metric in the keys of result files; `None` for one that stands in no file.
fn metric_key(metric: Metric) -> Option<&'static str> {
    metric.quantity()?.section()
}

/// What makes a figure of the simulator recognisable as one, and the verdict with its notes. Other
/// tools' readers pass over a key that they do not know.
fn provenance(summary: &Summary, info: &RunInfo) -> serde_json::Value {
    let is_simulated = info.targets.iter().any(|target| target.is_simulated);
    let is_predicted = info.targets.iter().any(|target| target.predicted_engine().is_some());
    let target = match (is_predicted, is_simulated) {
        (true, _) => "prediction",
        (false, true) => "embedded simulator",
        (false, false) => "server",
    };
    serde_json::json!({
        "version": info.version,
        "run": info.name,
        "target": target,
        "verdict": summary.verdict,
        "notes": summary.notes,
    })
}
