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
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::server::Scrape;

pub use buckets::BucketQuantile;
use buckets::Buckets;
pub(crate) use change::Scrapes;
use engines::{ENGINES, HISTOGRAMS, Histogram, Join, METRICS, Metric};
pub use gpu::{GpuFigures, GpuGauges, gauges};
pub use prometheus::{KeptSeries, parse};
use prometheus::{bare_name, label};

/// Changes of the server's counters over the measured phase, and peaks of its gauges, summed over
/// replicas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerFigures {
    /// Recognised by its metric names: `vllm`, `sglang`, `tgi`, `llamacpp`.
    pub engine: Option<String>,
    pub scrapes: u64,
    pub failed_scrapes: u64,
    pub running_max: Option<f64>,
    pub waiting_max: Option<f64>,
    /// Most requests running and waiting together.
    pub present_max: Option<f64>,
    /// Largest share of the KV cache in use, from 0 to 1.
    pub kv_use_max: Option<f64>,
    pub preemptions: Option<f64>,
    pub prompt_tokens: Option<f64>,
    pub generation_tokens: Option<f64>,
    pub finished_requests: Option<f64>,
    /// Requests whose client went away.
    #[serde(default)]
    pub aborted_requests: Option<f64>,
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
    #[serde(default)]
    pub ttft_p99: Option<BucketQuantile>,
    /// The server's own mean E2E, in milliseconds.
    #[serde(default)]
    pub e2e_ms_mean: Option<f64>,
    #[serde(default)]
    pub e2e_requests: Option<f64>,
    #[serde(default)]
    pub queue_ms_mean: Option<f64>,
    #[serde(default)]
    pub prefill_ms_mean: Option<f64>,
    /// Mean tokens per step with speculative decoding, from a gauge, where drafts are not counted.
    #[serde(default)]
    pub accept_length: Option<f64>,
    /// Accept length from SGLang's `/server_info` after the run: the mean since the server started.
    #[serde(default, rename = "told_accept_length")]
    pub reported_accept_length: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// `None` where no source reports GPUs.
    #[serde(default)]
    pub gpu: Option<GpuFigures>,
    /// `None` without speculative decoding.
    pub speculation: Option<Speculation>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Speculation {
    pub drafts: f64,
    pub draft_tokens: f64,
    pub accepted_tokens: f64,
    pub acceptance_rate_percent: f64,
    /// Tokens per step: one plus accepted tokens per draft.
    pub acceptance_length: f64,
    /// Acceptance rate by position of the draft token, from the first position on.
    pub per_position: Vec<f64>,
}

/// Values of one scrape under common names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerReading {
    pub at: Nanos,
    pub endpoint: u16,
    pub engine: &'static str,
    pub running: Option<f64>,
    pub waiting: Option<f64>,
    /// From 0 to 1.
    pub kv_use: Option<f64>,
    values: BTreeMap<Metric, f64>,
    /// TTFT histogram; empty where the scrape has none.
    ttft: Buckets,
}

/// The samples of a metric with any labels; of one that is wanted with a label, those that have it.
fn labelled<'a>(
    scrape: &'a Scrape,
    wanted: &str,
) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
    let (wanted, label) = wanted.split_once('{').unwrap_or((wanted, ""));
    let from = scrape.values.range(wanted.to_owned()..);
    let (wanted, label) = (wanted.to_owned(), label.trim_end_matches('}').to_owned());
    let begins = wanted.clone();
    from.take_while(move |(name, _)| name.starts_with(&begins))
        .filter(move |(name, _)| bare_name(name) == wanted && name.contains(&label))
        .map(|(name, value)| (name.as_str(), *value))
}

/// Labels that tell the ranks of one engine apart (tensor, pipeline and expert parallelism). All of them work on
/// the same requests, and each may report these.
const RANKS: [&str; 3] = ["tp_rank=", "pp_rank=", "moe_ep_rank="];

