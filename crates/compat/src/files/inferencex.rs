//! The files of the InferenceX kit: the result of its client, and the aggregate that its
//! `process_result.py` makes of it.
//!
//! The client is a fork of vLLM's older `benchmark_serving.py` and has that tool's definitions.

use serde_json::{Map, Value};
use tokometer_figures::{Family, FamilyFigures};

use super::object::Object;
use super::vllm::{date, set_stats};
use super::{ResultFile, provenance};
use crate::Error;
use crate::from_summary::stats_of;
use crate::model::Metric;

/// The sections that the kit asks its client for.
const SECTIONS: [(Metric, &str); 4] =
    [(Metric::Ttft, "ttft"), (Metric::Tpot, "tpot"), (Metric::Itl, "itl"), (Metric::E2el, "e2el")];

/// The measured phase in seconds since 1970, as (begin, end).
pub type UnixWindow = (f64, f64);

/// The result of a run as the kit's client saves it. `window` is absent for a run without an end.
pub fn inferencex_json(file: &ResultFile<'_>, window: Option<UnixWindow>) -> Result<String, Error> {
    let family = Family::OldVllm;
    let figures = file.summary.families.get(&family).ok_or(Error::NoFigures(family))?;
    let mut object = Object::default();
    set_head(&mut object, file);
    set_figures(&mut object, figures, window);
    for (metric, key) in SECTIONS {
        set_stats(&mut object, key, &file.shown.of(stats_of(figures, metric)));
    }
    object.set("tokometer", provenance(file.summary, file.info));
    Ok(object.to_line())
}

fn set_head(object: &mut Object, file: &ResultFile<'_>) {
    let target = file.info.targets.first();
    object.set("date", date(file.info.started, "%Y%m%d-%H%M%S"));
    object.set("backend", target.map(|target| target.backend.as_str()));
    object.set("model_id", target.map(|target| target.model.as_str()));
    object.set("tokenizer_id", &file.info.tokenizer);
    let load = &file.info.load;
    object.set("num_prompts", load.planned_requests.unwrap_or(file.summary.counts.planned));
    for (key, value) in file.metadata {
        object.set(key.as_str(), value);
    }
    match load.request_rate {
        Some(rate) => object.set("request_rate", rate),
        None => object.set("request_rate", "inf"),
    }
    object.set("burstiness", load.burstiness);
    object.set("max_concurrency", load.max_concurrency);
}

fn set_figures(object: &mut Object, figures: &FamilyFigures, window: Option<UnixWindow>) {
    object.set("duration", figures.duration_s);
    if let Some((begin, end)) = window {
        object.set("benchmark_start_time_unix", begin);
        object.set("benchmark_end_time_unix", end);
    }
    object.set("completed", figures.completed);
    object.set("total_input_tokens", figures.total_input);
    object.set("total_output_tokens", figures.total_output);
    object.set("request_throughput", figures.request_throughput);
    // The colon is part of the key, which readers of the kit know.
    object.set("request_goodput:", figures.goodput);
    object.set("output_throughput", figures.output_throughput);
    object.set("total_token_throughput", figures.total_throughput);
}

/// The aggregate of a result, as `process_result.py` derives it for one node with this many GPUs:
/// throughputs per GPU, times in seconds, and `intvty` (tokens per second of a user) for each TPOT.
/// `None` where the result lacks what the script needs.
pub fn inferencex_aggregate(
    result: &str,
    gpus: u32,
    metadata: &[(String, String)],
) -> Option<String> {
    let result: Map<String, Value> = serde_json::from_str(result).ok()?;
    let number = |key: &str| result.get(key).and_then(Value::as_f64);
    let (total, output) = (number("total_token_throughput")?, number("output_throughput")?);
    let share = f64::from(gpus.max(1));
    let mut object = Object::default();
    object.set("conc", result.get("max_concurrency").filter(|cap| !cap.is_null())?);
    object.set("model", result.get("model_id")?);
    object.set("tp", gpus);
    for (key, value) in metadata {
        object.set(key.as_str(), value);
    }
    object.set("tput_per_gpu", total / share);
    object.set("output_tput_per_gpu", output / share);
    object.set("input_tput_per_gpu", (total - output) / share);
    for (key, value) in &result {
        let Some(value) = value.as_f64().filter(|_| key.ends_with("_ms")) else { continue };
        let name = key.trim_end_matches("_ms");
        object.set(name, value / 1_000.0);
        // The inverse of a standard deviation means nothing, and that of no time at all is infinite.
        if name.contains("tpot") && !name.starts_with("std") && value > 0.0 {
            object.set(name.replace("tpot", "intvty"), 1_000.0 / value);
        }
    }
    Some(object.to_line())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Extent;
    use crate::from_summary::Selection;
    use crate::testing::{info, summary};

    fn saved() -> String {
        let (summary, info, shown) = (summary(), info(), Selection::default());
        let metadata = [("precision".to_owned(), "fp8".to_owned())];
        let file = ResultFile {
            summary: &summary,
            info: &info,
            label: None,
            metadata: &metadata,
            shown: &shown,
            workload: &[],
            extent: Extent::Run,
        };
        inferencex_json(&file, Some((1_760_000_000.5, 1_760_000_050.5))).unwrap()
    }

    #[test]
    fn the_result_has_the_keys_that_the_kit_reads() {
        let object: Value = serde_json::from_str(&saved()).unwrap();
        for key in ["max_concurrency", "total_token_throughput", "output_throughput", "duration"] {
            assert!(object[key].is_number(), "{key}: {object}");
        }
        assert_eq!(object["model_id"], "org/model-8b");
        assert_eq!(object["benchmark_start_time_unix"], 1_760_000_000.5);
        assert!(object.as_object().unwrap().contains_key("request_goodput:"));
        for section in ["ttft", "tpot", "itl", "e2el"] {
            for statistic in ["mean", "median", "std", "p99"] {
                let key = format!("{statistic}_{section}_ms");
                assert!(object.as_object().unwrap().contains_key(&key), "{key}");
            }
        }
    }

    #[test]
    fn the_aggregate_has_figures_per_gpu_seconds_and_interactivity() {
        let result = r#"{"max_concurrency": 64, "model_id": "m", "total_token_throughput": 800.0,
            "output_throughput": 200.0, "mean_ttft_ms": 250.0, "p99_tpot_ms": 20.0,
            "std_tpot_ms": 2.0, "median_tpot_ms": 0.0}"#;
        let metadata = [("hw".to_owned(), "h200".to_owned())];
        let text = inferencex_aggregate(result, 8, &metadata).unwrap();
        let object: Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "conc": 64, "model": "m", "tp": 8, "hw": "h200",
            "tput_per_gpu": 100.0, "output_tput_per_gpu": 25.0, "input_tput_per_gpu": 75.0,
            "mean_ttft": 0.25, "p99_tpot": 0.02, "p99_intvty": 50.0,
            "std_tpot": 0.002, "median_tpot": 0.0,
        });
        assert_eq!(object, expected);
        let without = result.replace("\"max_concurrency\": 64", "\"max_concurrency\": null");
        assert_eq!(inferencex_aggregate(&without, 8, &[]), None);
    }
}
