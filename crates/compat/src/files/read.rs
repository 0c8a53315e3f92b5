//! Reads result files back into reports.

use serde_json::{Map, Value};
use tokometer_base::printable;
use tokometer_figures::figure::Quantity;

use super::statistics;
use super::written::WrittenNumber;
use crate::file_keys::{SGLANG, SHARED, VLLM};
use crate::model::{Context, Field, Key, Metric, Problem, Report, Stat, UnreadValue};
use crate::{Error, Layout, parse};

/// The reports in any text: result files, printed blocks, and either of them inside other JSON such
/// as a container's log or a notebook. A line that cannot be read is named in the report before it, or in the
/// first one.
pub fn read(text: &str) -> Result<Vec<Report>, Error> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(parse(text));
    }
    let values = values(text);
    let mut reports: Vec<Report> = Vec::new();
    let mut problems: Vec<(usize, String)> = Vec::new();
    for value in &values {
        let found = value.as_ref().map_err(String::clone).and_then(nested);
        match found {
            Ok(found) => reports.extend(found),
            Err(why) => problems.push((reports.len().saturating_sub(1), why)),
        }
    }
    if reports.is_empty() {
        let printed = parse(&strings(values.iter().flatten()));
        let is_json = text.trim_start().starts_with('{') || values.iter().any(Result::is_ok);
        return match problems.into_iter().next() {
            Some((_, why)) if printed.is_empty() && is_json => Err(Error::BadResult(why)),
            _ if is_json => Ok(printed),
            // Lines of a log begin with a bracket too.
            _ => Ok(parse(text)),
        };
    }
    for (at, why) in problems {
        reports[at].problems.push(Problem::BadObject { why });
    }
    Ok(reports)
}

/// The JSON of a text: values one after the other, or one on each line where some are broken.
fn values(text: &str) -> Vec<Result<Value, String>> {
    let text = with_valid_numbers(text);
    let whole: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&text).into_iter().collect();
    if let Ok(values) = whole {
        return values.into_iter().map(Ok).collect();
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let value = |(number, line): (u64, &str)| {
        serde_json::from_str(line).map_err(|why| format!("object {number}: {why}"))
    };
    (1..).zip(lines).map(value).collect()
}

/// Result objects at any depth of some JSON: `{"results": [...]}`, or one per name. Without any, what is
/// wrong with it.
fn nested(value: &Value) -> Result<Vec<Report>, String> {
    let own = report(value).map(|report| vec![report]);
    own.or_else(|why| {
        let parts: Vec<&Value> = match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(object) => object.values().collect(),
            _ => Vec::new(),
        };
        let found: Vec<Report> = parts.into_iter().flat_map(nested).flatten().collect();
        if found.is_empty() { Err(why) } else { Ok(found) }
    })
}

