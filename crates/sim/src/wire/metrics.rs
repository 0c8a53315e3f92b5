//! `/metrics`, under the names that each server uses.

use std::fmt::Write as _;

use base::Nanos;
use tokometer_base as base;

use super::ask::Reason;
use crate::config::Flavour;
use crate::engine::{Counters, Occupancy};

/// Upper bounds of the histogram of first-token times, in seconds.
static TTFT_BOUNDS: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// The same of whole requests.
static E2E_BOUNDS: [f64; 12] = [0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// The server's own state.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) load: Occupancy,
    pub(crate) counters: Counters,
    pub(crate) ttft: FixedHistogram,
    e2e: FixedHistogram,
    pub(crate) lateness: Lateness,
    stopped: u64,
    cut_at_limit: u64,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            load: Occupancy::default(),
            counters: Counters::default(),
            ttft: FixedHistogram::new(&TTFT_BOUNDS),
            e2e: FixedHistogram::new(&E2E_BOUNDS),
            lateness: Lateness::default(),
            stopped: 0,
            cut_at_limit: 0,
        }
    }
}

impl Snapshot {
    /// Counts a request that came to its end this long after its arrival.
    pub(crate) fn succeed(&mut self, reason: Reason, e2e: Nanos) {
        self.e2e.add(e2e);
        match reason {
            Reason::Stop => self.stopped += 1,
            Reason::Length => self.cut_at_limit += 1,
        }
    }
}

/// How late the server itself was with its tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lateness {
    pub(crate) mean_ms: f64,
    pub(crate) max_ms: f64,
    count: u64,
}

impl Lateness {
    pub(crate) fn add(&mut self, span: Nanos) {
        let ms = span.as_millis_f64();
        self.count += 1;
        self.mean_ms += (ms - self.mean_ms) / self.count as f64;
        self.max_ms = self.max_ms.max(ms);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FixedHistogram {
    /// In seconds, each with what was at most this and more than the one before.
    buckets: Vec<(f64, u64)>,
    count: u64,
    sum: f64,
}

impl FixedHistogram {
    fn new(bounds: &[f64]) -> Self {
        Self { buckets: bounds.iter().map(|bound| (*bound, 0)).collect(), count: 0, sum: 0.0 }
    }

    pub(crate) fn add(&mut self, span: Nanos) {
        let seconds = span.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        if let Some((_, held)) = self.buckets.iter_mut().find(|(bound, _)| seconds <= *bound) {
            *held += 1;
        }
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let _ = writeln!(text, "# TYPE {name} histogram");
        let separator = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bound, held) in &self.buckets {
            below += held;
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound:?}\"{separator}{labels}}} {below}");
        }
        let (count, sum) = (self.count, self.sum);
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"{separator}{labels}}} {count}");
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(text, "{name}_count{braced} {count}");
        let _ = writeln!(text, "{name}_sum{braced} {sum}");
    }
}

struct PageMetric {
    name: &'static str,
    kind: &'static str,
    /// Labels beside those that all figures have.
    label: &'static str,
    value: f64,
}

const fn gauge(name: &'static str, value: f64) -> PageMetric {
    PageMetric { name, kind: "gauge", label: "", value }
}

const fn counter(name: &'static str, value: f64) -> PageMetric {
    PageMetric { name, kind: "counter", label: "", value }
}

pub(super) fn render(flavour: Flavour, model: &str, snapshot: &Snapshot) -> String {
    let model = model.replace(['"', '\\', '\n'], "_");
    let (labels, figures) = match flavour {
        Flavour::Vllm | Flavour::Transformers => {
            (format!("engine=\"0\",model_name=\"{model}\""), vllm(snapshot))
        }
        Flavour::Sglang => {
            (format!("engine_type=\"unified\",model_name=\"{model}\""), sglang(snapshot))
        }
        Flavour::Llamacpp => (String::new(), llamacpp(snapshot)),
        Flavour::Tgi => (String::new(), tgi(snapshot)),
    };
    let mut text = String::new();
    for figure in figures {
        let _ = writeln!(text, "# TYPE {} {}", figure.name, figure.kind);
        let separator = if labels.is_empty() || figure.label.is_empty() { "" } else { "," };
        let all = format!("{}{separator}{labels}", figure.label);
        let braced = if all.is_empty() { String::new() } else { format!("{{{all}}}") };
        let _ = writeln!(text, "{}{braced} {:?}", figure.name, figure.value);
    }
    match flavour {
        Flavour::Vllm | Flavour::Transformers => {
            snapshot.ttft.write(&mut text, "vllm:time_to_first_token_seconds", &labels);
            snapshot.e2e.write(&mut text, "vllm:e2e_request_latency_seconds", &labels);
        }
        Flavour::Sglang => {
            snapshot.ttft.write(&mut text, "sglang:time_to_first_token_seconds", &labels);
            snapshot.e2e.write(&mut text, "sglang:e2e_request_latency_seconds", &labels);
        }
        Flavour::Tgi => snapshot.e2e.write(&mut text, "tgi_request_duration", &labels),
        Flavour::Llamacpp => {}
    }
    text
}

