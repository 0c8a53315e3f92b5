//! Bodies that are not what their header says, and events whose type only their name has.

use std::io::Write as _;

use super::*;

fn whole(media: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A server that ignores `stream` and labels all answers alike failed with "the answer has no event".
#[test]
fn a_document_instead_of_a_stream_is_read_whatever_its_label() {
    let long = "w ".repeat(5_000);
    for text in ["hi", &long] {
        let choice = format!(r#"{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}"#);
        let body =
            format!("\n{{\"choices\":[{choice}],\n\"usage\":{{\"completion_tokens\":3}}\n}}");
        for media in ["text/event-stream", "text/plain", "application/json", "x/y"] {
            let stream = whole(media, &body);
            for step in [1, 700, stream.len()] {
                let mut exchange = exchange("openai-chat", &settings());
                let (timeline, _) = read_pieces(&mut exchange, stream.as_bytes().chunks(step));
                assert_eq!(outcome_of(&timeline), "ok", "{media} by {step}");
                assert_eq!(letters(&timeline.events), "t", "{media} by {step}");
                assert_eq!(timeline.text.as_deref(), Some(text), "{media} by {step}");
            }
        }
    }
}

#[test]
fn lines_of_documents_have_several_labels() {
    let body = "{\"choices\":[{\"text\":\"a\"}]}\n\
                {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n";
    for media in ["application/x-ndjson", "application/ndjson", "application/stream+json"] {
        let timeline = read_whole("vllm", whole(media, body).as_bytes());
        assert_eq!(letters(&timeline.events), "tt", "{media}");
        assert_eq!(outcome_of(&timeline), "ok", "{media}");
    }
}

/// Every event was one without a type, so the answer had no end marker.
#[test]
fn the_name_of_an_event_is_its_type_where_the_data_has_none() {
    let read = |backend: &str, events: &[(&str, &str)]| {
        let event = |(name, data): &(&str, &str)| format!("event: {name}\ndata: {data}\n\n");
        let body: String = events.iter().map(event).collect();
        let timeline = read_whole(backend, whole("text/event-stream", &body).as_bytes());
        let output = timeline.usage.and_then(|usage| usage.completion_tokens);
        (letters(&timeline.events), outcome_of(&timeline), output)
    };
    let responses = [
        ("response.created", r#"{"response":{"status":"in_progress"}}"#),
        ("response.output_text.delta", r#"{"delta":"a"}"#),
        ("response.output_text.done", r#"{"text":"a"}"#),
        (
            "response.completed",
            r#"{"response":{"status":"completed","usage":{"output_tokens":1}}}"#,
        ),
    ];
    assert_eq!(read("openai-responses", &responses), ("otou".into(), "ok".into(), Some(1)));
    let messages = [
        ("message_start", r#"{"message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#),
        ("content_block_delta", r#"{"delta":{"type":"text_delta","text":"a"}}"#),
        ("message_delta", r#"{"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}"#),
        ("message_stop", "{}"),
    ];
    assert_eq!(read("anthropic", &messages), ("rtu.".into(), "ok".into(), Some(9)));
}

/// The server never wrote the end of the compressed stream.
#[test]
fn a_compressed_stream_with_its_end_marker_is_complete() {
    let outcome = |text: &str| {
        let level = flate2::Compression::default();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let body = encoder.get_ref().clone();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip";
        let head = format!("{head}\r\nContent-Length: {}\r\n\r\n", body.len());
        outcome_of(&read_whole("vllm", &[head.into_bytes(), body].concat()))
    };
    let token = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    assert_eq!(outcome(&format!("{token}data: [DONE]\n\n")), "ok");
    assert_eq!(outcome(token), "protocol the response body is not valid gzip");
}

/// The last of several lines decided alone.
#[test]
fn several_lines_of_transfer_encodings_are_one_list() {
    let stream = String::from_utf8(streamed(&[r#"{"choices":[{"text":"a"}]}"#, "[DONE]"])).unwrap();
    let line = "Transfer-Encoding: chunked\r\n";
    for other in ["chunked", "identity"] {
        let both = format!("{line}Transfer-Encoding: {other}\r\n");
        let stream = stream.replace(line, &both);
        let (_, progress) = read_pieces(&mut exchange("vllm", &settings()), [stream.as_bytes()]);
        assert_eq!(progress, ResponseProgress::Done { keep_alive: true, unread: 0 }, "{other}");
    }
}

/// Five results for two documents, and vectors that are no numbers, were answers.
#[test]
fn an_answer_of_impossible_results_fails() {
    let check_with = |settings: &Settings, backend: &str, body: &str, expected: &str| {
        let requested = RequestedLengths { items: Some(2), ..RequestedLengths::default() };
        let mut timeline = Timeline::new(AttemptId::new(0, Phase::Measure), requested, Nanos::ZERO);
        let stamp = ReadStamp::exact(Nanos(1));
        let answer = whole("application/json", body);
        let mut exchange = exchange(backend, settings);
        let _progress = exchange.on_read(answer.as_bytes(), stamp, &mut timeline);
        assert_eq!(outcome_of(&timeline), expected, "{body}");
    };
    let plain = settings();
    let check = |backend: &str, body: &str, expected: &str| {
        check_with(&plain, backend, body, expected);
    };
    let result = |index: usize| format!(r#"{{"index":{index},"relevance_score":0.5}}"#);
    let ranking = |count: usize| {
        format!(r#"{{"results":[{}]}}"#, (0..count).map(result).collect::<Vec<_>>().join(","))
    };
    // Fewer than documents only where the request asks for the best.
    check("vllm-rerank", &ranking(1), "protocol the answer has 1 results for 2 documents");
    let mut limited = settings();
    let top = serde_json::json!({"top_n": 1});
    limited.extra_body = crate::secret::ExtraBody(top.as_object().unwrap().clone());
    check_with(&limited, "vllm-rerank", &ranking(1), "ok");
    check("vllm-rerank", &ranking(2), "ok");
    check("vllm-rerank", &ranking(3), "protocol the answer has 3 results for 2 documents");
    let vectors =
        |vector: &str| format!(r#"{{"data":[{{"embedding":[1]}},{{"embedding":{vector}}}]}}"#);
    check("openai-embeddings", &vectors("[0]"), "ok");
    for vector in ["null", "[]", "[null,null]"] {
        let expected = "protocol 1 of 2 results have no numeric value";
        check("openai-embeddings", &vectors(vector), expected);
    }
    let twice = r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]}"#;
    let repeated = "protocol 1 of 2 results have the index of another one";
    check("openai-embeddings", twice, repeated);
    let none = "protocol the answer has 0 results for 2 inputs";
    check("openai-embeddings", r#"{"data":[]}"#, none);
}

/// It failed with an empty body, though silence has no words.
#[test]
fn an_empty_transcript_in_plain_text_is_an_answer() {
    let mut settings = settings();
    settings.delivery = Delivery::Whole;
    let read = |backend: &str, answer: &str| {
        let mut exchange = exchange(backend, &settings);
        read_pieces(&mut exchange, [answer.as_bytes()]).0
    };
    let empty = "protocol the response body is empty";
    for body in ["", "\n", " \r\n"] {
        let timeline = read("openai-audio", &whole("text/plain; charset=utf-8", body));
        assert_eq!(outcome_of(&timeline), "ok", "{body:?}");
        assert_eq!((timeline.text.as_deref(), timeline.first_content()), (Some(""), None));
        assert_eq!(outcome_of(&read("openai-audio", &whole("application/json", body))), empty);
        assert_eq!(outcome_of(&read("openai-chat", &whole("text/plain", body))), empty);
    }
    // Without a length it may have been cut.
    let open = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    assert_eq!(outcome_of(&read("openai-audio", open)), empty);
}
