//! What the server's own metrics say.

use serde::{Deserialize, Serialize};

/// Changes of the server's counters over the measured phase, and peaks of its gauges, summed over
/// replicas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerFigures {
    /// Engine whose names were recognised: `vllm`, `sglang`, `tgi`, `llamacpp`.
    pub engine: Option<String>,
    /// Scrapes that succeeded.
    pub scrapes: u64,
    /// Scrapes that failed.
    pub failed_scrapes: u64,
    /// Most requests running at once.
    pub running_max: Option<f64>,
    /// Most requests waiting at once.
    pub waiting_max: Option<f64>,
    /// Largest share of the KV cache in use, from 0 to 1.
    pub kv_use_max: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<f64>,
    /// Prompt tokens read.
    pub prompt_tokens: Option<f64>,
    /// Tokens written.
    pub generation_tokens: Option<f64>,
    /// Requests finished.
    pub finished_requests: Option<f64>,
    /// Share of prompt tokens found in the prefix cache, from 0 to 1.
    pub prefix_hit_share: Option<f64>,
    /// The server's own mean time to first token in milliseconds.
    pub ttft_ms_mean: Option<f64>,
    /// Speculative decoding, where the server drafts.
    pub speculation: Option<Speculation>,
}

/// Speculative decoding over the measured phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Speculation {
    /// Drafts made.
    pub drafts: f64,
    /// Tokens drafted.
    pub draft_tokens: f64,
    /// Drafted tokens that were accepted.
    pub accepted_tokens: f64,
    /// Accepted share of drafted tokens in percent.
    pub acceptance_rate_percent: f64,
    /// Tokens per step: one plus accepted tokens per draft.
    pub acceptance_length: f64,
    /// Share of drafts whose token at this place was accepted, from the first place on.
    pub per_position: Vec<f64>,
}
