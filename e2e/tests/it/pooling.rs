//! Routes that answer with vectors, scores or classes: every backend against the simulated server.

use serde_json::Value;

use crate::program::{Server, run};

/// Backends that send texts, and those that send a query with documents.
pub(crate) const TEXTS: [&str; 9] = [
    "openai-embeddings",
    "openai-embeddings-chat",
    "infinity-embeddings",
    "vllm-pooling",
    "vllm-classify",
    "vllm-embedding",
    "sglang-embedding",
    "cohere-embed",
    "tei-embed",
];

pub(crate) const RANKINGS: [&str; 5] =
    ["vllm-rerank", "vllm-score", "cohere-rerank", "jina-rerank", "tei-rerank"];

fn measured(backend: &str, server: &Server, more: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --backend {backend} --base-url {} --model simulated --num-prompts 6 \
         --random-input-len 30 --conventions vllm --tokenizer cl100k --no-run-dir --format json {more}",
        server.url
    );
    run(folder.path(), &line).succeeded().json()
}

#[test]
fn every_route_without_generation_is_measured() {
    let vllm = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    let sglang = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", "sglang"]);
    for backend in TEXTS.into_iter().chain(RANKINGS) {
        let server = if backend.starts_with("sglang") { &sglang } else { &vllm };
        let (flags, requests) = match backend {
            "openai-embeddings-chat" => ("--dataset-name random", 6),
            _ if RANKINGS.contains(&backend) => ("--dataset-name random-rerank --batch-size 2", 3),
            _ => ("--dataset-name random --random-batch-size 2", 3),
        };
        let page = measured(backend, server, flags);
        let summary = &page["summary"];
        assert_eq!(summary["counts"]["succeeded"], requests, "{backend}: {summary}");
        assert_eq!(summary["figures"]["total_items"], 6.0, "{backend}");
        assert!(summary["figures"]["items_per_s"].as_f64().unwrap() > 0.0, "{backend}");
        assert!(summary["figures"]["total_prompt_tokens"].as_f64() > Some(100.0), "{backend}");
        for absent in ["output_tokens_per_s", "total_output_tokens", "peak_output_tokens_per_s"] {
            assert_eq!(summary["figures"][absent], Value::Null, "{backend}: {absent}");
        }
        let distributions = &summary["distributions"];
        assert!(distributions["e2e_ms"]["mean"].as_f64() > Some(4.0), "{backend}");
        assert_eq!(distributions["e2e_per_item_ms"]["count"], requests, "{backend}");
        for absent in ["ttft_ms", "tpot_ms", "gap_ms", "first_event_ms"] {
            assert_eq!(distributions[absent], Value::Null, "{backend}: {absent}");
        }
    }
}

/// Vectors may be numbers, text or plain bytes. Only `bytes_only` says nothing about the prompt; its count
/// is then the workload's.
#[test]
fn vectors_are_read_in_every_encoding() {
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    for encoding in ["float", "base64", "bytes", "bytes_only"] {
        let flags = format!(
            r#"--dataset-name random --batch-size 2 --extra-body {{"encoding_format":"{encoding}"}}"#
        );
        let summary = &measured("openai-embeddings", &server, &flags)["summary"];
        assert_eq!(summary["counts"]["succeeded"], 3, "{encoding}: {summary}");
        assert_eq!(summary["figures"]["total_items"], 6.0, "{encoding}");
        assert!(summary["figures"]["total_prompt_tokens"].as_f64() > Some(100.0), "{encoding}");
        assert_eq!(summary["distributions"]["ttft_ms"], Value::Null, "{encoding}");
    }
}

/// SGLang's rerank answers with a bare list.
#[test]
fn a_bare_list_of_scores_is_read() {
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", "sglang"]);
    let page = measured("jina-rerank", &server, "--dataset-name random-rerank --batch-size 3");
    assert_eq!(page["summary"]["counts"]["succeeded"], 2);
    assert_eq!(page["summary"]["figures"]["total_items"], 6.0);
}

#[test]
fn the_record_the_page_and_the_comparison_work_for_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    for name in ["a", "b"] {
        let line = format!(
            "bench --backend openai-embeddings --base-url {} --num-prompts 40 --batch-size 4 \
             --tokenizer cl100k --random-input-len 20 --max-concurrency 2 --run-dir {name} --details --goodput e2el:5000",
            server.url
        );
        let shown = run(folder.path(), &line).succeeded().stdout;
        assert!(shown.contains("Input throughput (inputs/s):"), "{shown}");
        assert!(shown.contains("----------------End-to-end Latency----------------"), "{shown}");
        assert!(shown.contains("E2E per item"), "{shown}");
        assert!(shown.contains("10 requests met E2E"), "{shown}");
        for absent in ["TTFT", "TPOT", "generated", "Output token", "output tok/s", "ITL "] {
            assert!(!shown.contains(absent), "{absent}: {shown}");
        }
    }
    let again = run(folder.path(), "report a --layout v4").succeeded().stdout;
    assert!(again.contains("Input throughput (inputs/s):"), "{again}");
    run(folder.path(), "report a --html page.html").succeeded();
    let compared = run(folder.path(), "compare --a a --b b").stdout;
    assert!(compared.contains("Item throughput") || compared.contains("E2E"), "{compared}");
    assert!(!compared.contains("TTFT"), "{compared}");
}

#[test]
fn what_a_route_cannot_use_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let row = |line: &str, parts: &[&str], code: i32| {
        let server = if line.contains("--base-url") { "" } else { "--sim default" };
        let ended =
            run(folder.path(), &format!("bench {line} {server} --tokenizer cl100k --no-run-dir"));
        ended.says(code, parts);
    };
    row("--batch-size 4", &["`--batch-size 4`", "`openai`", "--max-concurrency"], 2);
    row("--backend vllm-rerank", &["needs a query with documents", "random-rerank"], 2);
    row("--dataset-name random-rerank", &["cannot send the query", "vllm-rerank"], 2);
    row("--backend vllm-pooling --temperature 0", &["`--temperature`", "generates nothing"], 2);
    row("--backend vllm-pooling --goodput ttft:9", &["`ttft`", "e2el:MS"], 2);
    row("--backend tei-embed --batch-size 0", &["greater than zero"], 2);
    let faults = r#"{"broken_paths":[]}"#;
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let line = format!(
        "--backend openai-embeddings --endpoint /nowhere/vectors --base-url {}",
        server.url
    );
    row(&line, &["does not accept `POST /nowhere/vectors`", "404", "--runner pooling"], 3);
}
