//! Where results go.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where results go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Whether a run folder is kept.
    pub record: Record,
    /// Folder of the run; absent: one below `runs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_dir: Option<PathBuf>,
    /// What stdout gets.
    pub shown: Shown,
    /// Port of loopback that tells the run's counters; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus_port: Option<u16>,
    /// vLLM's result file; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vllm_result: Option<VllmResult>,
    /// SGLang's result file; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sglang_result: Option<SglangResult>,
}

/// Whether a run folder is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// It is.
    Kept,
    /// It is removed once the report is made.
    Dropped,
}

/// What stdout gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// The classic block and our summary.
    Text,
    /// The summary as JSON.
    Json,
    /// Nothing.
    Nothing,
}

/// vLLM's result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VllmResult {
    /// Its folder; absent: the working folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Its name; absent: made of label, load, model and time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Beginning of a made name; absent: the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Facts to add.
    #[serde(default)]
    pub metadata: Vec<(String, String)>,
    /// Whether every request's figures are in it.
    #[serde(default)]
    pub is_detailed: bool,
    /// Whether an existing file is added to.
    #[serde(default)]
    pub is_appended: bool,
}

/// SGLang's result file, which is always added to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SglangResult {
    /// The file; absent: made of backend, date and workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Tag of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether every request's figures are in it.
    #[serde(default)]
    pub is_detailed: bool,
}
