//! Reads result files back into reports.

use serde_json::{Map, Value};
use tokometer_metrics::figure::Quantity;

use crate::model::{Context, Field, Metric, Percentile, Report, Scalar, Stat};
use crate::{Error, Layout, parse};

/// The reports in any text: a result file if it begins with a brace, else printed blocks.
pub fn read(text: &str) -> Result<Vec<Report>, Error> {
    if text.trim_start().starts_with('{') { read_results(text) } else { parse(text) }
}

/// The reports of a vLLM or SGLang result file, which may hold several objects.
pub fn read_results(text: &str) -> Result<Vec<Report>, Error> {
    let text = with_valid_numbers(text);
    let objects = serde_json::Deserializer::from_str(&text).into_iter::<Map<String, Value>>();
    objects
        .enumerate()
        .map(|(index, object)| {
            let object = object
                .map_err(|error| Error::BadResult(format!("object {}: {error}", index + 1)))?;
            report(&object)
        })
        .collect()
}

/// Python writes `Infinity`, `-Infinity` and `NaN`, which JSON does not know.
fn with_valid_numbers(text: &str) -> String {
    let mut valid = String::with_capacity(text.len());
    let mut is_string = false;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let bare = [("-Infinity", "null"), ("Infinity", "\"inf\""), ("NaN", "null")]
            .into_iter()
            .find(|(word, _)| !is_string && rest.starts_with(word));
        let taken = match (bare, character) {
            (Some((word, instead)), _) => {
                valid.push_str(instead);
                word.len()
            }
            (None, '\\') if is_string => {
                let escape: String = rest.chars().take(2).collect();
                valid.push_str(&escape);
                escape.len()
            }
            (None, _) => {
                is_string ^= character == '"';
                valid.push(character);
                character.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    valid
}

/// Keys that both tools use for the same thing.
const SHARED: [(&str, Field); 11] = [
    ("completed", Field::Successful),
    ("failed", Field::Failed),
    ("duration", Field::Duration),
    ("total_input_tokens", Field::InputTokens),
    ("total_output_tokens", Field::OutputTokens),
    ("request_throughput", Field::RequestThroughput),
    ("output_throughput", Field::OutputThroughput),
    ("input_throughput", Field::InputThroughput),
    ("max_output_tokens_per_s", Field::PeakOutputThroughput),
    ("max_concurrent_requests", Field::PeakConcurrency),
    ("max_concurrency", Field::MaxConcurrency),
];

const VLLM: [(&str, Field); 10] = [
    ("total_token_throughput", Field::TotalThroughput),
    ("request_goodput", Field::Goodput),
    // vLLM of 2024 wrote the colon into the key.
    ("request_goodput:", Field::Goodput),
    ("request_rate", Field::RateConfigured),
    ("probe_completed", Field::ProbesCompleted),
    ("probe_failed", Field::ProbesFailed),
    ("probe_median_e2el_ms", Field::ProbeMedian),
    ("probe_p99_e2el_ms", Field::ProbeP99),
    ("probe_max_e2el_ms", Field::ProbeMax),
    ("spec_decode_acceptance_length", Field::SpecAcceptanceLength),
];

const SGLANG: [(&str, Field); 6] = [
    ("total_throughput", Field::TotalThroughput),
    ("total_input_text_tokens", Field::InputTextTokens),
    ("total_input_vision_tokens", Field::InputVisionTokens),
    ("total_output_tokens_retokenized", Field::RetokenizedTokens),
    ("concurrency", Field::Concurrency),
    ("accept_length", Field::AcceptLength),
];

fn report(object: &Map<String, Value>) -> Result<Report, Error> {
    let is_sglang = object.contains_key("total_throughput");
    if !is_sglang && !object.contains_key("request_throughput") {
        let reason = "no request_throughput: this is neither vLLM's nor SGLang's schema";
        return Err(Error::BadResult(reason.to_owned()));
    }
    let layout = if is_sglang { Layout::S3 } else { Layout::V4 };
    let mut report = Report { layout: Some(layout), context: context(object), ..Report::default() };
    let own: &[(&str, Field)] = if is_sglang { &SGLANG } else { &VLLM };
    for (key, field) in SHARED.iter().chain(own) {
        if let Some(scalar) = object.get(*key).and_then(scalar) {
            report.set(crate::Key::Field(*field), scalar);
        }
    }
    if is_sglang {
        set_sglang_words(&mut report, object);
    }
    for (key, value) in object {
        if let (Some((metric, stat)), Some(millis)) = (latency_key(key), value.as_f64()) {
            report.set_latency(metric, stat, millis);
        }
    }
    Ok(report)
}

fn set_sglang_words(report: &mut Report, object: &Map<String, Value>) {
    if let Some(backend) = object.get("backend").and_then(Value::as_str) {
        report.set_words(Field::Backend, backend);
    }
    let rate = match object.get("request_rate") {
        Some(Value::String(words)) => Some(words.clone()),
        Some(Value::Number(number)) => number.as_f64().map(crate::from_summary::python_float),
        _ => None,
    };
    if let Some(rate) = rate {
        report.set_words(Field::TrafficRate, rate);
    }
}

fn scalar(value: &Value) -> Option<Scalar> {
    value.as_u64().map(Scalar::Count).or_else(|| value.as_f64().map(Scalar::Number))
}

/// The label, tag or model names the run; the number of prompts is what was asked for.
fn context(object: &Map<String, Value>) -> Context {
    let word = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let asked = object.get("num_prompts").and_then(Value::as_u64);
    Context {
        heading: word("label").or_else(|| word("tag")).or_else(|| word("model_id")),
        settings: asked
            .map(|count| ("num_prompts".to_owned(), count.to_string()))
            .into_iter()
            .collect(),
        ..Context::default()
    }
}

/// The statistic of a key such as `p99.9_ttft_ms`.
fn latency_key(key: &str) -> Option<(Metric, Stat)> {
    let (stat, metric) = key.strip_suffix("_ms")?.split_once('_')?;
    // Only the words of the two tools: what another tool calls `latency` is not known to be E2E.
    let is_theirs = |one: &Quantity| one.section() == Some(metric) || metric == super::SGLANG_E2E;
    let metric = Metric::of(Quantity::parse(metric).ok().filter(is_theirs)?)?;
    let stat = match stat {
        "mean" => Stat::Mean,
        "median" => Stat::Median,
        "std" => Stat::Std,
        "max" => Stat::Max,
        other => Stat::Percentile(Percentile::parse(other.strip_prefix('p')?)?),
    };
    Some((metric, stat))
}
