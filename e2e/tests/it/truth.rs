//! The record against the simulated server's own log, request by request.

use std::collections::HashMap;

use tokometer_record::timeline::TOLERATED_INVERSION;
use tokometer_record::{EventKind, Phase, RunReader};
use tokometer_sim::truth::{self, SentKind, TrueRequest};

use crate::program::{Server, run};

/// Runs a bench against a server with these flags and compares every request.
fn check(server: &[&str], bench: &str) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("truth.log");
    let server = Server::new(&[server, &["--truth", log.to_str().unwrap()]].concat());
    let line = format!(
        "bench --base-url {} --request-id-prefix t- --quiet --run-dir r {bench}",
        server.url
    );
    run(folder.path(), &line).succeeded();
    server.stop();
    let truths: HashMap<String, TrueRequest> = truth::read(&log)
        .unwrap()
        .into_iter()
        .filter_map(|request| Some((request.request_id.clone()?, request)))
        .collect();
    let reader = RunReader::open(&folder.path().join("r")).unwrap();
    let rows: Vec<_> =
        reader.timelines().unwrap().filter(|row| row.identity.phase == Phase::Measure).collect();
    assert_eq!(rows.len(), 24, "{bench}");
    for row in rows {
        let truth = &truths[&format!("t-{}", row.identity.index)];
        let usage = row.usage.unwrap();
        assert_eq!(usage.completion_tokens, Some(truth.answer_tokens));
        assert_eq!(usage.prompt_tokens, Some(truth.prompt_tokens));
        // A chat template is counted apart: the server sees more than was asked.
        let asked = row.requested.prompt_tokens.unwrap();
        let is_chat = truth.path.contains("/chat/");
        assert!(asked == truth.prompt_tokens || (is_chat && asked < truth.prompt_tokens));
        let seen = row.events.iter().filter(|event| event.kind == EventKind::Text);
        let seen: Vec<_> = seen.map(|event| event.at).collect();
        let sent: Vec<_> =
            truth.events.iter().filter(|event| event.kind == SentKind::Text).collect();
        assert_eq!(seen.len(), sent.len(), "request {}", row.identity.index);
        for (seen, sent) in seen.iter().zip(sent) {
            // Two clocks are compared; they agree to within what the record itself tolerates.
            assert!(*seen + TOLERATED_INVERSION >= sent.before, "{seen:?} before {sent:?}");
        }
        let sent_at = row.times.first_byte_sent.unwrap();
        assert!(truth.first_byte + TOLERATED_INVERSION >= sent_at, "read before it was sent");
    }
}

#[test]
fn a_paced_server_and_its_record_agree_on_every_token() {
    let load = "--num-prompts 24 --max-concurrency 8 --random-input-len 50 --random-output-len 12";
    check(&["--ttft", "10ms", "--itl", "3ms"], load);
    check(
        &["--ttft", "10ms", "--itl", "3ms"],
        &format!("{load} --socket-reads eager --connections preopen"),
    );
}

#[test]
fn an_engine_and_its_record_agree_on_every_token() {
    check(
        &["--profile", "default"],
        "--num-prompts 24 --request-rate 60 --random-input-len 300 --random-output-len 9",
    );
}

#[test]
fn a_chat_route_and_its_record_agree_on_every_token() {
    check(
        &["--ttft", "10ms", "--itl", "2ms"],
        "--backend openai-chat --num-prompts 24 --max-concurrency 6 --random-input-len 40 \
         --random-output-len 7 --connections per-request",
    );
}

/// A server that spins beside the client takes the core that the measurement needs.
#[test]
fn an_idle_simulated_server_uses_no_cpu() {
    for flags in [&["--ttft", "1ms", "--itl", "1ms"][..], &["--engine", "small"]] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::new(flags);
        let line = "--num-prompts 4 --random-input-len 8 --random-output-len 4 --quiet --run-dir r";
        run(folder.path(), &format!("bench --base-url {} {line}", server.url)).succeeded();
        let before = server.cpu_ticks();
        std::thread::sleep(std::time::Duration::from_millis(500));
        let used = server.cpu_ticks() - before;
        assert!(used <= 10, "{flags:?}: {used} ticks in half a second without a request");
    }
}
