//! Every backend name against the simulated server of its protocol.

use std::collections::BTreeSet;

use tokometer_record::{RunReader, Timeline};

use crate::program::{Server, run};
use crate::{audio, pooling};

/// Backend, the server of its protocol, and further flags.
type Row = (&'static str, &'static str, &'static str);

const OPENAI: [Row; 9] = [
    ("openai", "vllm", ""),
    ("vllm", "vllm", ""),
    ("openai-chat", "vllm", ""),
    ("vllm-chat", "vllm", ""),
    ("lmdeploy", "vllm", ""),
    ("lmdeploy-chat", "vllm", ""),
    ("scalellm", "vllm", ""),
    ("openai-responses", "vllm", ""),
    ("anthropic", "vllm", ""),
];

const SGLANG: [Row; 4] = [
    ("sglang", "sglang", ""),
    ("sglang-native", "sglang", ""),
    ("sglang-oai", "sglang", ""),
    ("sglang-oai-chat", "sglang", ""),
];

const OLDER: [Row; 5] = [
    ("tgi", "tgi", ""),
    ("tensorrt-llm", "vllm", ""),
    ("trt", "vllm", ""),
    ("truss", "vllm", ""),
    ("deepspeed-mii", "vllm", "--endpoint /mii"),
];

const LLAMACPP: [Row; 3] = [
    ("llamacpp", "llamacpp", ""),
    ("llamacpp-oai", "llamacpp", ""),
    ("llamacpp-oai-chat", "llamacpp", ""),
];

/// Names that only SGLang's tool has, whose range ratio of 1 means one length.
const SGLANG_S_OWN: [&str; 4] = ["vllm-chat", "lmdeploy-chat", "trt", "truss"];

/// Measures a few requests and expects each to succeed with the asked number of tokens, in the
/// layout of the tool that the name comes from.
fn check(&(backend, flavour, more): &Row) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", flavour]);
    let is_sglang = backend.starts_with("sglang") || SGLANG_S_OWN.contains(&backend);
    let line = format!(
        "bench --backend {backend} --base-url {} --model simulated --dataset-name random \
         --random-input-len 30 --random-output-len 6 --random-range-ratio {} --num-prompts 5 \
         --ignore-eos --no-run-dir {more}",
        server.url,
        if is_sglang { "1" } else { "0" },
    );
    let shown = run(folder.path(), &line).succeeded().stdout;
    let row = |label: &str| {
        let line = shown.lines().find(|line| line.starts_with(label));
        line.and_then(|line| line.rsplit_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    assert_eq!(row("Successful requests:").as_deref(), Some("5"), "{backend}: {shown}");
    assert_eq!(shown.contains("\nBackend: "), is_sglang, "{backend}: {shown}");
    let counts = if is_sglang { "(retokenized):" } else { "Total generated tokens:" };
    let generated = shown.lines().find(|line| line.contains(counts)).unwrap();
    assert!(generated.trim_end().ends_with(" 30"), "{backend}: {shown}");
}

#[test]
fn every_backend_has_a_row_here() {
    let folder = tempfile::tempdir().unwrap();
    let refused = run(folder.path(), "bench --backend zzzzzzzz").stderr;
    let (_, names) = refused.split_once("the choices are ").unwrap();
    let known: BTreeSet<&str> = names.trim().split(", ").collect();
    let tables = [&OPENAI[..], &SGLANG, &OLDER, &LLAMACPP];
    let generating = tables.into_iter().flatten().map(|row| row.0);
    let others = pooling::TEXTS.into_iter().chain(pooling::RANKINGS).chain([audio::BACKEND]);
    let rows: BTreeSet<&str> = generating.chain(others).collect();
    assert_eq!(known, rows);
}

#[test]
fn openai_s_routes_are_measured_by_all_their_names() {
    OPENAI.iter().for_each(check);
}

#[test]
fn sglang_s_routes_are_measured_by_all_their_names() {
    SGLANG.iter().for_each(check);
}

#[test]
fn the_older_protocols_are_measured() {
    OLDER.iter().for_each(check);
}

#[test]
fn llama_cpp_s_routes_are_measured_by_all_their_names() {
    LLAMACPP.iter().for_each(check);
}

#[test]
fn encrypted_connections_are_measured_once_the_certificate_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--tls"]);
    let line = format!(
        "bench --base-url {} --num-prompts 3 --random-input-len 20 --random-output-len 3 --no-run-dir",
        server.url
    );
    let refused = run(folder.path(), &line);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let page = run(folder.path(), &format!("{line} --insecure --json")).succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 3);
}

/// TGI's server counts the token that ends an answer, and sends an event for it: both counts agree.
#[test]
fn an_answer_that_ends_by_itself_is_counted_alike_by_tgi_s_events_and_its_details() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--profile", "tgi-405b", "--slower", "0.01", "--flavour", "tgi"]);
    let line = format!(
        "bench --backend tgi --base-url {} --model simulated --dataset-name random --num-prompts 8 \
         --random-input-len 20 --random-output-len 2000 --quiet --run-dir run",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let reader = RunReader::open(&folder.path().join("run")).unwrap();
    let rows: Vec<Timeline> = reader.timelines().unwrap().collect();
    for row in &rows {
        assert_eq!(row.usage.unwrap().completion_tokens, row.event_tokens());
    }
    let ends_by_itself = |row: &&Timeline| row.event_tokens() < Some(2_000);
    assert!(rows.iter().filter(ends_by_itself).count() > 0, "no answer ended by itself");
}
