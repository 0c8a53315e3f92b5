//! Every backend name against the simulated server that speaks it.

use crate::program::{Server, run};

/// Measures a few requests and expects all of them to succeed with the asked number of tokens.
fn check(flavour: &str, backend: &str, more: &str) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", flavour]);
    let line = format!(
        "bench --backend {backend} --base-url {} --model simulated --dataset-name random \
         --random-input-len 30 --random-output-len 6 --random-range-ratio {} --num-prompts 5 \
         --ignore-eos --json --no-run-dir {more}",
        server.url,
        if backend.starts_with("sglang") { "1" } else { "0" },
    );
    let page = run(folder.path(), &line).succeeded().json();
    let summary = &page["summary"];
    assert_eq!(summary["counts"]["succeeded"], 5, "{backend}: {summary:#}");
    assert_eq!(summary["counts"]["failed"], 0, "{backend}");
    let ttft = &summary["distributions"]["ttft_ms"]["mean"];
    assert!(ttft.as_f64().is_some_and(|mean| mean > 0.0), "{backend}: {ttft}");
}

#[test]
fn openai_s_routes_are_measured_by_all_their_names() {
    for backend in ["openai", "vllm", "openai-chat", "vllm-chat", "lmdeploy", "scalellm"] {
        check("vllm", backend, "");
    }
    check("vllm", "lmdeploy-chat", "");
}

#[test]
fn sglang_s_routes_are_measured_by_all_their_names() {
    for backend in ["sglang", "sglang-native", "sglang-oai", "sglang-oai-chat"] {
        check("sglang", backend, "");
    }
}

#[test]
fn the_older_protocols_are_measured() {
    check("tgi", "tgi", "");
    check("vllm", "tensorrt-llm", "");
    check("vllm", "trt", "");
    check("llamacpp", "llamacpp", "");
    check("llamacpp", "llamacpp-oai", "");
    check("llamacpp", "llamacpp-oai-chat", "");
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
