//! vLLM's result file: one JSON object per run.

use tokometer_base::WallNanos;
use tokometer_base::units::nearest_count;
use tokometer_figures::family::{Detail, ProbeFigures};
use tokometer_figures::figure::Statistic;
use tokometer_figures::server::Speculation;
use tokometer_figures::{Family, FamilyFigures, ListStats};
use tokometer_record::{RecordedLoad, RecordedRamp, RunInfo};

use super::object::Object;
use super::{Extent, ResultFile, metric_key, provenance};
use crate::Error;
use crate::from_summary::{python_float, stats_of};
use crate::model::Metric;

/// Of the workload's options only the changes of a ramp's rate are part of this file.
const RATE_CHANGES: &str = "rps_change_events";

const NUM_PROMPTS: &str = "num_prompts";

/// What `--append-result` puts between the objects of one file.
pub const APPEND_SEPARATOR: &str = "\n";

/// The wall-clock time in this `strftime` form, UTC; empty for a time beyond any calendar.
pub(super) fn date(time: WallNanos, form: &str) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(time.0))
        .map(|timestamp| timestamp.strftime(form).to_string())
        .unwrap_or_default()
}

pub fn vllm_file_name(info: &RunInfo, label: Option<&str>) -> String {
    let (backend, model) = target(info);
    let base = label.unwrap_or(backend);
    let rate = match (info.load.ramp(), info.load.request_rate) {
        (Some(RecordedRamp { shape, from, to }), _) => format!("ramp-up-{shape}-{from}qps-{to}qps"),
        (None, Some(rate)) => format!("{}qps", python_float(rate)),
        (None, None) => "infqps".to_owned(),
    };
    let cap = info.load.max_concurrency.map(|cap| format!("-concurrency{cap}")).unwrap_or_default();
    let model = model.rsplit('/').next().unwrap_or_default();
    format!("{base}-{rate}{cap}-{model}-{}.json", date(info.started, "%Y%m%d-%H%M%S"))
}

fn target(info: &RunInfo) -> (&str, &str) {
    info.targets.first().map_or(("", ""), |target| (target.backend.as_str(), target.model.as_str()))
}

/// The run as vLLM's client would have saved it.
pub fn vllm_json(file: &ResultFile<'_>) -> Result<String, Error> {
    let figures = file.summary.families.get(&Family::Vllm).ok_or(Error::NoFigures(Family::Vllm))?;
    let mut object = Object::default();
    set_head(&mut object, file);
    set_load(&mut object, &file.info.load);
    set_figures(&mut object, figures);
    if let Some(probe) = &figures.probe {
        set_probe(&mut object, probe);
    }
    if let Some((key, changes)) = file.workload.iter().find(|(key, _)| key == RATE_CHANGES) {
        object.set(key.as_str(), changes);
    }
    let server = file.summary.server.as_ref();
    if let Some(speculation) = server.and_then(|server| server.speculation.as_ref()) {
        set_speculation(&mut object, speculation);
    }
    set_metrics(&mut object, figures, file);
    if let (Extent::Requests, Some(detail)) = (file.extent, &figures.detail) {
        set_detail(&mut object, detail, figures.input_sequences);
    }
    object.set("tokometer", provenance(file.summary, file.info));
    Ok(object.to_line())
}

fn set_head(object: &mut Object, file: &ResultFile<'_>) {
    let (backend, model) = target(file.info);
    object.set("date", date(file.info.started, "%Y%m%d-%H%M%S"));
    object.set("endpoint_type", backend);
    object.set("backend", backend);
    object.set("label", file.label);
    object.set("model_id", model);
    object.set("tokenizer_id", &file.info.tokenizer);
    let planned = file.info.load.planned_requests.unwrap_or(file.summary.counts.planned);
    // Where prompts share requests, the user's number is that of the prompts.
    let asked = file.workload.iter().find(|(key, _)| key == NUM_PROMPTS);
    match asked {
        Some((key, prompts)) => object.set(key.as_str(), prompts),
        None => object.set(NUM_PROMPTS, planned),
    }
    for (key, value) in file.metadata {
        object.set(key.as_str(), value);
    }
}

fn set_load(object: &mut Object, load: &RecordedLoad) {
    match load.request_rate {
        Some(rate) => object.set("request_rate", rate),
        None => object.set("request_rate", "inf"),
    }
    object.set("burstiness", load.burstiness);
    object.set("max_concurrency", load.max_concurrency);
    if let Some(RecordedRamp { shape, from, to }) = load.ramp() {
        object.set("ramp_up_strategy", shape);
        object.set("ramp_up_start_rps", from);
        object.set("ramp_up_end_rps", to);
    }
}

