//! Captured streams of real servers, and constructed ones for cases that no capture shows.

mod captures;
mod choices;
mod constructed;
mod counts;
mod errors_inside;
mod failures;
mod mislabelled;
mod odd_answers;
mod other_forms;
mod stray_lines;
mod typed_events;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tokometer_record::{
    AttemptId, Event, EventKind, Phase, RequestedLengths, ServerTimings, Usage,
};

use super::*;
use crate::settings::{Delivery, UsageReports};
use crate::url::Url;

fn settings() -> Settings {
    Settings::new(Url::http("127.0.0.1", 8000), "tiny")
}

fn exchange(backend: &str, settings: &Settings) -> Exchange {
    Exchange::new(&Dialect::named(backend).unwrap(), settings, KeepText::Yes)
}

/// Reads a response in pieces. The n-th read arrives at n milliseconds; then the connection closes if
/// the response is incomplete.
fn read_pieces<'a>(
    exchange: &mut Exchange,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Timeline, ResponseProgress) {
    let identity = AttemptId::new(0, Phase::Measure);
    let mut timeline = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
    let mut now = 0;
    for piece in pieces {
        now += 1;
        let stamp = ReadStamp::exact(Nanos::from_millis(now));
        let progress = exchange.on_read(piece, stamp, &mut timeline);
        if progress != ResponseProgress::More {
            return (timeline, progress);
        }
    }
    let progress = exchange.on_eof(Nanos::from_millis(now + 1), &mut timeline);
    (timeline, progress)
}

fn read_whole(backend: &str, stream: &[u8]) -> Timeline {
    read_pieces(&mut exchange(backend, &settings()), [stream]).0
}

/// Text costs memory and disk. It is needed for a count only where usage has none.
#[test]
fn a_text_kept_for_its_count_is_dropped_when_usage_has_the_count() {
    let text_of = |events: &str, keep: KeepText| {
        let body = format!("data: {}\n\n", events.replace('\n', "\n\ndata: "));
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let dialect = Dialect::named("openai").unwrap();
        let mut exchange = Exchange::new(&dialect, &settings(), keep);
        let stream = format!("{head}{body}");
        read_pieces(&mut exchange, [stream.as_bytes()]).0.text
    };
    let pieces = r#"{"choices":[{"index":0,"text":"a b"}]}
{"choices":[{"index":0,"text":" c"}]}
{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#;
    let usage = |tokens: u32| {
        format!("{pieces}\n{{\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n[DONE]")
    };
    let kept = Some("a b c".to_owned());
    assert_eq!(text_of(&format!("{pieces}\n[DONE]"), KeepText::Uncounted), kept);
    assert_eq!(text_of(&usage(0), KeepText::Uncounted), kept, "zero is no count of a text");
    assert_eq!(text_of(&usage(3), KeepText::Uncounted), None);
    assert_eq!(text_of(&usage(3), KeepText::Yes), kept);
    let cut = pieces.lines().next().unwrap();
    assert_eq!(text_of(cut, KeepText::Uncounted), None, "a failed answer is not counted");
}

fn capture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures");
    fs::read(folder.join(name).with_extension("raw")).unwrap()
}

fn letters(events: &[Event]) -> String {
    let letter = |kind| match kind {
        EventKind::Role => 'r',
        EventKind::Empty => 'e',
        EventKind::Text => 't',
        EventKind::Reasoning => 'h',
        EventKind::ToolCall => 'c',
        EventKind::Usage => 'u',
        EventKind::Error => '!',
        EventKind::End => '.',
        EventKind::Other => 'o',
        EventKind::FurtherChoice => 'f',
        EventKind::Result => 'R',
    };
    events.iter().map(|event| letter(event.kind)).collect()
}

