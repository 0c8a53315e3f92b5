//! Figures from the server's metrics.
//!
//! In: Prometheus text or [`Scrape`]s of it, of one or several replicas. Out: gauges and counters
//! under common names for all engines (`engines`), and their change over the measured phase. A metric
//! that an engine does not have is `None`. GPU metrics come from other endpoints ([`gpu`]).

mod buckets;
mod change;
mod engines;
pub mod gpu;
mod prometheus;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::server::Scrape;

pub use buckets::BucketQuantile;
use buckets::Buckets;
pub(crate) use change::Scrapes;
use change::{Mean, ServerCounters};
use engines::{ENGINES, EngineMetricNames};
pub use gpu::{GpuFigures, GpuGauges, gauges};
pub use prometheus::{KeptSeries, parse};
use prometheus::{bare_name, label};

/// Changes of the server's counters over the measured phase, and peaks of its gauges, summed over
/// replicas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerFigures {
    /// Recognised by its metric names: `vllm`, `sglang`, `tgi`, `llamacpp`.
    pub engine: Option<String>,
    /// Scrapes that succeeded.
    pub scrapes: u64,
    /// Scrapes that failed.
    pub failed_scrapes: u64,
    /// Most requests running at once.
    pub running_max: Option<f64>,
    /// Most requests waiting at once.
    pub waiting_max: Option<f64>,
    /// Most requests running and waiting together.
    pub present_max: Option<f64>,
    /// Largest share of the KV cache in use, from 0 to 1.
    pub kv_use_max: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<f64>,
    /// Prompt tokens processed.
    pub prompt_tokens: Option<f64>,
    /// Tokens generated.
    pub generation_tokens: Option<f64>,
    /// Requests finished.
    pub finished_requests: Option<f64>,
    /// Share of prompt tokens that were prefix-cache hits, from 0 to 1.
    pub prefix_hit_share: Option<f64>,
    /// Whether every endpoint was scraped before and after the measured phase and did not restart in
    /// between. Only then do the counters cover all of it.
    #[serde(default)]
    pub is_whole: bool,
    /// The server's own mean, in milliseconds.
    pub ttft_ms_mean: Option<f64>,
    /// The median of the server's own TTFT histogram.
    #[serde(default)]
    pub ttft_p50: Option<BucketQuantile>,
    /// The 99th percentile of that histogram.
    #[serde(default)]
    pub ttft_p99: Option<BucketQuantile>,
    /// The server's own mean E2E, in milliseconds.
    #[serde(default)]
    pub e2e_ms_mean: Option<f64>,
    /// Requests in that mean.
    #[serde(default)]
    pub e2e_requests: Option<f64>,
    /// Mean queue time inside the server, in milliseconds.
    #[serde(default)]
    pub queue_ms_mean: Option<f64>,
    /// Mean prefill time, in milliseconds.
    #[serde(default)]
    pub prefill_ms_mean: Option<f64>,
    /// Mean tokens per step with speculative decoding, from a gauge, where drafts are not counted.
    #[serde(default)]
    pub accept_length: Option<f64>,
    /// Accept length from SGLang's `/server_info` after the run: the mean since the server started.
    #[serde(default, rename = "told_accept_length")]
    pub reported_accept_length: Option<f64>,
    /// Impossible values that were ignored, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// `None` where no source reports GPUs.
    #[serde(default)]
    pub gpu: Option<GpuFigures>,
    /// `None` without speculative decoding.
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
    /// Acceptance rate by position of the draft token, from the first position on.
    pub per_position: Vec<f64>,
}

/// Values of one scrape under common names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerReading {
    /// When the response arrived.
    pub at: Nanos,
    /// Index among the scraped endpoints.
    pub endpoint: u16,
    /// Recognised by its metric names.
    pub engine: &'static str,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// From 0 to 1.
    pub kv_use: Option<f64>,
    /// Tokens per step with speculative decoding, if a gauge reports it.
    accept_length: Option<f64>,
    counters: ServerCounters,
    /// TTFT histogram; empty where the scrape has none.
    ttft: Buckets,
}

