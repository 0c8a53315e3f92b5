//! Reads result files back into reports.

use serde_json::{Map, Value};
use tokometer_base::printable;
use tokometer_figures::figure::Quantity;

use super::statistics;
use super::written::WrittenNumber;
use crate::model::{Context, Field, Key, Metric, Percentile, Problem, Report, Stat, UnreadValue};
use crate::{Error, Layout, parse};

/// More broken objects than this are not skipped: the text is something else.
const MOST_BROKEN: usize = 64;

/// The reports in any text: result files, printed blocks, and either of them inside other JSON such
/// as a container's log or a notebook.
pub fn read(text: &str) -> Result<Vec<Report>, Error> {
    let text = text.trim_start_matches('\u{feff}');
    match text.trim_start().chars().next() {
        Some('{') => read_results(text).or_else(|why| {
            let values = values(text);
            let inside = nested(&values).or_else(|| {
                let printed = parse(&strings(&values));
                Some(printed).filter(|printed| !printed.is_empty())
            });
            inside.ok_or(why)
        }),
        Some('[') => Ok(read_list(text).unwrap_or_else(|| parse(text))),
        _ => {
            let printed = parse(text);
            // The keys of a JSON object on lines of their own look like the lines of a report.
            let is_loose = |report: &Report| {
                report.problems.iter().any(|it| matches!(it, Problem::NoHeader { .. }))
            };
            if !printed.iter().all(is_loose) {
                return Ok(printed);
            }
            Ok(Some(read_embedded(text)).filter(|found| !found.is_empty()).unwrap_or(printed))
        }
    }
}

/// A JSON list of result objects; `None` when it is none.
fn read_list(text: &str) -> Option<Vec<Report>> {
    let list: Vec<Value> = serde_json::from_str(&with_valid_numbers(text)).ok()?;
    let reports = nested(&list).unwrap_or_else(|| parse(&strings(&list)));
    Some(reports).filter(|reports| !reports.is_empty())
}

/// Result objects at any depth of some JSON: `{"results": [...]}`, or one per name. `None` without any.
fn nested(values: &[Value]) -> Option<Vec<Report>> {
    fn add(value: &Value, reports: &mut Vec<Report>) {
        match value {
            Value::Array(list) => list.iter().for_each(|value| add(value, reports)),
            Value::Object(object) => match report(object) {
                Ok(report) => reports.push(report),
                Err(_) => object.values().for_each(|value| add(value, reports)),
            },
            _ => {}
        }
    }
    let mut reports = Vec::new();
    for value in values {
        add(value, &mut reports);
    }
    Some(reports).filter(|reports| !reports.is_empty())
}

/// Result objects that stand between other words, as in a Markdown fence or behind a log's prefix.
fn read_embedded(text: &str) -> Vec<Report> {
    let mut reports = Vec::new();
    let mut broken = 0;
    let mut rest = text;
    while let Some(begin) = rest.find('{').filter(|_| broken < MOST_BROKEN) {
        let from = &rest[begin..];
        let is_object = from[1..].trim_start().starts_with('"');
        let end = if is_object { end_of_object(from) } else { None };
        let object =
            end.and_then(|end| serde_json::from_str(&with_valid_numbers(&from[..end])).ok());
        if let (Some(end), Some(object)) = (end, object) {
            reports.extend(nested(&[Value::Object(object)]).unwrap_or_default());
            rest = &from[end..];
        } else {
            broken += usize::from(is_object);
            rest = &from[1..];
        }
    }
    reports
}

/// The bytes of the object at the beginning of a text; `None` where it does not end.
fn end_of_object(text: &str) -> Option<usize> {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' if !is_string => depth += 1,
            b'}' if !is_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The reports of a result file, which may hold several objects. An object that
/// cannot be read is named in the report before it, or in the first one.
pub fn read_results(text: &str) -> Result<Vec<Report>, Error> {
    let mut reports: Vec<Report> = Vec::new();
    let mut problems: Vec<(usize, String)> = Vec::new();
    for object in objects(text) {
        match object.and_then(|object| report(&object)) {
            Ok(report) => reports.push(report),
            Err(why) => problems.push((reports.len().saturating_sub(1), why)),
        }
    }
    for (at, why) in problems {
        let Some(report) = reports.get_mut(at) else { return Err(Error::BadResult(why)) };
        report.problems.push(Problem::BadObject { why });
    }
    Ok(reports)
}

/// The JSON values of a text that are there; those behind a broken one are left out.
fn values(text: &str) -> Vec<Value> {
    let text = with_valid_numbers(text);
    let stream = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    stream.map_while(Result::ok).collect()
}

/// Every object of a text. A broken one ends at the next line that begins with a brace.
fn objects(text: &str) -> Vec<Result<Map<String, Value>, String>> {
    let text = with_valid_numbers(text);
    let mut rest = text.as_str();
    let mut found = Vec::new();
    let mut broken = 0;
    loop {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Map<String, Value>>();
        // The offset is that of the broken object only until the stream is asked again.
        let mut failure = None;
        while failure.is_none() {
            match stream.next() {
                Some(Ok(object)) => found.push(Ok(object)),
                Some(Err(why)) => failure = Some(why),
                None => return found,
            }
        }
        let Some(why) = failure else { return found };
        found.push(Err(format!("object {}: {why}", found.len() + 1)));
        broken += 1;
        let begin = stream.byte_offset();
        let next = rest.get(begin..).and_then(|after| {
            let skipped = after.len() - after.trim_start().len() + 1;
            Some(begin + skipped + after.get(skipped..)?.find("\n{")? + 1)
        });
        match next.filter(|_| broken < MOST_BROKEN) {
            Some(next) => rest = &rest[next..],
            None => return found,
        }
    }
}

/// All strings of some JSON as one text: what a log or a notebook says.
fn strings(values: &[Value]) -> String {
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

const VLLM: [(&str, Field); 12] = [
    ("total_token_throughput", Field::TotalThroughput),
    ("request_goodput", Field::Goodput),
    // vLLM of 2024 wrote the colon into the key.
    ("request_goodput:", Field::Goodput),
    ("request_rate", Field::RateConfigured),
    ("input_sequence_throughput", Field::InputSequenceThroughput),
    ("rtfx", Field::Rtfx),
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

fn report(object: &Map<String, Value>) -> Result<Report, String> {
    if let Some(report) = statistics::report(object) {
        return Ok(report);
    }
    let has = |key: &str| object.get(key).is_some_and(|told| !told.is_object() && !told.is_array());
    let is_sglang = has("total_throughput");
    if !is_sglang && !has("request_throughput") {
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
        let Some((metric, stat)) = latency_key(key) else { continue };
        match scalar(value) {
            Ok(number) => {
                if let Some(number) = number {
                    report.values.set(Key::Latency(metric, stat), number.scaled(1.0));
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
    UnreadValue { line: 0, column: 0, label: printable::short(key), text: printable::short(text) }
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
