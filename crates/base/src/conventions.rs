//! Which tool's conventions a measurement follows.

use serde::{Deserialize, Serialize};

/// The tool whose conventions to follow where the known benchmark clients differ: in prompts,
/// arrivals, bodies, ports and defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conventions {
    /// `vllm bench serve` and its ancestors.
    #[default]
    Vllm,
    /// SGLang's `bench_serving`.
    Sglang,
}

impl Conventions {
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}
