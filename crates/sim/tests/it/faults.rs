//! Each fault does what it says, and nothing else.

use std::io::{ErrorKind, Read, Write};

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_sim::SimConfig;
use tokometer_sim::faults::{DoneFault, Errors, Faults, PacketFault, Stall, UsageFault, Which};
use tokometer_sim::truth::{self, SentKind, StreamEnd, TrueRequest};

use crate::client::{Answer, Running, post, quick};

fn body(tokens: u32) -> String {
    json!({
        "model": "tiny", "prompt": "Hello", "max_tokens": tokens, "stream": true, "ignore_eos": true,
        "stream_options": { "include_usage": true },
    })
    .to_string()
}

fn server(faults: Faults) -> Running {
    Running::start(SimConfig { faults, ..quick() })
}

fn answer(faults: Faults, tokens: u32) -> Answer {
    server(faults).post(
        "/v1/chat/completions",
        &body(tokens).replace(
            "\"prompt\":\"Hello\"",
            "\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]",
        ),
    )
}

/// What the server says that it sent.
fn truth_of(faults: Faults, tokens: u32) -> TrueRequest {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth");
    let server = Running::start(SimConfig { faults, truth: Some(path.clone()), ..quick() });
    let answer = server.post("/v1/completions", &body(tokens));
    assert!(answer.is_complete);
    server.stop();
    truth::read(&path).unwrap().remove(0)
}

#[test]
fn some_requests_are_answered_with_an_error() {
    let errors = Errors { status: 429, which: Which::Every(2), retry_after_s: Some(3) };
    let server = server(Faults { errors: Some(errors), ..Faults::default() });
    assert_eq!(server.post("/v1/completions", &body(1)).status, 200);
    let refused = server.post("/v1/completions", &body(1));
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("retry-after: 3"), "{}", refused.head);
    assert!(refused.json()["error"]["message"].is_string());
    assert_eq!(server.post("/v1/completions", &body(1)).status, 200);
}

#[test]
fn a_stream_is_cut_in_the_middle() {
    let answer = answer(Faults { cut_after_tokens: Some(3), ..Faults::default() }, 9);
    // Role and three tokens, no end.
    assert_eq!(answer.events().len(), 4);
    assert!(!answer.is_complete);
}

/// An answer of exactly as many tokens was sent with its end, then reset, and logged as broken.
#[test]
fn a_stream_is_cut_before_its_end_though_all_its_tokens_were_sent() {
    let answer = answer(Faults { cut_after_tokens: Some(3), ..Faults::default() }, 3);
    assert_eq!(answer.events().len(), 4);
    assert!(!answer.is_complete && !answer.text().contains("[DONE]"), "{}", answer.text());
    assert!(!answer.text().contains("\"length\""), "no finish reason: {}", answer.text());
}

/// The whole answer was known while the stall held it back; its connection was closed as idle and the
/// answer logged as complete.
#[test]
fn a_connection_that_holds_an_answer_back_is_not_idle() {
    let stall = Stall { after_tokens: 1, span: Nanos::from_millis(60) };
    let idle_close = Some(Nanos::from_millis(5));
    let faults = Faults { stall: Some(stall), idle_close, ..Faults::default() };
    let request = truth_of(faults, 4);
    assert_eq!(request.end.unwrap().1, StreamEnd::Complete);
}

/// A client that goes away while its answer is held back never gets the end.
#[test]
fn an_answer_is_complete_in_the_log_when_its_last_byte_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.log");
    let stall = Stall { after_tokens: 1, span: Nanos::from_secs(60) };
    let faults = Faults { stall: Some(stall), ..Faults::default() };
    let server = Running::start(SimConfig { truth: Some(path.clone()), faults, ..quick() });
    let mut socket = server.connect();
    socket.write_all(post("/v1/completions", &body(1), "").as_bytes()).unwrap();
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("[DONE]") {
        let mut byte = [0; 1];
        socket.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
    drop(socket);
    // The server has read the end of the first connection when it answers on a later one.
    assert_eq!(server.get("/health").status, 200);
    server.stop();
    let request = truth::read(&path).unwrap().remove(0);
    assert_eq!(request.end.unwrap().1, StreamEnd::Cancelled);
}

