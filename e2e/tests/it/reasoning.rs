//! Reasoning ahead of the answer, as the simulated server sends it on its three routes.

use serde_json::Value;
use tokometer_record::EventKind;

use crate::program::{Server, run};
use crate::shards::rows;

const REASONING: usize = 5;
const TOKENS: usize = 12;

fn summary(folder: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(folder.join("summary.json")).unwrap();
    let page: Value = serde_json::from_str(&text).unwrap();
    page.get("summary").cloned().unwrap_or(page)
}

#[test]
fn reasoning_comes_before_the_answer_and_both_are_timed() {
    let server = Server::new(&["--ttft", "20ms", "--itl", "4ms", "--reasoning", "5"]);
    for backend in ["openai-chat", "openai-responses", "anthropic"] {
        for whole in ["", "--disable-stream"] {
            let folder = tempfile::tempdir().unwrap();
            let line = format!(
                "bench --backend {backend} --base-url {} --model simulated --num-prompts 3 {whole} \
                 --max-concurrency 1 --random-input-len 8 --random-output-len {TOKENS} \
                 --ready-check-timeout-sec 0 --run-dir a --quiet",
                server.url
            );
            let _ = run(folder.path(), &line).succeeded();
            let rows = rows(&folder.path().join("a"));
            assert_eq!(rows.iter().filter(|row| row.is_success()).count(), 3, "{backend} {whole}");
            let summary = summary(&folder.path().join("a"));
            if !whole.is_empty() {
                continue;
            }
            for row in &rows {
                let kinds: Vec<EventKind> = row.events.iter().map(|event| event.kind).collect();
                let count = |kind| kinds.iter().filter(|one| **one == kind).count();
                assert_eq!(count(EventKind::Reasoning), REASONING, "{backend}: {kinds:?}");
                let tokens = usize::try_from(row.output_tokens().unwrap().0).unwrap();
                assert_eq!(count(EventKind::Text), tokens - REASONING, "{backend}: {kinds:?}");
                let last = kinds.iter().rposition(|kind| *kind == EventKind::Reasoning);
                let first = kinds.iter().position(|kind| *kind == EventKind::Text);
                assert!(last < first, "{backend}: {kinds:?}");
            }
            let mean = |key: &str| summary["distributions"][key]["mean"].as_f64().unwrap();
            // Five tokens, 4 ms apart.
            let between = mean("first_answer_ms") - mean("ttft_ms");
            assert!(between > 15.0, "{backend}: {between} ms of reasoning");
        }
    }
}