/// The samples of a metric with any labels.
fn labelled<'a>(
    scrape: &'a Scrape,
    wanted: &str,
) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
    let from = scrape.values.range(wanted.to_owned()..);
    let wanted = wanted.to_owned();
    let begins = wanted.clone();
    from.take_while(move |(name, _)| name.starts_with(&begins))
        .filter(move |(name, _)| bare_name(name) == wanted)
        .map(|(name, value)| (name.as_str(), *value))
}

/// The sum over label sets of the first of these metrics that exists.
fn sum(scrape: &Scrape, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| {
        let values = labelled(scrape, name).map(|(_, value)| value).filter(|v| v.is_finite());
        values.reduce(|sum, value| sum + value)
    })
}

/// Sum and count of a histogram.
fn mean(scrape: &Scrape, histogram: Option<&str>) -> Mean {
    let of = |end: &str| sum(scrape, &[&format!("{}{end}", histogram?)]);
    Mean { sum: of("_sum"), count: of("_count") }
}

fn ttft_buckets(scrape: &Scrape, engine: &EngineMetricNames) -> Buckets {
    let Some(name) = engine.ttft else { return Buckets::default() };
    let samples = labelled(scrape, &format!("{name}_bucket"))
        .filter_map(|(name, count)| Some((label(name, "le")?, count)));
    Buckets::new(samples)
}

/// The accept length in SGLang's `/server_info`. Behind a router it is that of the first decoding
/// server. `None` without speculative decoding.
pub fn reported_accept_length(server_info: &serde_json::Value) -> Option<f64> {
    let first_decoder = server_info.get("decode").and_then(|servers| servers.get(0));
    let server = first_decoder.unwrap_or(server_info);
    server.get("internal_states")?.get(0)?.get("avg_spec_accept_length")?.as_f64()
}

/// The values of a scrape under common names. `None` for a failed scrape or an unknown engine.
pub fn read(scrape: &Scrape) -> Option<ServerReading> {
    let has = |engine: &&EngineMetricNames| {
        scrape.values.keys().any(|name| name.starts_with(engine.prefix))
    };
    let engine = ENGINES.iter().find(has)?;
    let sum = |names: &[&str]| sum(scrape, names);
    let mut per_position = BTreeMap::new();
    let positions = engine.accepted_per_position.iter().flat_map(|name| labelled(scrape, name));
    for (name, value) in positions {
        if let Some(position) = label(name, "position").and_then(|text| text.parse().ok()) {
            *per_position.entry(position).or_default() += value;
        }
    }
    let uncounted = sum(engine.uncounted_prompt_tokens).unwrap_or(0.0);
    let prompt_tokens = sum(engine.prompt_tokens).map(|tokens| tokens + uncounted);
    let has_hits = !engine.prefix_hits.is_empty();
    let counters = ServerCounters {
        preemptions: sum(engine.preemptions),
        prompt_tokens,
        generation_tokens: sum(engine.generation_tokens),
        finished: sum(engine.finished),
        prefix_queries: sum(engine.prefix_queries).or(prompt_tokens.filter(|_| has_hits)),
        prefix_hits: sum(engine.prefix_hits),
        ttft: mean(scrape, engine.ttft),
        e2e: mean(scrape, engine.e2e),
        queue: mean(scrape, engine.queue),
        prefill: mean(scrape, engine.prefill),
        drafts: sum(engine.drafts),
        draft_tokens: sum(engine.draft_tokens),
        accepted_tokens: sum(engine.accepted_tokens),
        per_position,
    };
    Some(ServerReading {
        at: scrape.at,
        endpoint: scrape.endpoint,
        engine: engine.name,
        running: sum(engine.running),
        waiting: sum(engine.waiting),
        kv_use: sum(engine.kv_use),
        accept_length: sum(engine.accept_length).filter(|length| *length > 0.0),
        counters,
        ttft: ttft_buckets(scrape, engine),
    })
}

#[cfg(test)]
mod tests;
