//! Figures from the server's own metrics.
//!
//! In: Prometheus text or [`Scrape`]s of it, of one or several replicas. Out: gauges and counters
//! under one name each, whatever the engine calls them (`engines`), and their change over the
//! measured phase. A name that an engine does not have stays `None`. GPUs are told of by other
//! endpoints ([`gpu`]) and stand beside.

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
use change::{Counters, Mean};
use engines::{ENGINES, Engine};
pub use gpu::{GpuFigures, GpuGauges, gauges};
pub use prometheus::{Keep, parse};
use prometheus::{bare_name, label};

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
    /// Most requests running and waiting at once.
    pub present_max: Option<f64>,
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
    /// Whether every endpoint was read before the measured phase and again after it, and none was
    /// started anew in between: only then do changes of counters tell of all of it.
    #[serde(default)]
    pub is_whole: bool,
    /// The server's own mean time to first token in milliseconds.
    pub ttft_ms_mean: Option<f64>,
    /// The median of the server's own histogram of first-token times.
    #[serde(default)]
    pub ttft_p50: Option<BucketQuantile>,
    /// Its 99th percentile.
    #[serde(default)]
    pub ttft_p99: Option<BucketQuantile>,
    /// Mean time that requests waited inside the server, in milliseconds.
    #[serde(default)]
    pub queue_ms_mean: Option<f64>,
    /// Mean time that prompts took, in milliseconds.
    #[serde(default)]
    pub prefill_ms_mean: Option<f64>,
    /// Mean tokens per step under speculation, from a gauge, where drafts are not counted.
    #[serde(default)]
    pub accept_length: Option<f64>,
    /// Accept length that SGLang's `/server_info` reported after the run: the mean over its life.
    #[serde(default)]
    pub told_accept_length: Option<f64>,
    /// What was ignored because it is impossible, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// What the GPUs did, if a source reports it.
    #[serde(default)]
    pub gpu: Option<GpuFigures>,
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

/// Values of one scrape under one name each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// When it arrived.
    pub at: Nanos,
    /// Which endpoint.
    pub endpoint: u16,
    /// The engine whose names were found.
    pub engine: &'static str,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// Share of the KV cache in use.
    pub kv_use: Option<f64>,
    /// Tokens per step with speculative decoding, if a gauge reports it.
    accept_length: Option<f64>,
    counters: Counters,
    /// First-token times; empty where the reading holds none.
    ttft: Buckets,
}

/// The samples of a name, whatever their labels.
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

/// The sum over label sets of the first of these names that is there.
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

fn ttft_buckets(scrape: &Scrape, engine: &Engine) -> Buckets {
    let Some(name) = engine.ttft else { return Buckets::default() };
    let samples = labelled(scrape, &format!("{name}_bucket"))
        .filter_map(|(name, count)| Some((label(name, "le")?, count)));
    Buckets::new(samples)
}

/// The accept length in SGLang's `/server_info`. Behind a router it is that of the first server that
/// decodes. `None` where the server does not speculate.
pub fn told_accept_length(server_info: &serde_json::Value) -> Option<f64> {
    let first_decoder = server_info.get("decode").and_then(|servers| servers.get(0));
    let server = first_decoder.unwrap_or(server_info);
    server.get("internal_states")?.get(0)?.get("avg_spec_accept_length")?.as_f64()
}

/// The values of a scrape under one name each. `None` for a failed one or an unknown engine.
pub fn read(scrape: &Scrape) -> Option<Reading> {
    let has = |engine: &&Engine| scrape.values.keys().any(|name| name.starts_with(engine.prefix));
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
    let counters = Counters {
        preemptions: sum(engine.preemptions),
        prompt_tokens,
        generation_tokens: sum(engine.generation_tokens),
        finished: sum(engine.finished),
        prefix_queries: sum(engine.prefix_queries).or(prompt_tokens.filter(|_| has_hits)),
        prefix_hits: sum(engine.prefix_hits),
        ttft: mean(scrape, engine.ttft),
        queue: mean(scrape, engine.queue),
        prefill: mean(scrape, engine.prefill),
        drafts: sum(engine.drafts),
        draft_tokens: sum(engine.draft_tokens),
        accepted_tokens: sum(engine.accepted_tokens),
        per_position,
    };
    Some(Reading {
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