/// Streams with named events split at each of them, however the bytes arrive.
#[test]
fn named_events_are_framed() {
    let check = |name: &str, expected: &[(&str, usize)], last: &str| {
        let stream = capture(name);
        for step in [1, 7, stream.len()] {
            let names = event_names(&stream, step);
            for (event, count) in expected {
                assert_eq!(names.iter().filter(|name| name == event).count(), *count, "{event}");
            }
            assert_eq!(names.last().map(String::as_str), Some(last));
        }
    };
    check(
        "vllm-messages",
        &[("message_start", 1), ("content_block_delta", 4), ("message_delta", 1)],
        "message_stop",
    );
    check("vllm-responses", &[("response.output_text.delta", 4)], "response.completed");
}

fn event_names(stream: &[u8], step: usize) -> Vec<String> {
    let (mut reader, mut framer) = (ResponseReader::default(), Framer::new(EventFraming::Sse));
    let (mut head, mut names) = (None, Vec::new());
    let mut sink = |event: crate::sse::SseEvent<'_>| {
        assert!(serde_json::from_slice::<serde_json::Value>(event.data).is_ok());
        names.push(String::from_utf8_lossy(event.name).into_owned());
    };
    for piece in stream.chunks(step) {
        let mut input = piece;
        if head.is_none() {
            head = reader.read_head(&mut input, |_, _| {}).unwrap();
        }
        while let Some(BodyPart::Data(data)) = head.and_then(|_| reader.read_body(&mut input).ok())
        {
            framer.feed(data, &mut sink);
        }
    }
    names
}

#[test]
fn times_come_from_the_read_that_completed_each_thing() {
    let stream = capture("vllm-chat");
    let head_end = stream.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let text = String::from_utf8_lossy(&stream);
    // The byte after the blank line of the n-th event.
    let after = |n: usize| text.match_indices("}\n\n").nth(n).unwrap().0 + 3;
    let cuts = [0, head_end, after(0) - 1, after(1) - 1, after(1), stream.len()];
    let pieces = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
    let (timeline, _) = read_pieces(&mut exchange("openai-chat", &settings()), pieces);
    assert_eq!(timeline.times.headers, Some(Nanos::from_millis(1)));
    let at = |n: usize| (timeline.events[n].at, timeline.events[n].read);
    assert_eq!(at(0), (Nanos::from_millis(3), 2), "the role event lacked its last byte in read 1");
    assert_eq!(at(1), (Nanos::from_millis(4), 3), "the first token's blank line came alone");
    assert_eq!(at(2), (Nanos::from_millis(5), 4));
    assert_eq!(timeline.times.end, Some(Nanos::from_millis(5)));
    assert_eq!((timeline.reads, timeline.status), (5, Some(200)));
}

#[test]
fn kept_text_is_the_servers_text() {
    let check = |name: &str, backend: &str, expected: &str| {
        let timeline = read_whole(backend, &capture(name));
        assert_eq!(timeline.text.as_deref(), Some(expected), "{name}");
    };
    check("vllm-completions-tokenids", "vllm", " acronym⊔رمزנג");
    check("sglang-generate", "sglang", "午饭 hele פר千万别icom\\Php\\Coreması");
    check("sglang-generate-nonstream", "sglang", "QuQuQuQu");
    check("tgi-generate_stream", "tgi", "Notificationsmatched femalesding waren sur");
    check("tgi-generate", "tgi", " load Rot-game");
    check("llamacpp-completions-nonstream", "llamacpp-oai", "👆머-transferفور");
}

#[test]
fn the_servers_own_durations_are_kept() {
    let timings = |name: &str, backend: &str| read_whole(backend, &capture(name)).server_timings;
    let micros = |prefill, decode| {
        let spans = (Nanos::from_micros(prefill), Nanos::from_micros(decode));
        Some(ServerTimings { queue: None, prefill: Some(spans.0), decode: Some(spans.1) })
    };
    assert_eq!(timings("llamacpp-chat", "llamacpp-oai-chat"), micros(55_140, 593_276));
    assert_eq!(timings("llamacpp-native-completion", "llamacpp"), micros(58_733, 443_904));
    assert_eq!(timings("llamacpp-completions-nonstream", "llamacpp-oai"), micros(20_711, 149_335));
    let queue = timings("tgi-generate", "tgi").and_then(|timings| timings.queue);
    assert_eq!(queue, Some(Nanos::ZERO));
}

