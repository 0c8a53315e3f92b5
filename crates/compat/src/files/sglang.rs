//! SGLang's result file: one JSON object per line and run.

use std::collections::BTreeMap;

use tokometer_figures::family::{Attainment, Detail};
use tokometer_figures::{Family, FamilyFigures};
use tokometer_record::RunInfo;

use super::object::Object;
use super::vllm::{date, set_stats};
use super::{Extent, ResultFile, SGLANG_E2E, metric_key, provenance};
use crate::Error;
use crate::from_summary::{Attained, Selection, accept_length, attained, stats_of};
use crate::model::Metric;

/// Options that SGLang saves with every run, null where they do not apply.
const WORKLOAD_KEYS: [&str; 4] =
    ["sharegpt_output_len", "random_input_len", "random_output_len", "random_range_ratio"];

/// The name that SGLang gives a result file. `lengths` are the input and output length of a random
/// dataset.
pub fn sglang_file_name(info: &RunInfo, requests: u64, lengths: Option<(u64, u64)>) -> String {
    let backend = info.targets.first().map_or("", |target| target.backend.as_str());
    let day = date(info.started, "%m%d");
    match lengths {
        Some((input, output)) => format!("{backend}_{day}_{requests}_{input}_{output}.jsonl"),
        None => format!("{backend}_{day}_{requests}_{}.jsonl", info.dataset),
    }
}

/// The run as a line of SGLang's file, without the line end.
pub fn sglang_line(file: &ResultFile<'_>) -> Result<String, Error> {
    let figures =
        file.summary.families.get(&Family::Sglang).ok_or(Error::NoFigures(Family::Sglang))?;
    let mut object = Object::default();
    set_head(&mut object, file);
    set_figures(&mut object, figures);
    let is_pooling = figures.input_sequences.is_some();
    let shown = [Metric::E2el, Metric::Ttft, Metric::Tpot, Metric::Itl];
    for metric in shown.into_iter().filter(|one| !is_pooling || *one == Metric::E2el) {
        let key = if metric == Metric::E2el { Some(SGLANG_E2E) } else { metric_key(metric) };
        if let Some(key) = key {
            set_stats(&mut object, key, &sglang_stats().of(stats_of(figures, metric)));
        }
    }
    object.set("concurrency", figures.concurrency);
    object.set("accept_length", accept_length(file.summary));
    if !is_pooling {
        object.set("max_output_tokens_per_s", figures.peak_output_throughput);
    }
    object.set("max_concurrent_requests", figures.peak_concurrent_requests);
    if let Some(attainment) = &figures.attainment {
        set_goodput(&mut object, attainment, figures);
    }
    if let (Extent::Requests, Some(detail)) = (file.extent, &figures.detail) {
        set_detail(&mut object, detail);
    }
    object.set("tokometer", provenance(file.summary, file.info));
    Ok(object.to_line())
}

fn set_goodput(object: &mut Object, attainment: &Attainment, figures: &FamilyFigures) {
    let by_name = |value: fn(&Attained) -> f64| -> BTreeMap<&'static str, f64> {
        attained(attainment).map(|one| (one.name, value(&one))).collect()
    };
    object.set("goodput_slos_ms", by_name(|one| one.limit));
    object.set("request_goodput", figures.goodput);
    object.set("slo_attainment", attainment.all);
    object.set("slo_attainment_by_metric", by_name(|one| one.share));
}

/// SGLang saves these percentiles whatever is asked for.
fn sglang_stats() -> Selection {
    Selection { percentiles: vec![90.0, 95.0, 99.0], ..Selection::default() }
}

fn set_head(object: &mut Object, file: &ResultFile<'_>) {
    let backend = file.info.targets.first().map(|target| &target.backend);
    object.set("tag", file.label);
    object.set("backend", backend);
    object.set("dataset_name", &file.info.dataset);
    // SGLang writes a bare `Infinity`, which strict readers refuse; the word is what vLLM writes.
    match file.info.load.request_rate {
        Some(rate) => object.set("request_rate", rate),
        None => object.set("request_rate", "inf"),
    }
    object.set("max_concurrency", file.info.load.max_concurrency);
    for key in WORKLOAD_KEYS {
        object.set(key, serde_json::Value::Null);
    }
    object.set("server_info", serde_json::Value::Null);
    for (key, value) in file.workload {
        object.set(key.as_str(), value);
    }
}

fn set_figures(object: &mut Object, figures: &FamilyFigures) {
    object.set("duration", figures.duration_s);
    object.set("completed", figures.completed);
    object.set("total_input_tokens", figures.total_input);
    object.set("total_input_text_tokens", figures.total_input);
    object.set("total_input_vision_tokens", 0);
    object.set("request_throughput", figures.request_throughput);
    object.set("input_throughput", figures.input_throughput);
    // Where nothing is generated these are zero, and readers tell SGLang's files by the last one.
    object.set("total_output_tokens", figures.total_output);
    object.set("total_output_tokens_retokenized", figures.retokenized);
    object.set("output_throughput", figures.output_throughput);
    object.set("total_throughput", figures.total_throughput);
}

fn set_detail(object: &mut Object, detail: &Detail) {
    object.set("input_lens", &detail.input_lens);
    object.set("output_lens", &detail.output_lens);
    object.set("ttfts", &detail.ttfts);
    object.set("itls", &detail.itls);
    object.set("generated_texts", &detail.generated_texts);
    object.set("errors", &detail.errors);
    if detail.cached_tokens.iter().any(Option::is_some) {
        object.set("cached_tokens", &detail.cached_tokens);
    }
}