/// The samples of a metric, one per engine: the largest of its ranks.
fn per_engine<'a>(
    scrape: &'a Scrape,
    name: &str,
) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
    let mut engines: BTreeMap<String, (&str, f64)> = BTreeMap::new();
    for (series, value) in labelled(scrape, name).filter(|(_, value)| value.is_finite()) {
        let labels = series.split(['{', ',', '}']).map(str::trim);
        let is_rank = |label: &&str| RANKS.iter().any(|rank| label.starts_with(rank));
        let engine = labels.filter(|label| !is_rank(label)).collect::<Vec<_>>().join(",");
        let found = engines.entry(engine).or_insert((series, value));
        if value > found.1 {
            *found = (series, value);
        }
    }
    engines.into_values()
}

/// The samples of a metric as one value.
fn joined(scrape: &Scrape, name: &str, join: Join) -> Option<f64> {
    let samples = per_engine(scrape, name);
    match join {
        Join::Sum => samples.map(|(_, value)| value).reduce(|sum, value| sum + value),
        Join::Largest => samples.map(|(_, value)| value).max_by(f64::total_cmp),
        Join::MeanByRunning => {
            let weighted: Vec<Weighted> = samples
                .filter(|(_, value)| *value > 0.0)
                .map(|(series, value)| Weighted { value, weight: running(scrape, series) })
                .collect();
            mean(&weighted)
        }
    }
}

struct Weighted {
    value: f64,
    /// `None` where the page does not say.
    weight: Option<f64>,
}

/// The requests that run on the engine with the labels of this sample.
fn running(scrape: &Scrape, series: &str) -> Option<f64> {
    let labels = &series[bare_name(series).len()..];
    let mut named = METRICS.iter().filter(|(metric, _)| *metric == Metric::Running);
    named.find_map(|(_, name)| scrape.values.get(&format!("{name}{labels}"))).copied()
}

/// The weighted mean; where no engine has a weight, the plain one.
fn mean(values: &[Weighted]) -> Option<f64> {
    let has_weights = values.iter().any(|one| one.weight.is_some_and(|weight| weight > 0.0));
    let weight = |one: &Weighted| if has_weights { one.weight.unwrap_or(0.0) } else { 1.0 };
    let total: f64 = values.iter().map(weight).sum();
    (total > 0.0).then(|| values.iter().map(|one| one.value * weight(one)).sum::<f64>() / total)
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
    let has =
        |(_, prefix): &&(&str, &str)| scrape.values.keys().any(|name| name.starts_with(prefix));
    let (engine, _) = ENGINES.iter().find(has)?;
    let histogram = |(of, name): (Histogram, &str)| {
        [(Metric::Sum(of), format!("{name}_sum")), (Metric::Count(of), format!("{name}_count"))]
    };
    let named = METRICS.map(|(metric, name)| (metric, name.to_owned()));
    let mut values: BTreeMap<Metric, f64> = BTreeMap::new();
    for (metric, name) in named.into_iter().chain(HISTOGRAMS.into_iter().flat_map(histogram)) {
        let value = joined(scrape, &name, metric.join());
        if let (Entry::Vacant(entry), Some(value)) = (values.entry(metric), value) {
            entry.insert(value);
        }
    }
    if let Some(tokens) = values.get_mut(&Metric::PromptTokens) {
        *tokens += joined(scrape, engines::UNCOUNTED_PROMPT_TOKENS, Join::Sum).unwrap_or(0.0);
        let tokens = *tokens;
        values.entry(Metric::PrefixQueries).or_insert(tokens);
    }
    for (name, value) in labelled(scrape, engines::ACCEPTED_PER_POSITION) {
        if let Some(position) = label(name, "position").and_then(|text| text.parse().ok()) {
            *values.entry(Metric::AcceptedAt(position)).or_default() += value;
        }
    }
    let ttft = HISTOGRAMS.iter().filter(|(of, _)| *of == Histogram::Ttft);
    let buckets = ttft.flat_map(|(_, name)| labelled(scrape, &format!("{name}_bucket")));
    let gauge = |metric: Metric| values.get(&metric).copied();
    Some(ServerReading {
        at: scrape.at,
        endpoint: scrape.endpoint,
        engine,
        running: gauge(Metric::Running),
        waiting: gauge(Metric::Waiting),
        kv_use: gauge(Metric::KvUse),
        ttft: Buckets::new(buckets.filter_map(|(name, count)| Some((label(name, "le")?, count)))),
        values,
    })
}

#[cfg(test)]
mod tests;
