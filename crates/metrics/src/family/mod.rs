//! Other tools' definitions.

use serde::{Deserialize, Serialize};

/// A family of tools that share their definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// vLLM's Python client from 2025 on.
    Vllm,
    /// vLLM's `benchmark_serving.py` of 2024, and its fork for TGI.
    OldVllm,
    /// vLLM's Rust client.
    VllmRust,
    /// SGLang's `bench_serving`.
    Sglang,
}