fn vllm(snapshot: &Snapshot) -> Vec<PageMetric> {
    let (load, counters) = (&snapshot.load, &snapshot.counters);
    let success = |label, value: u64| PageMetric {
        name: "vllm:request_success_total",
        kind: "counter",
        label,
        value: value as f64,
    };
    vec![
        gauge("vllm:num_requests_running", f64::from(load.running)),
        gauge("vllm:num_requests_waiting", f64::from(load.waiting)),
        gauge("vllm:kv_cache_usage_perc", load.kv_share.unwrap_or(0.0)),
        counter("vllm:prefix_cache_queries_total", counters.prefix_queries as f64),
        counter("vllm:prefix_cache_hits_total", counters.prefix_hits as f64),
        counter("vllm:num_preemptions_total", counters.preemptions as f64),
        counter("vllm:prompt_tokens_total", counters.prompt_tokens as f64),
        counter("vllm:generation_tokens_total", counters.generation_tokens as f64),
        success("finished_reason=\"stop\"", snapshot.stopped),
        success("finished_reason=\"length\"", snapshot.cut_at_limit),
        success("finished_reason=\"abort\"", counters.cancelled),
    ]
}

fn sglang(snapshot: &Snapshot) -> Vec<PageMetric> {
    let (load, counters) = (&snapshot.load, &snapshot.counters);
    let hit_rate = match counters.prefix_queries {
        0 => 0.0,
        queries => counters.prefix_hits as f64 / queries as f64,
    };
    vec![
        gauge("sglang:num_running_reqs", f64::from(load.running)),
        gauge("sglang:num_queue_reqs", f64::from(load.waiting)),
        gauge("sglang:token_usage", load.kv_share.unwrap_or(0.0)),
        gauge("sglang:cache_hit_rate", hit_rate),
        counter("sglang:prompt_tokens_total", counters.prompt_tokens as f64),
        counter("sglang:generation_tokens_total", counters.generation_tokens as f64),
        counter("sglang:cached_tokens_total", counters.prefix_hits as f64),
        counter("sglang:num_requests_total", (snapshot.stopped + snapshot.cut_at_limit) as f64),
    ]
}

fn llamacpp(snapshot: &Snapshot) -> Vec<PageMetric> {
    let (load, counters) = (&snapshot.load, &snapshot.counters);
    // This server counts cached prompt tokens apart from those it computed.
    let computed = counters.prompt_tokens.saturating_sub(counters.prefix_hits);
    vec![
        counter("llamacpp:prompt_tokens_total", computed as f64),
        counter("llamacpp:prompt_tokens_cached_total", counters.prefix_hits as f64),
        counter("llamacpp:tokens_predicted_total", counters.generation_tokens as f64),
        counter("llamacpp:n_decode_total", counters.steps as f64),
        gauge("llamacpp:requests_processing", f64::from(load.running)),
        gauge("llamacpp:requests_deferred", f64::from(load.waiting)),
    ]
}

fn tgi(snapshot: &Snapshot) -> Vec<PageMetric> {
    let (load, counters) = (&snapshot.load, &snapshot.counters);
    let success = snapshot.stopped + snapshot.cut_at_limit;
    vec![
        gauge("tgi_batch_current_size", f64::from(load.running)),
        gauge("tgi_queue_size", f64::from(load.waiting)),
        counter("tgi_request_count", counters.submitted as f64),
        counter("tgi_request_success", success as f64),
        counter("tgi_request_input_length_sum", counters.prompt_tokens as f64),
        counter("tgi_request_generated_tokens_sum", counters.generation_tokens as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flavour_has_its_own_names_and_the_same_figures() {
        let mut snapshot = Snapshot::default();
        snapshot.load.running = 3;
        snapshot.counters.generation_tokens = 70;
        snapshot.succeed(Reason::Length, Nanos::from_millis(400));
        snapshot.ttft.add(Nanos::from_millis(30));
        let check = |flavour, lines: &[&str]| {
            let page = render(flavour, "m", &snapshot);
            for line in lines {
                assert!(page.lines().any(|one| one == *line), "{line} is not in\n{page}");
            }
        };
        check(
            Flavour::Vllm,
            &[
                "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0",
                "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 70.0",
                "vllm:request_success_total{finished_reason=\"length\",engine=\"0\",model_name=\"m\"} 1.0",
                "vllm:time_to_first_token_seconds_bucket{le=\"0.02\",engine=\"0\",model_name=\"m\"} 0",
                "vllm:time_to_first_token_seconds_bucket{le=\"0.04\",engine=\"0\",model_name=\"m\"} 1",
                "vllm:e2e_request_latency_seconds_bucket{le=\"0.5\",engine=\"0\",model_name=\"m\"} 1",
                "vllm:e2e_request_latency_seconds_sum{engine=\"0\",model_name=\"m\"} 0.4",
            ],
        );
        check(Flavour::Llamacpp, &["llamacpp:tokens_predicted_total 70.0"]);
        check(Flavour::Tgi, &["tgi_batch_current_size 3.0", "tgi_request_duration_sum 0.4"]);
        check(
            Flavour::Sglang,
            &["sglang:num_running_reqs{engine_type=\"unified\",model_name=\"m\"} 3.0"],
        );
    }
}