/// vLLM's `encoding_format: bytes` describes the vectors in a header; `bytes_only` does not.
#[test]
fn vectors_of_plain_bytes_are_read_by_their_header() {
    let check = |metadata: &str, asked: u32, tokens: Option<u32>, outcome: &str| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n";
        let stream = format!("{head}{metadata}Content-Length: 8\r\n\r\n\0\0\u{1}{{\0\0\0\u{2}");
        let mut exchange = exchange("openai-embeddings", &settings());
        let mut timeline = Timeline::new(
            AttemptId::new(0, Phase::Measure),
            RequestedLengths { items: Some(asked), ..RequestedLengths::default() },
            Nanos::ZERO,
        );
        exchange.on_read(stream.as_bytes(), ReadStamp::exact(Nanos(1)), &mut timeline);
        assert_eq!(outcome_of(&timeline), outcome, "{metadata}");
        assert_eq!(timeline.usage.and_then(|usage| usage.prompt_tokens), tokens, "{metadata}");
        assert_eq!(letters(&timeline.events), "R", "{metadata}");
    };
    let metadata = "metadata: {\"data\":[{\"start\":0,\"end\":4},{\"start\":4,\"end\":8}],\"usage\":{\"prompt_tokens\":7}}\r\n";
    check(metadata, 2, Some(7), "ok");
    check(metadata, 3, Some(7), "protocol the answer has 2 results for 3 inputs");
    check("", 2, None, "ok");
}

fn outcome_of(timeline: &Timeline) -> String {
    match &timeline.outcome {
        Outcome::Success => "ok".to_owned(),
        Outcome::Failed(failure) => {
            assert_eq!(failure.status, timeline.status);
            format!("{} {}", failure.kind.name(), failure.message)
        }
        Outcome::Cancelled | Outcome::Abandoned => "abandoned".to_owned(),
    }
}

fn streamed(events: &[&str]) -> Vec<u8> {
    let mut stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    for event in events {
        let data = format!("data: {event}\n\n");
        stream.extend(format!("{:x}\r\n{data}\r\n", data.len()).into_bytes());
    }
    stream.extend(b"0\r\n\r\n");
    stream
}

