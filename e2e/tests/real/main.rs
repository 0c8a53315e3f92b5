//! The built binary against a real inference server: llama.cpp's own, with a tiny random model.
//!
//! The server is installed by `cargo xtask server llamacpp`; the model is made on the
//! spot. What it reports about itself is compared with what was measured. `cargo xtask ci` runs this
//! where the server is installed.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tokometer_e2e::program;
use tokometer_record::{Outcome, RunReader, Timeline};

fn installed() -> PathBuf {
    let folder = program::root().join("target/real/llamacpp");
    assert!(
        folder.join("ready").is_file(),
        "llama.cpp's server is not installed: `cargo xtask server llamacpp`"
    );
    folder
}

/// llama.cpp's server with two slots. It ends when this is dropped.
struct LlamaCpp {
    child: Child,
    url: String,
}

impl LlamaCpp {
    fn start() -> Self {
        let folder = installed();
        let mut child = Command::new(folder.join("venv/bin/python"))
            .arg(program::root().join("e2e/real/llamacpp.py"))
            .arg(folder.join("tiny.gguf"))
            .args(["0", "2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = program::first_line(&mut child);
        let url = line.split_whitespace().last().unwrap_or_default().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "the server said `{line}`");
        Self { child, url }
    }
}

impl Drop for LlamaCpp {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn timelines(folder: &Path) -> Vec<Timeline> {
    RunReader::open(&folder.join("run")).unwrap().timelines().unwrap().collect()
}

/// A counter of the server by the end of its name.
fn counter(url: &str, name: &str) -> f64 {
    let text = http_get(&format!("{url}/metrics"));
    let line = text.lines().find(|line| line.starts_with(&format!("llamacpp:{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn http_get(url: &str) -> String {
    use std::io::{Read, Write};
    let rest = url.strip_prefix("http://").unwrap();
    let (authority, path) = rest.split_at(rest.find('/').unwrap());
    let mut stream = std::net::TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(program::LONGEST)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {authority}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn completions_agree_with_the_servers_own_counters_and_timings() {
    let server = LlamaCpp::start();
    let folder = tempfile::tempdir().unwrap();
    let before = counter(&server.url, "tokens_predicted_total");
    let line = format!(
        "bench --backend llamacpp-oai --base-url {} --dataset-name random --random-input-len 24 \
         --random-output-len 16 --num-prompts 12 --ignore-eos --max-concurrency 6 --format json --run-dir run",
        server.url
    );
    let summary = program::run(folder.path(), &line).succeeded().json();
    assert_eq!(
        summary["summary"]["counts"]["succeeded"], 12,
        "more requests than slots must queue, not fail"
    );
    let rows = timelines(folder.path());
    let told: u32 = rows.iter().map(|row| row.usage.unwrap().completion_tokens.unwrap()).sum();
    let after = counter(&server.url, "tokens_predicted_total");
    assert!(
        (after - before - f64::from(told)).abs() < 0.5,
        "{told} told, {before} to {after} counted"
    );
    for row in rows.iter().filter(|row| row.is_success()) {
        let timings = row.server_timings.expect("llama.cpp reports its timings");
        let sent = row.times.first_byte_sent.unwrap();
        let end = row.times.end.unwrap();
        let inside = timings.prefill.unwrap() + timings.decode.unwrap();
        assert!(inside <= end - sent, "the server worked {inside} within {}", end - sent);
        assert_eq!(row.usage.unwrap().prompt_tokens, Some(24), "prompts have the asked length");
    }
}

/// The server ends its side of the connection behind every stream that it promised to keep, and throws
/// away what comes after: a request that is lost there must not wait for an answer.
#[test]
fn requests_sent_behind_an_answer_are_answered_on_another_connection() {
    let server = LlamaCpp::start();
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --backend llamacpp-oai --base-url {} --dataset-name random --random-input-len 16 \
         --random-output-len 4 --num-prompts 60 --ignore-eos --max-concurrency 1 --stall-timeout 60s \
         --quiet --run-dir run",
        server.url
    );
    program::run(folder.path(), &line).succeeded();
    let rows = timelines(folder.path());
    assert_eq!(rows.iter().filter(|row| row.is_success()).count(), 60);
    for row in rows {
        let is_lost = row.times.lost_send.is_some();
        assert_eq!(u32::from(is_lost), row.connection.reopened);
        assert!(row.times.lost_send <= row.times.first_byte_sent);
    }
}

/// The server leaves its role event out when the first token is half a character: about one answer in
/// twenty of a model that writes noise.
#[test]
fn a_role_event_opens_a_chat_and_is_not_its_first_token() {
    let server = LlamaCpp::start();
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --backend llamacpp-oai-chat --base-url {} --dataset-name random --random-input-len 16 \
         --random-output-len 8 --num-prompts 8 --ignore-eos --quiet --run-dir run",
        server.url
    );
    program::run(folder.path(), &line).succeeded();
    let rows = timelines(folder.path());
    let is_role = |event: &tokometer_record::Event| event.kind == tokometer_record::EventKind::Role;
    assert!(rows.iter().any(|row| row.events.iter().any(is_role)), "no answer has a role event");
    for row in &rows {
        assert!(
            !row.events.iter().skip(1).any(is_role),
            "a role event opens an answer or is absent"
        );
        assert!(row.first_content().unwrap().at >= row.first_event().unwrap().at);
    }
}

#[test]
fn a_prompt_that_is_too_long_fails_with_the_servers_own_words() {
    let server = LlamaCpp::start();
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --backend llamacpp-oai --base-url {} --dataset-name random --random-input-len 4000 \
         --random-output-len 4 --num-prompts 2 --quiet --run-dir run",
        server.url
    );
    let ended = program::run(folder.path(), &line);
    assert_eq!(ended.code, Some(7), "no request can succeed: {}", ended.stderr);
    for row in timelines(folder.path()) {
        let Outcome::Failed(failure) = row.outcome else { panic!("{:?}", row.outcome) };
        assert_eq!(failure.status, Some(400));
        assert!(failure.message.contains("exceed"), "{}", failure.message);
    }
}

#[test]
fn a_cancelled_run_is_reported_as_partial_and_the_server_lives_on() {
    let server = LlamaCpp::start();
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --backend llamacpp-oai --base-url {} --dataset-name random --random-input-len 16 \
         --random-output-len 200 --num-prompts 500 --ignore-eos --max-concurrency 4 --format json --run-dir run",
        server.url
    );
    let started = program::Started::new(folder.path(), &line);
    program::wait_until("the record shows that requests end", || {
        has_rows(&folder.path().join("run"))
    });
    started.signal(nix::sys::signal::Signal::SIGINT);
    let ended = started.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(summary["summary"]["ended"]["early"], "interrupted", "{summary}");
    assert!(http_get(&format!("{}/health", server.url)).contains("200"));
}

fn has_rows(folder: &Path) -> bool {
    let reader = RunReader::open(folder);
    reader.and_then(|reader| Ok(reader.timelines()?.next().is_some())).unwrap_or(false)
}
