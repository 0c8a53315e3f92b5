//! Answers in forms that no capture has: of other vendors, of earlier versions, of gateways.

use super::*;

fn check(backend: &str, events: &[&str], kinds: &str, outcome: &str) -> Timeline {
    let timeline = read_whole(backend, &streamed(events));
    assert_eq!(letters(&timeline.events), kinds, "{events:?}");
    assert_eq!(outcome_of(&timeline), outcome, "{events:?}");
    timeline
}

fn delta(inside: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{{inside}}},"finish_reason":null}}]}}"#)
}

const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

/// The pieces of a refusal came as events without content, so the answer had no TTFT and no text.
#[test]
fn a_refusal_is_the_text_of_a_chat() {
    let events = [
        delta(r#""role":"assistant","content":null,"refusal":"""#),
        delta(r#""refusal":" I""#),
        delta(r#""refusal":" cannot","content":"""#),
        delta(r#""content":null,"refusal":".""#),
    ];
    let mut events: Vec<&str> = events.iter().map(String::as_str).collect();
    events.extend([STOP, "[DONE]"]);
    let timeline = check("openai-chat", &events, "rttte.", "ok");
    assert_eq!(timeline.text.as_deref(), Some(" I cannot."));
}

/// Mistral's servers stream a list of parts when the model reasons.
#[test]
fn content_in_parts_is_text_and_reasoning() {
    let thought = delta(
        r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":false}]"#,
    );
    let text = delta(r#""content":[{"type":"text","text":" a"},{"type":"text","text":" b"}]"#);
    let events = [&thought, &text, STOP, "[DONE]"];
    let timeline = check("openai-chat", &events, "hte.", "ok");
    assert_eq!(timeline.text.as_deref(), Some("hm a b"));
    check("openai-chat", &[&delta(r#""content":[]"#), &text, STOP, "[DONE]"], "ete.", "ok");
}

/// The reasoning of `OpenRouter` and `MiniMax` came as events without content, so TTFT was that of the answer.
#[test]
fn reasoning_in_a_list_of_details_is_reasoning() {
    let thought = delta(
        r#""content":"","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]"#,
    );
    let both = delta(
        r#""reasoning":"hm","reasoning_details":[{"type":"reasoning.summary","summary":"hm"}]"#,
    );
    let sealed = delta(r#""reasoning_details":[{"type":"reasoning.encrypted","data":"xyz"}]"#);
    let text = delta(r#""content":"a","reasoning_details":[]"#);
    let events = [&thought, &both, &sealed, &text, STOP, "[DONE]"];
    let timeline = check("openai-chat", &events, "hhete.", "ok");
    assert_eq!(timeline.text.as_deref(), Some("hmhma"));
}

#[test]
fn a_part_of_content_without_a_type_is_text() {
    let part = delta(r#""content":[{"text":" a"},{"text":" b"}]"#);
    let timeline = check("openai-chat", &[&part, STOP, "[DONE]"], "te.", "ok");
    assert_eq!(timeline.text.as_deref(), Some(" a b"));
}

/// They show where a first event holds many tokens.
#[test]
fn the_bytes_of_the_first_content_are_counted_apart() {
    let bytes = |events: &[&str]| {
        let timeline = read_whole("openai-chat", &streamed(events));
        timeline.content_bytes.map(|bytes| (bytes.first, bytes.all, bytes.reasoning.unwrap()))
    };
    let text = |text: &str| delta(&format!(r#""content":"{text}""#));
    let role = delta(r#""role":"assistant","content":"""#);
    let (a, b, c) = (text("one two"), text(" x"), text(" yz"));
    assert_eq!(bytes(&[&role, &a, &b, &c, STOP, "[DONE]"]), Some((7, 12, 0)));
    let thought = delta(r#""reasoning":"hm""#);
    assert_eq!(bytes(&[&thought, &a, &b, STOP, "[DONE]"]), Some((2, 11, 2)));
    assert_eq!(bytes(&[&thought, &thought, &thought, &a, STOP, "[DONE]"]), Some((2, 13, 6)));
    let call = delta(r#""tool_calls":[{"index":0,"function":{"arguments":"{}"}}]"#);
    assert_eq!(bytes(&[&a, &call, STOP, "[DONE]"]), None, "the size of a call is not known");
    assert_eq!(bytes(&[&a]), None, "it was cut");
    let further = r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#;
    assert_eq!(bytes(&[&a, further, &b, STOP, "[DONE]"]), Some((7, 9, 0)));
}

/// An empty `error` in every event made every answer a failure.
#[test]
fn an_error_field_that_is_empty_is_no_error() {
    for empty in ["null", "\"\"", "false", "[]", "{}", "0"] {
        let event = format!(r#"{{"choices":[{{"index":0,"text":"a"}}],"error":{empty}}}"#);
        check("openai", &[&event, "[DONE]"], "t.", "ok");
        let message = format!(
            r#"{{"content":[{{"type":"text","text":"a"}}],"stop_reason":"end_turn","error":{empty}}}"#
        );
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{message}",
            message.len()
        );
        assert_eq!(outcome_of(&read_whole("anthropic", answer.as_bytes())), "ok", "{empty}");
    }
    for error in ["true", "\"busy\"", "{\"code\":0}", "500"] {
        let event = format!(r#"{{"choices":[],"error":{error}}}"#);
        let outcome = outcome_of(&read_whole("openai", &streamed(&[&event, "[DONE]"])));
        assert!(outcome.starts_with("in-stream"), "{error}: {outcome}");
    }
}

/// The stream went on to `[DONE]`, so a third of an answer counted as a short one.
#[test]
fn an_error_without_its_key_fails_the_answer_that_it_interrupts() {
    let token = delta(r#""content":"a""#);
    for error in [
        r#"{"detail":"worker gone"}"#,
        r#"{"message":"worker gone","code":500}"#,
        r#"{"status":503,"message":"worker gone"}"#,
    ] {
        check("openai-chat", &[&token, error, "[DONE]"], "t!.", "in-stream worker gone");
    }
    for harmless in [
        r#"{"type":"ping"}"#,
        r#"{"message":"queued","status":"waiting"}"#,
        r#"{"message":"queued","code":202}"#,
        "null",
        "{}",
    ] {
        check("openai-chat", &[harmless, &token, STOP, "[DONE]"], "ote.", "ok");
    }
}

#[test]
fn an_error_as_a_field_of_the_stream_is_told_in_the_servers_words() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let error = "error: {\"code\":500,\"message\":\"context full\",\"type\":\"server_error\"}\n\n";
    let token = "data: {\"content\":\"a\",\"stop\":false}\n\n";
    for body in [format!("{token}{error}"), error.to_owned()] {
        let stream = format!("{head}{body}");
        let outcome = outcome_of(&read_whole("llamacpp", stream.as_bytes()));
        assert_eq!(outcome, "in-stream context full", "{body}");
    }
}

#[test]
fn reasoning_has_several_names_in_responses_and_a_cancelled_one_fails() {
    let piece = |kind: &str| format!(r#"{{"type":"response.{kind}.delta","delta":"h"}}"#);
    let completed = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
    for kind in ["reasoning", "reasoning_summary", "reasoning_text", "reasoning_summary_text"] {
        let events = [&piece(kind), &piece("output_text"), completed];
        check("openai-responses", &events, "ht.", "ok");
    }
    let cancelled = r#"{"type":"response.cancelled","response":{"status":"cancelled"}}"#;
    let early = "in-stream the server ended the answer early: finish reason `cancelled`";
    check("openai-responses", &[&piece("output_text"), cancelled], "t.", early);
}

#[test]
fn a_block_that_opens_with_text_has_its_first_token_there() {
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":5}}}"#;
    let open = |text: &str| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"text","text":"{text}"}}}}"#
        )
    };
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" b"}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let timeline = check("anthropic", &[start, &open(" a"), text, stop], "rtt.", "ok");
    assert_eq!(timeline.text.as_deref(), Some(" a b"));
    check("anthropic", &[start, &open(""), text, stop], "rot.", "ok");
}

/// Other clients ignore the content type, so a stream under the wrong one works for them.
#[test]
fn a_stream_that_is_called_json_is_read_as_the_stream_that_it_is() {
    let body = ": hi\n\ndata: {\"choices\":[{\"text\":\"a\"}]}\n\n\
                data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n\n";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    for body in [body, &body[6..]] {
        let stream = format!("{head}{body}");
        for step in [1, 3, stream.len()] {
            let mut exchange = exchange("vllm", &settings());
            let (timeline, _) = read_pieces(&mut exchange, stream.as_bytes().chunks(step));
            assert_eq!(outcome_of(&timeline), "ok", "by {step}");
            assert_eq!(letters(&timeline.events), "tt", "by {step}");
            assert_eq!(timeline.text.as_deref(), Some("ab"));
        }
    }
    let cut = format!("{head}data: {{\"choices\":[{{\"text\":\"a\"}}]}}\n\n");
    let outcome = outcome_of(&read_whole("vllm", cut.as_bytes()));
    assert_eq!(outcome, "cut the stream ended without its end marker");
}

/// `compare` counts greedy answers that differ: a call with other arguments is another answer.
#[test]
fn the_hash_of_a_greedy_answer_covers_its_tool_calls() {
    let hash = |arguments: &str| {
        let call = format!(r#""function":{{"name":"f","arguments":"{arguments}"}}"#);
        let event =
            delta(&format!(r#""content":"a","tool_calls":[{{"index":0,"id":"c",{call}}}]"#));
        let requested = RequestedLengths { prompt_hash: Some(1), ..RequestedLengths::default() };
        let mut timeline = Timeline::new(AttemptId::new(0, Phase::Measure), requested, Nanos::ZERO);
        let stream = streamed(&[&event, STOP, "[DONE]"]);
        let stamp = ReadStamp::exact(Nanos::from_millis(1));
        let _progress = exchange("openai-chat", &settings()).on_read(&stream, stamp, &mut timeline);
        timeline.answer_hash
    };
    assert!(hash("{}").is_some());
    assert_eq!(hash("{}"), hash("{}"));
    assert_ne!(hash("{}"), hash("[1]"));
}