fn set_figures(object: &mut Object, figures: &FamilyFigures) {
    object.set("duration", figures.duration_s);
    object.set("completed", figures.completed);
    if let Some(items) = figures.input_sequences {
        return set_pooling(object, figures, items);
    }
    object.set("failed", figures.failed);
    object.set("total_input_tokens", figures.total_input);
    object.set("total_output_tokens", figures.total_output);
    object.set("request_throughput", figures.request_throughput);
    object.set("request_goodput", figures.goodput);
    object.set("output_throughput", figures.output_throughput);
    object.set("total_token_throughput", figures.total_throughput);
    object.set("max_output_tokens_per_s", figures.peak_output_throughput);
    object.set("max_concurrent_requests", figures.peak_concurrent_requests);
    object.set("rtfx", figures.rtfx);
}

/// What stands in the file of a run that generated nothing. vLLM's has no number of failed requests.
fn set_pooling(object: &mut Object, figures: &FamilyFigures, items: u64) {
    object.set("total_input_tokens", figures.total_input);
    object.set("total_input_sequences", items);
    object.set("request_throughput", figures.request_throughput);
    object.set("request_goodput", figures.goodput);
    object.set("input_sequence_throughput", figures.input_sequence_throughput());
    object.set("total_token_throughput", figures.total_throughput);
}

fn set_probe(object: &mut Object, probe: &ProbeFigures) {
    object.set("probe_completed", probe.completed);
    object.set("probe_failed", probe.failed);
    object.set("probe_median_e2el_ms", probe.median);
    object.set("probe_p99_e2el_ms", probe.p99);
    object.set("probe_max_e2el_ms", probe.max);
}

fn set_speculation(object: &mut Object, speculation: &Speculation) {
    object.set("spec_decode_acceptance_rate", speculation.acceptance_rate_percent);
    object.set("spec_decode_acceptance_length", speculation.acceptance_length);
    object.set("spec_decode_num_drafts", nearest_count(speculation.drafts));
    object.set("spec_decode_draft_tokens", nearest_count(speculation.draft_tokens));
    object.set("spec_decode_accepted_tokens", nearest_count(speculation.accepted_tokens));
    object.set("spec_decode_per_position_acceptance_rates", &speculation.per_position);
}

fn set_metrics(object: &mut Object, figures: &FamilyFigures, file: &ResultFile<'_>) {
    let mut set = |metric: Metric| {
        if let Some(key) = metric_key(metric) {
            set_stats(object, key, &file.shown.of(stats_of(figures, metric)));
        }
    };
    let is_pooling = figures.input_sequences.is_some();
    // What was waited for in the client stands below, where something could wait.
    let is_waiting = |metric: &&Metric| matches!(metric, Metric::ClientQueue | Metric::QueuedE2el);
    let is_shown =
        |metric: &&Metric| !is_waiting(metric) && (!is_pooling || matches!(metric, Metric::E2el));
    file.shown.metrics.iter().filter(is_shown).copied().for_each(&mut set);
    if figures.client_queue.count > 0 && file.info.load.max_concurrency.is_some() {
        set(Metric::ClientQueue);
        if file.info.load.request_rate.is_some() || file.info.load.is_traced {
            set(Metric::QueuedE2el);
        }
    }
}

/// vLLM's key of a statistic, such as `p99_ttft_ms`; `metric` is its own word for the metric.
fn stat_key(statistic: Statistic, metric: &str) -> String {
    match statistic {
        Statistic::MEDIAN => format!("median_{metric}_ms"),
        other => format!("{other}_{metric}_ms"),
    }
}

/// Mean, median and standard deviation, and one key per percentile.
pub(super) fn set_stats(object: &mut Object, metric: &str, stats: &ListStats) {
    object.set(stat_key(Statistic::Mean, metric), stats.mean);
    object.set(stat_key(Statistic::MEDIAN, metric), stats.median);
    object.set(stat_key(Statistic::Std, metric), stats.std);
    for (percent, value) in &stats.percentiles {
        // Written beside the median also where it is the 50th.
        object.set(format!("p{percent}_{metric}_ms"), value);
    }
}

fn set_detail(object: &mut Object, detail: &Detail, items: Option<u64>) {
    object.set("input_lens", &detail.input_lens);
    if items.is_none() {
        object.set("output_lens", &detail.output_lens);
        object.set("ttfts", &detail.ttfts);
        object.set("itls", &detail.itls);
    }
    object.set("latencies", &detail.latencies);
    if items.is_none() {
        object.set("start_times", &detail.start_times);
    }
    object.set("queue_times", &detail.queue_times);
    if items.is_none() {
        object.set("generated_texts", &detail.generated_texts);
    }
    object.set("errors", &detail.errors);
}
