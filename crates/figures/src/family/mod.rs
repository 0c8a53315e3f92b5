//! Other tools' definitions, each applied to the same timelines.
//!
//! A lens returns what one tool would have recorded for one request: start, first token, gaps,
//! latency, token counts and success. Sums and statistics over requests are the same for all tools
//! and are in [`aggregate`]. A new family is one file with a `see` function and one match arm here.

pub mod aggregate;
mod buckets;
mod lens;
mod old_vllm;
mod pooling;
mod rust_steady;
mod sglang;
mod vllm;
mod vllm_rust;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use tokometer_base::Backend;
use tokometer_base::backend::Protocol;
use tokometer_record::{TargetInfo, Timeline};

pub use aggregate::FamilyCollector;
pub use lens::{RepeatedGap, ToolView};

/// Tools that share their definitions.
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

/// The kind of route, as far as definitions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Plain completions, and routes that are read in the same way.
    Completions,
    /// Chat completions.
    Chat,
    /// The Responses API.
    Responses,
    /// SGLang's `/generate`, whose events repeat the text and count its tokens.
    Native,
    /// Routes that answer with vectors, scores or classes.
    Pooling,
}

impl Route {
    /// The route of a target's requests.
    pub fn of(target: &TargetInfo) -> Self {
        if target.backend().is_some_and(Backend::is_pooling) {
            return Self::Pooling;
        }
        let is_responses = |backend: &Backend| backend.protocol() == Protocol::Responses;
        if target.backend().is_some_and(is_responses) {
            return Self::Responses;
        }
        let path = target.endpoint.split('?').next().unwrap_or_default().trim_end_matches('/');
        if path.ends_with("/chat/completions") || target.backend().is_some_and(Backend::is_chat) {
            Self::Chat
        } else if path.ends_with("/generate") {
            Self::Native
        } else {
            Self::Completions
        }
    }
}

impl Family {
    /// All families.
    pub const ALL: [Self; 4] = [Self::Vllm, Self::OldVllm, Self::VllmRust, Self::Sglang];

    /// The tool whose definitions they are.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::OldVllm => "benchmark_serving.py",
            Self::VllmRust => "vLLM's Rust client",
            Self::Sglang => "SGLang",
        }
    }

    /// What this family's tool would have recorded for a request.
    pub fn see(self, timeline: &Timeline, route: Route) -> ToolView {
        match self {
            _ if route == Route::Pooling => pooling::see(timeline, self),
            Self::Vllm => vllm::see(timeline, route),
            Self::OldVllm => old_vllm::see(timeline, route),
            Self::VllmRust => vllm_rust::see(timeline, route),
            Self::Sglang => sglang::see(timeline, route),
        }
    }
}