/// All strings of some JSON as one text: what a log or a notebook says.
fn strings<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    fn add(value: &Value, text: &mut String) {
        match value {
            Value::String(words) => {
                text.push_str(words);
                if !words.ends_with('\n') {
                    text.push('\n');
                }
            }
            Value::Array(list) => list.iter().for_each(|value| add(value, text)),
            Value::Object(object) => object.values().for_each(|value| add(value, text)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut text = String::new();
    for value in values {
        add(value, &mut text);
    }
    text
}

/// Python writes `Infinity`, `-Infinity` and `NaN`, which JSON does not know.
fn with_valid_numbers(text: &str) -> String {
    let mut valid = String::with_capacity(text.len());
    let mut is_string = false;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let bare = [("-Infinity", "\"-inf\""), ("Infinity", "\"inf\""), ("NaN", "\"nan\"")]
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

/// vLLM's count of prompts in the file of a pooling run, whose requests may hold several.
pub const INPUT_SEQUENCES: &str = "total_input_sequences";

fn report(value: &Value) -> Result<Report, String> {
    if let Some(report) = statistics::report(value) {
        return Ok(report);
    }
    let empty = Map::new();
    let object = value.as_object().unwrap_or(&empty);
    let has = |key: &str| object.get(key).is_some_and(|told| !told.is_object() && !told.is_array());
    let is_sglang = has("total_throughput");
    // The aggregate of InferenceX has throughputs per device and no others.
    if !is_sglang && !has("request_throughput") && !has("tput_per_gpu") {
        let reason = "it has no `request_throughput`, nor the metrics of another known tool";
        return Err(reason.to_owned());
    }
    let layout = if is_sglang { Layout::S3 } else { Layout::V4 };
    let mut report = Report { layout: Some(layout), context: context(object), ..Report::default() };
    let own: &[(&str, Field)] = if is_sglang { &SGLANG } else { &VLLM };
    for (key, field) in SHARED.iter().chain(own) {
        match object.get(*key).map(scalar) {
            Some(Ok(Some(value))) => report.values.set(Key::Field(*field), value.of_field(*field)),
            // A run without a rate says `inf`.
            Some(Err(_)) if *field == Field::RateConfigured => {}
            Some(Err(text)) => report.unread.push(unread(key, &text)),
            Some(Ok(None)) | None => {}
        }
    }
    if is_sglang {
        set_sglang_words(&mut report, object);
    }
    for (key, value) in object {
        let in_millis = latency_key(key.strip_suffix("_ms").unwrap_or_default(), 1.0);
        // InferenceX saves the same statistics in seconds, without a unit in their keys.
        let in_seconds =
            || latency_key(key, 1e3).filter(|_| !object.contains_key(&format!("{key}_ms")));
        let Some(LatencyKey { metric, stat, millis }) = in_millis.or_else(in_seconds) else {
            continue;
        };
        match scalar(value) {
            Ok(number) => {
                if let Some(number) = number {
                    report.values.set(Key::Latency(metric, stat), number.scaled(millis));
                }
            }
            Err(text) => report.unread.push(unread(key, &text)),
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

/// A number, also inside quotes. `None` for a missing one; the text of anything else.
fn scalar(value: &Value) -> Result<Option<WrittenNumber>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => match WrittenNumber::of_text(text) {
            Some(number) => Ok(Some(number)),
            None => Err(text.clone()),
        },
        other => WrittenNumber::of(other).map(Some).ok_or_else(|| other.to_string()),
    }
}

fn unread(key: &str, text: &str) -> UnreadValue {
    UnreadValue { line: 0, label: printable::short(key), text: printable::short(text) }
}

/// The label, tag or model names the run; the number of prompts is what was asked for.
fn context(object: &Map<String, Value>) -> Context {
    let word = |key: &str| object.get(key).and_then(Value::as_str).map(printable::short);
    // Where prompts share requests, the number of prompts is that of the sequences and not of the requests.
    let counts = ["num_prompts", INPUT_SEQUENCES];
    let setting = |key: &str| Some((key.to_owned(), object.get(key)?.as_u64()?.to_string()));
    Context {
        heading: word("label").or_else(|| word("tag")).or_else(|| word("model_id")),
        settings: counts.into_iter().filter_map(setting).collect(),
        ..Context::default()
    }
}

/// What a key such as `p99.9_ttft` names, and the milliseconds of its unit.
struct LatencyKey {
    metric: Metric,
    stat: Stat,
    millis: f64,
}

fn latency_key(key: &str, millis: f64) -> Option<LatencyKey> {
    let (stat, metric) = key.split_once('_')?;
    // Only the words of the two tools: what another tool calls `latency` is not known to be E2E.
    let is_theirs = |one: &Quantity| one.section() == Some(metric) || metric == super::SGLANG_E2E;
    let metric = Metric::of(Quantity::parse(metric).ok().filter(is_theirs)?)?;
    Some(LatencyKey { metric, stat: Stat::from_label(stat)?, millis })
}