#[test]
fn a_stream_is_reset_in_the_middle() {
    let server = server(Faults { reset_after_tokens: Some(3), ..Faults::default() });
    let mut socket = server.connect();
    socket.write_all(post("/v1/completions", &body(9), "").as_bytes()).unwrap();
    let error = socket.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn one_event_is_not_json() {
    let answer = answer(Faults { malformed_after_tokens: Some(2), ..Faults::default() }, 4);
    let broken = answer
        .events()
        .iter()
        .filter(|event| serde_json::from_str::<Value>(event).is_err())
        .count();
    // The broken event and the announced end.
    assert_eq!(broken, 2);
    assert!(answer.is_complete);
}

#[test]
fn usage_is_wrong_or_missing_and_the_end_comes_twice() {
    let wrong = answer(Faults { usage: UsageFault::Wrong, ..Faults::default() }, 4);
    assert!(wrong.text().contains("\"completion_tokens\":9"), "{}", wrong.text());
    let missing = answer(Faults { usage: UsageFault::Missing, ..Faults::default() }, 4);
    assert!(!missing.text().contains("usage"), "{}", missing.text());
    let twice = answer(Faults { done: DoneFault::Twice, ..Faults::default() }, 4);
    assert_eq!(twice.text().matches("[DONE]").count(), 2);
}

#[test]
fn optional_fields_are_refused_by_name() {
    let refused_fields = vec!["ignore_eos".to_owned()];
    let answer = answer(Faults { refused_fields, ..Faults::default() }, 4);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["param"], "ignore_eos");
}

#[test]
fn comments_stand_between_the_events() {
    let comment_interval = Some(Nanos::from_millis(2));
    let answer = answer(Faults { comment_interval, ..Faults::default() }, 20);
    let text = answer.text();
    assert!(text.contains(": ping\n\n"), "{text}");
    let events = answer.events().iter().filter(|event| !event.starts_with(':')).count();
    assert_eq!(events, 23);
}

#[test]
fn events_share_writes_or_are_cut_into_several() {
    let sends = |request: &TrueRequest| {
        let mut sends: Vec<Nanos> = request.events.iter().map(|event| event.before).collect();
        sends.dedup();
        sends.len()
    };
    // Head, five tokens, usage, end, last chunk.
    assert_eq!(sends(&truth_of(Faults::default(), 5)), 9);
    // Three events in a write: the head, 5 + 2 events in three writes; the last has the last chunk.
    let joined = Faults { events_per_write: Some(3), ..Faults::default() };
    assert_eq!(sends(&truth_of(joined, 5)), 4);
    let proxy = Faults { events_per_write: Some(u32::MAX), ..Faults::default() };
    assert_eq!(sends(&truth_of(proxy, 5)), 2);
    for faults in [
        Faults { writes_per_event: Some(3), ..Faults::default() },
        Faults { packets: PacketFault::Nagle, ..Faults::default() },
    ] {
        assert_eq!(truth_of(faults, 5).events.len(), 9);
    }
}

#[test]
fn a_stall_holds_the_stream_and_a_slow_start_holds_everything() {
    let span = Nanos::from_millis(60);
    let stall = Some(Stall { after_tokens: 2, span });
    let request = truth_of(Faults { stall, ..Faults::default() }, 5);
    let text: Vec<_> = request.events.iter().filter(|event| event.kind == SentKind::Text).collect();
    assert!(text[2].after - text[1].before >= span);
    let slow = truth_of(Faults { first_byte_delay: Some(span), ..Faults::default() }, 5);
    assert!(slow.events[0].after - slow.complete >= span);
}

#[test]
fn a_tight_start_sends_the_head_with_the_first_token() {
    let faults = Faults { packets: PacketFault::TightStart, ..Faults::default() };
    let request = truth_of(faults, 5);
    let (head, first) = (&request.events[0], &request.events[1]);
    assert_eq!((head.kind, first.kind), (SentKind::Head, SentKind::Text));
    // The engine's first step comes before the head, not after it.
    assert!(head.before - request.complete >= Nanos::from_millis(1));
    assert!(head.before < first.before);
}

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() {
    let server = server(Faults { idle_close: Some(Nanos::from_millis(5)), ..Faults::default() });
    let mut socket = server.connect();
    socket.write_all(post("/v1/completions", &body(30), "").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // The server closes by itself although the client asked to keep the connection.
    socket.read_to_end(&mut bytes).unwrap();
    let answer = Answer::parse(&bytes);
    assert!(answer.is_complete);
    assert_eq!(answer.events().len(), 32);
}

/// A client on a busy machine took longer than the limit to send its first request, and was cut off.
#[test]
fn a_connection_is_not_idle_before_its_first_request() {
    let server = server(Faults { idle_close: Some(Nanos::from_millis(1)), ..Faults::default() });
    let mut early = server.connect();
    // By now the limit has passed: answers of a fixed pace take longer.
    assert!(server.post("/v1/completions", &body(5)).is_complete);
    early.write_all(post("/v1/completions", &body(2), "").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    early.read_to_end(&mut bytes).unwrap();
    assert!(Answer::parse(&bytes).is_complete);
}

#[test]
fn the_server_dies_after_its_last_request() {
    let server = server(Faults { die_after_requests: Some(1), ..Faults::default() });
    assert_eq!(server.post("/v1/completions", &body(1)).status, 200);
    let mut socket = server.connect();
    socket.write_all(post("/v1/completions", &body(1), "").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    assert!(bytes.is_empty());
}