#[test]
fn keys_echoed_by_a_server_do_not_reach_the_record() {
    let mut settings = settings();
    settings.api_key = Some(crate::ApiKey::Bearer("hunter22".to_owned()));
    let body = format!("{}wrong key hunter22", "x".repeat(295));
    let head = format!("HTTP/1.1 401 No\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = [head.as_bytes(), body.as_bytes()].concat();
    let (timeline, progress) = read_pieces(&mut exchange("vllm", &settings), [&answer[..]]);
    assert_eq!(progress, ResponseProgress::Done { keep_alive: true, unread: 0 });
    let outcome = outcome_of(&timeline);
    assert!(outcome.starts_with("status xxx") && !outcome.contains("hunter22"), "{outcome}");
    assert_eq!(outcome.len(), "status ".len() + 300);
}

#[test]
fn a_connection_that_closes_early_is_a_cut_and_one_that_ends_a_body_is_not() {
    let check = |answer: &str, outcome: &str| {
        let timeline = read_whole("vllm", answer.as_bytes());
        assert!(outcome_of(&timeline).starts_with(outcome), "{answer:?}: {:?}", timeline.outcome);
        assert!(timeline.times.end.is_some());
    };
    let event = r#"data: {"choices":[{"text":"a","finish_reason":"stop"}]}"#;
    check("", "cut the connection closed before the response");
    check("HTTP/1.1 200 O", "cut the connection closed within the response header");
    check(&format!("HTTP/1.0 200 OK\r\n\r\n{event}"), "ok");
    check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndata: {", "cut");
    // The usage and `[DONE]` may have been lost, so a finish reason alone does not complete a cut body.
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\n\n\r\n", text.len() + 2);
    check(&format!("{chunked}{}", chunk(event)), "cut the connection closed after the finish");
    check(&format!("{chunked}{}{}", chunk(event), chunk("data: [DONE]")), "ok");
    check("HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nbusy", "status busy");
    check("hello\r\n\r\n", "protocol the response header is not HTTP/1");
}

#[test]
fn bytes_behind_an_answer_end_the_connection() {
    let mut stream = streamed(&["[DONE]"]);
    stream.extend(b"HTTP");
    let (_, progress) = read_pieces(&mut exchange("vllm", &settings()), [&stream[..]]);
    assert_eq!(progress, ResponseProgress::Done { keep_alive: false, unread: 4 });
    let (_, progress) =
        read_pieces(&mut exchange("vllm", &settings()), [&streamed(&["[DONE]"])[..]]);
    assert_eq!(progress, ResponseProgress::Done { keep_alive: true, unread: 0 });
}

#[test]
fn a_reset_clears_all_state_of_an_exchange() {
    let mut exchange = exchange("openai-chat", &settings());
    let mut fresh = || {
        exchange.reset();
        read_pieces(&mut exchange, [&capture("vllm-chat")[..]]).0
    };
    let first = fresh();
    assert_eq!(fresh(), first);
}

#[test]
fn an_answer_in_one_piece_is_one_event_with_all_its_tokens() {
    let mut settings = settings();
    settings.delivery = Delivery::Whole;
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"hi"}}],"usage":{"completion_tokens":2,"prompt_tokens":5}}"#;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut exchange = exchange("openai-chat", &settings);
    let (timeline, _) = read_pieces(&mut exchange, answer.as_bytes().chunks(7));
    assert_eq!(letters(&timeline.events), "t");
    assert_eq!(timeline.events[0].tokens(), Some(2));
    assert_eq!(timeline.text.as_deref(), Some("hi"));
    let counts = Usage { prompt_tokens: Some(5), completion_tokens: Some(2), ..Usage::default() };
    assert_eq!((timeline.usage, timeline.outcome), (Some(counts), Outcome::Success));
    let mii = "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{\"text\":[\"hello\"]}";
    assert_eq!(read_whole("deepspeed-mii", mii.as_bytes()).text.as_deref(), Some("hello"));
}

#[test]
fn merged_reads_mark_their_events_as_upper_bounds() {
    let identity = AttemptId::new(0, Phase::Measure);
    let mut timeline = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
    let stamp = ReadStamp { at: Nanos(7), is_upper_bound: true };
    let stream = streamed(&[r#"{"choices":[{"text":"a"}]}"#, "[DONE]"]);
    let _done = exchange("vllm", &settings()).on_read(&stream, stamp, &mut timeline);
    assert_eq!((timeline.reads, timeline.merged_reads), (1, 1));
    assert!(timeline.events.iter().all(Event::is_upper_bound));
}

proptest! {
    #[test]
    fn a_long_run_of_similar_events_reads_the_same_at_any_split(
        texts in prop::collection::vec("\\PC{0,6}", 1..30),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let events: Vec<String> = texts
            .iter()
            .map(|text| {
                let text = serde_json::to_string(text).unwrap();
                format!(r#"{{"id":"x","choices":[{{"index":0,"text":{text},"finish_reason":null}}]}}"#)
            })
            .chain(["[DONE]".to_owned()])
            .collect();
        let stream = streamed(&events.iter().map(String::as_str).collect::<Vec<_>>());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
        let (timeline, _) = read_pieces(&mut exchange("vllm", &settings()), pieces);
        let kinds: String =
            texts.iter().map(|text| if text.is_empty() { 'e' } else { 't' }).chain(['.']).collect();
        prop_assert_eq!(letters(&timeline.events), kinds);
        prop_assert_eq!(timeline.text, Some(texts.concat()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, backend in 0_usize..19, step in 1_usize..50) {
        let backend = Dialect::names().nth(backend).unwrap();
        let mut exchange = exchange(backend, &settings());
        let _raw = read_pieces(&mut exchange, bytes.chunks(step));
        exchange.reset();
        let head = b"HTTP/1.1 200 OK\r\n\r\ndata: ".to_vec();
        let stream = [head, bytes].concat();
        let _behind_a_head = read_pieces(&mut exchange, stream.chunks(step));
    }
}
