//! The figures of another tool's report, by that tool's own definitions.
//!
//! A layout prints only these. An empty list has the statistics 0.00 here, because the tools print it
//! so; our own figures (see [`crate::summary`]) are `None` instead.

use serde::{Deserialize, Serialize};

use crate::goodput::Objectives;

/// Tools that share their definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// vLLM's Python client from 2025 on.
    Vllm,
    /// vLLM's `benchmark_serving.py` of 2024, and its fork for TGI.
    OldVllm,
    VllmRust,
    Sglang,
}

impl Family {
    pub const ALL: [Self; 4] = [Self::Vllm, Self::OldVllm, Self::VllmRust, Self::Sglang];

    pub fn tool(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::OldVllm => "benchmark_serving.py",
            Self::VllmRust => "vLLM's Rust client",
            Self::Sglang => "SGLang",
        }
    }
}

/// Statistics of one list, in milliseconds. All zero when the list was empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ListStats {
    pub count: u64,
    pub mean: f64,
    /// Middle value, or the mean of the two middle ones.
    pub median: f64,
    /// Population standard deviation.
    pub std: f64,
    pub max: f64,
    /// (percentile, value), in the order requested.
    pub percentiles: Vec<(f64, f64)>,
}

impl FamilyFigures {
    /// Inputs or documents per second; `None` for requests that generate text.
    pub fn input_sequence_throughput(&self) -> Option<f64> {
        let items = self.input_sequences? as f64;
        Some(if self.duration_s > 0.0 { items / self.duration_s } else { 0.0 })
    }
}

impl ListStats {
    /// `None` if it was not requested.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let is_same = |asked: f64| (asked - percent).abs() < 1e-9;
        self.percentiles.iter().find(|(asked, _)| is_same(*asked)).map(|(_, value)| *value)
    }
}

/// What another tool would have printed and saved for this run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FamilyFigures {
    pub completed: u64,
    pub failed: u64,
    pub duration_s: f64,
    pub total_input: u64,
    /// Inputs or documents of successful requests; `None` for requests that generate text. The output
    /// and the times of tokens below are zero where this is known, and no layout prints them.
    #[serde(default)]
    pub input_sequences: Option<u64>,
    /// Seconds of audio per second of the benchmark. Zero without audio, as vLLM writes it.
    #[serde(default)]
    pub rtfx: f64,
    /// By the tool's counting rule.
    pub total_output: u64,
    /// Counted from the text after the run; `None` when it was not.
    pub retokenized: Option<u64>,
    pub request_throughput: f64,
    /// Requests per second that met every objective; `None` when none was set.
    pub goodput: Option<f64>,
    /// Shares of requests that met the objectives; `None` when none was set.
    #[serde(default)]
    pub attainment: Option<Attainment>,
    pub output_throughput: f64,
    pub input_throughput: f64,
    pub total_throughput: f64,
    /// Chunks of all successful requests; the next figure counts them.
    #[serde(default)]
    pub chunks: u64,
    /// Most chunks in one second. The tools call it output tokens per second.
    pub peak_output_throughput: f64,
    /// Most requests that overlap one second.
    pub peak_concurrent_requests: u64,
    /// Sum of latencies over the duration.
    pub concurrency: f64,
    pub ttft: ListStats,
    pub tpot: ListStats,
    /// Time between chunks, pooled over all requests.
    pub itl: ListStats,
    pub e2el: ListStats,
    /// Time that a request waited inside the client before it was sent.
    pub client_queue: ListStats,
    pub e2el_with_queue: ListStats,
    /// Side probes beside the load; `None` when there were none.
    pub probe: Option<ProbeFigures>,
    /// Steady-state window of vLLM's Rust client; `None` outside a closed loop or where none exists.
    pub steady: Option<SteadyWindow>,
    pub detail: Option<Detail>,
}

/// Shares of all requests, failed ones included, that met the objectives. SGLang reports them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Attainment {
    pub objectives: Objectives,
    pub all: f64,
    /// Share that met the limit of TTFT; `None` without one.
    pub ttft: Option<f64>,
    pub tpot: Option<f64>,
    pub e2el: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProbeFigures {
    pub completed: u64,
    pub failed: u64,
    /// Median latency in milliseconds.
    pub median: f64,
    /// 99th percentile in milliseconds.
    pub p99: f64,
    /// Largest latency in milliseconds.
    pub max: f64,
}

/// The window in which vLLM's Rust client sees a closed loop at full concurrency.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SteadyWindow {
    /// Share of the limit that counts as full.
    pub threshold: f64,
    pub max_concurrency: u32,
    /// Requests in flight that count as full.
    pub threshold_requests: u32,
    /// Start of the window, seconds after the first request.
    pub begin_s: f64,
    /// End of the window, seconds after the first request.
    pub end_s: f64,
    /// True when the window is shorter than ten seconds or a tenth of the run.
    pub is_short: bool,
    /// Exact peak of requests in flight.
    pub observed_peak: u64,
    /// Successful requests that started in the window.
    pub started: u64,
    pub total: u64,
    pub completed: u64,
    pub request_throughput: f64,
    /// Chunks per second.
    pub output_throughput: f64,
    /// Prompt tokens of started requests per second.
    pub input_throughput: f64,
    pub total_throughput: f64,
    /// Time to first token of the requests that started in the window.
    pub ttft: ListStats,
    /// Time per output token of the same, with P90 and P99.
    pub tpot: ListStats,
}

/// Values per request in the order of the plan. A failed request has the first token and the gaps
/// until its failure, no latency, no text, and the reason.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Detail {
    pub input_lens: Vec<u64>,
    pub output_lens: Vec<u64>,
    pub ttfts: Vec<f64>,
    /// Gaps between chunks in seconds.
    pub itls: Vec<Vec<f64>>,
    /// Starts in seconds on the monotonic clock.
    pub start_times: Vec<f64>,
    pub latencies: Vec<f64>,
    pub queue_times: Vec<f64>,
    /// Text of each response; empty where it was not kept.
    pub generated_texts: Vec<String>,
    /// Why each request failed; empty for successful ones.
    pub errors: Vec<String>,
    /// Prompt tokens that were prefix-cache hits, if the server reports them.
    pub cached_tokens: Vec<Option<u32>>,
}
