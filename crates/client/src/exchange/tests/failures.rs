//! Failures that a server reports under status 200.

use super::{letters, outcome_of, read_whole, streamed};

#[test]
fn a_finish_reason_that_names_a_failure_is_one_in_every_dialect() {
    let check = |backend: &str, events: &[&str], expected: &str| {
        assert_eq!(outcome_of(&read_whole(backend, &streamed(events))), expected, "{events:?}");
    };
    let early = "in-stream the server ended the answer early: finish reason";
    let completion = |reason: &str| {
        format!(
            r#"{{"choices":[{{"text":"b","finish_reason":{reason}}}],"usage":{{"completion_tokens":2}}}}"#
        )
    };
    let first = r#"{"choices":[{"text":"a","finish_reason":null}]}"#;
    for reason in ["error", "abort", "cancelled", "timeout"] {
        let last = completion(&format!("\"{reason}\""));
        check("vllm", &[first, &last, "[DONE]"], &format!("{early} `{reason}`"));
    }
    for reason in ["stop", "length", "content_filter", "tool_calls", "eos_token"] {
        check("vllm", &[first, &completion(&format!("\"{reason}\"")), "[DONE]"], "ok");
    }
    let chat = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"error"}]}"#;
    check("openai-chat", &[chat, "[DONE]"], &format!("{early} `error`"));
    let sglang = |reason: &str| {
        format!(r#"{{"text":"ab","meta_info":{{"completion_tokens":2,"finish_reason":{reason}}}}}"#)
    };
    let aborted = sglang(r#"{"type":"abort","message":"out of memory","status_code":500}"#);
    check("sglang", &[&aborted, "[DONE]"], &format!("{early} `abort`: out of memory"));
    check("sglang", &[&sglang(r#"{"type":"length","length":2}"#), "[DONE]"], "ok");
    let tgi = |reason: &str| {
        format!(
            r#"{{"token":{{"text":"a"}},"generated_text":"a","details":{{"finish_reason":"{reason}","generated_tokens":1}}}}"#
        )
    };
    check("tgi", &[&tgi("error")], &format!("{early} `error`"));
    check("tgi", &[&tgi("length")], "ok");
}

/// With `n` of 2 the events of both choices were read as one stream of twice the rate.
#[test]
fn only_the_first_choice_has_times_and_text() {
    let event = |index: u32, text: &str| {
        format!(r#"{{"choices":[{{"index":{index},"text":"{text}","finish_reason":null}}]}}"#)
    };
    let events = [event(0, "a"), event(1, "x"), event(1, "y"), event(0, "b"), event(0, "c")];
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":5}}"#;
    let mut stream: Vec<&str> = events.iter().map(String::as_str).collect();
    stream.extend([usage, "[DONE]"]);
    let timeline = read_whole("vllm", &streamed(&stream));
    assert_eq!(letters(&timeline.events), "tffttu.");
    assert_eq!((outcome_of(&timeline).as_str(), timeline.text.as_deref()), ("ok", Some("abc")));
    assert_eq!(timeline.output_tokens().map(|(tokens, _)| tokens), Some(5));
}

#[test]
fn an_answer_in_one_piece_fails_by_its_finish_reason_too() {
    let body =
        r#"{"choices":[{"text":"a","finish_reason":"abort"}],"usage":{"completion_tokens":1}}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let outcome = outcome_of(&read_whole("vllm", answer.as_bytes()));
    assert_eq!(outcome, "in-stream the server ended the answer early: finish reason `abort`");
}

#[test]
fn an_error_document_of_any_content_type_gives_the_servers_message() {
    let check = |backend: &str, media: &str, body: &str, expected: &str| {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let outcome = outcome_of(&read_whole(backend, answer.as_bytes()));
        assert_eq!(outcome, expected, "{backend} {media} {body}");
    };
    let bodies = [
        r#"{"error":{"message":"no memory","code":500}}"#,
        "{\n  \"error\": {\n    \"message\": \"no memory\"\n  }\n}\n",
        r#"{"object":"error","message":"no memory"}"#,
        r#"{"detail":"no memory"}"#,
    ];
    for backend in ["vllm", "openai-chat", "sglang", "tgi", "llamacpp"] {
        for media in ["application/json", "text/event-stream", "text/plain", "text/html"] {
            for body in bodies {
                check(backend, media, body, "in-stream no memory");
            }
        }
    }
    let page = "<html><body>Service unavailable</body></html>";
    let expected = "protocol the server answered with an HTML page, not an API response; \
                    check `--base-url` and `--endpoint`";
    for media in ["application/json", "text/event-stream", "text/html"] {
        check("vllm", media, page, expected);
    }
    check("vllm", "text/event-stream", "", "protocol the response body is empty");
    check("vllm", "application/json", "", "protocol the response body is empty");
    check("vllm", "text/event-stream", ": ping\n\n", "cut the stream ended without its end marker");
}
