//! Where results go.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::secret::Metadata;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Output / PartialOutput {
        pub record: Record,
        /// Folder of the run; absent: one below `runs/`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub run_dir: Option<PathBuf> = None,
        pub shown: Shown,
        /// Whether the first request and its answer are shown, byte for byte and without keys.
        #[serde(skip_serializing_if = "FirstExchange::is_hidden")]
        pub first_exchange: FirstExchange = FirstExchange::Hidden,
        /// Loopback port that serves the run's counters in Prometheus format; `None` serves none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prometheus_port: Option<u16> = None,
        /// vLLM's result file; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub vllm_result: Option<VllmResult> as Option<PartialVllmResult>,
        /// SGLang's result file; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sglang_result: Option<SglangResult> as Option<PartialSglangResult>,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    Kept,
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// The classic block and our summary.
    Text,
    Json,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstExchange {
    Hidden,
    Shown,
}

impl FirstExchange {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_hidden(&self) -> bool {
        *self == Self::Hidden
    }
}

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct VllmResult / PartialVllmResult {
        /// Its folder; absent: the working folder.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dir: Option<PathBuf> = None,
        /// Its name; absent: made of label, load, model and time.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub filename: Option<String> = None,
        /// Beginning of a made name; absent: the backend.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub label: Option<String> = None,
        pub metadata: Metadata = Metadata::default(),
        pub is_detailed: bool = false,
        pub is_appended: bool = false,
    }
}

tokometer_base::partial! {
    /// SGLang's result file, which is always added to.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct SglangResult / PartialSglangResult {
        /// The file; absent: made of backend, date and workload.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub file: Option<PathBuf> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tag: Option<String> = None,
        pub is_detailed: bool = false,
    }
}
