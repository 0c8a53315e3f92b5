//! The server's streams against those of the servers that it imitates: each captured request is sent to
//! the simulator and the answer must have the same shape, event by event and chunk by chunk.

use std::path::PathBuf;

use serde_json::Value;
use tokometer_sim::SimConfig;
use tokometer_sim::config::Flavour;
use tokometer_sim::faults::{Errors, Which};

use crate::client::{Answer, Running, events, quick};

/// Values that tell what an event is; all others are texts, ids and figures.
const TELLING: [&str; 6] =
    ["finish_reason", "object", "role", "status", "stop_reason", "stop_type"];

/// Parts whose inside depends on settings that the simulator does not have.
const OPAQUE: [&str; 3] = ["generation_settings", "cached_tokens_details", "prompt_token_ids"];

fn capture(name: &str) -> (Vec<u8>, Answer) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures");
    let read = |ending: &str| std::fs::read(folder.join(format!("{name}.{ending}"))).unwrap();
    (read("req"), Answer::parse(&read("raw")))
}

/// A JSON value with only its keys and its telling values.
fn skeleton(key: &str, value: &Value) -> String {
    match value {
        _ if OPAQUE.contains(&key) => "…".to_owned(),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(key, value)| format!("{key}:{}", skeleton(key, value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let is_list_of_figures = items.iter().all(|item| !item.is_object());
            if is_list_of_figures && !items.is_empty() {
                return "[…]".to_owned();
            }
            let items = items.iter().map(|item| skeleton(key, item));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        _ if TELLING.contains(&key) => value.to_string(),
        _ => "_".to_owned(),
    }
}

/// The shape of an event; a named one keeps its name.
fn event_skeleton(event: &str) -> String {
    if let Some((name, data)) = event.split_once("\ndata: ") {
        return format!("{name} {}", event_skeleton(data));
    }
    serde_json::from_str(event).map_or_else(|_| event.to_owned(), |value| skeleton("", &value))
}

/// The shape of an answer: one line per HTTP chunk, or one for the whole body.
fn shape(answer: &Answer) -> Vec<String> {
    let content_type = answer.head.to_ascii_lowercase();
    let kind = if content_type.contains("text/event-stream") { "events" } else { "whole" };
    let mut lines = vec![format!("{} {kind}", answer.status)];
    if answer.chunks.is_empty() {
        lines.push(event_skeleton(&answer.text()));
    }
    for chunk in &answer.chunks {
        let parts: Vec<String> = events(chunk).iter().map(|event| event_skeleton(event)).collect();
        lines.push(parts.join(" + "));
    }
    lines
}

/// The name of the model that a captured request asks for.
fn model_in(request: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(request);
    let body: Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
    Some(body.get("model")?.as_str()?.to_owned())
}

fn check_with(config: SimConfig, name: &str) {
    let (request, captured) = capture(name);
    let server = Running::start(config);
    let answer = server.exchange(&request);
    assert_eq!(shape(&answer), shape(&captured), "{name}");
    assert_eq!(answer.is_complete, captured.is_complete, "{name}");
}

fn check(flavour: Flavour, name: &str) {
    let (request, _) = capture(name);
    let model = model_in(&request).unwrap_or_else(|| "tiny".to_owned());
    check_with(SimConfig { flavour, model, ..quick() }, name);
}

#[test]
fn streams_have_the_events_of_the_servers_they_imitate() {
    for name in [
        "vllm-completions",
        "vllm-completions-nousage",
        "vllm-completions-tokenids",
        "vllm-chat",
        "vllm-chat-contusage",
        "vllm-responses-stream-ignore_eos",
        "vllm-responses-messages-input",
        "vllm-messages-stream",
        "vllm-embeddings",
        "vllm-embeddings-batch",
        "vllm-embeddings-chat",
        "vllm-pooling",
        "vllm-rerank",
        "vllm-rerank-v1-top_n",
        "vllm-score",
    ] {
        check(Flavour::Vllm, name);
    }
    for name in ["sglang-completions", "sglang-chat", "sglang-generate", "sglang-generate-ids"] {
        check(Flavour::Sglang, name);
    }
    for name in
        ["llamacpp-completions", "llamacpp-chat", "llamacpp-ping", "llamacpp-native-completion"]
    {
        check(Flavour::Llamacpp, name);
    }
    for name in ["tgi-completions", "tgi-chat", "tgi-generate_stream"] {
        check(Flavour::Tgi, name);
    }
    for name in ["hf-completions", "hf-chat"] {
        check(Flavour::Transformers, name);
    }
}

#[test]
fn whole_answers_have_the_fields_of_the_servers_they_imitate() {
    check(Flavour::Sglang, "sglang-generate-nonstream");
    check(Flavour::Llamacpp, "llamacpp-completions-nonstream");
    check(Flavour::Tgi, "tgi-generate");
    check(Flavour::Vllm, "vllm-tokenize");
    check(Flavour::Vllm, "vllm-responses-nonstream");
    check(Flavour::Vllm, "vllm-messages-nonstream");
}

#[test]
fn refusals_are_worded_like_those_of_the_servers_they_imitate() {
    for (flavour, names) in [
        (Flavour::Vllm, &["vllm-err-404", "vllm-err-badjson", "vllm-err-ctx"][..]),
        (Flavour::Sglang, &["sglang-err-badjson", "sglang-err-ctx-oai", "sglang-err-ctx"]),
        (
            Flavour::Llamacpp,
            &[
                "llamacpp-err-404",
                "llamacpp-err-badjson",
                "llamacpp-err-badparam",
                "llamacpp-err-ctx",
            ],
        ),
        (Flavour::Tgi, &["tgi-err-inputlen"]),
        (Flavour::Transformers, &["hf-err-badjson", "hf-err-badparam"]),
    ] {
        for name in names {
            check(flavour, name);
        }
    }
    for name in ["vllm-err-model", "vllm-responses-err-model", "vllm-messages-err-model"] {
        check_with(SimConfig { flavour: Flavour::Vllm, ..quick() }, name);
    }
    check(Flavour::Vllm, "vllm-responses-err-maxtokens");
    check(Flavour::Vllm, "vllm-messages-err-nomax");
    // The last two are plain texts: only their status and kind are compared.
    for (flavour, name) in
        [(Flavour::Transformers, "hf-err-model"), (Flavour::Tgi, "tgi-err-badjson")]
    {
        let (request, captured) = capture(name);
        let answer = Running::start(SimConfig { flavour, ..quick() }).exchange(&request);
        assert_eq!(shape(&answer)[0], shape(&captured)[0], "{name}");
    }
}

#[test]
fn an_overloaded_router_says_so_inside_the_stream_and_outside_it() {
    for name in ["tgi-err-overloaded", "tgi-generate-overloaded"] {
        let mut config = SimConfig { flavour: Flavour::Tgi, ..quick() };
        config.faults.errors =
            Some(Errors { status: 429, which: Which::Every(1), retry_after_s: None });
        check_with(config, name);
    }
}

#[test]
fn the_metrics_pages_use_names_that_the_servers_have() {
    for (flavour, name) in
        [(Flavour::Vllm, "vllm-metrics"), (Flavour::Llamacpp, "llamacpp-metrics")]
    {
        let (request, captured) = capture(name);
        let answer = Running::start(SimConfig { flavour, ..quick() }).exchange(&request);
        let captured = captured.text();
        let page = answer.text();
        let names = page.lines().filter(|line| !line.starts_with('#'));
        for line in names {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(captured.contains(name), "{name} is no metric of {flavour:?}");
        }
    }
}
