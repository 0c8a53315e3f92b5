//! Several choices (`n` above 1) inside one event.

use super::{letters, outcome_of, read_whole, streamed};

/// The choices behind the first were skipped, and with them their tokens and their failures.
#[test]
fn all_choices_of_one_event_are_read() {
    let check = |events: &[&str], kinds: &str| {
        let timeline = read_whole("vllm", &streamed(events));
        assert_eq!(
            (letters(&timeline.events).as_str(), outcome_of(&timeline).as_str()),
            (kinds, "ok")
        );
    };
    let both = |a: &str, b: &str| {
        format!(r#"{{"choices":[{{"index":0,"text":"{a}"}},{{"index":1,"text":"{b}"}}]}}"#)
    };
    let (two, second) = (both("a", "b"), both("", "c"));
    check(&[&two, &two, &second, "[DONE]"], "tftfef.");
    // An escape in a key leaves the event to the full parser.
    let escaped = two.replacen("choices", "\\u0063hoices", 1);
    check(&[&escaped, "[DONE]"], "tf.");
    let turned = r#"{"choices":[{"index":1,"text":"b"},{"index":0,"text":"a"}]}"#;
    check(&[turned, "[DONE]"], "ft.");
}

#[test]
fn a_further_choice_that_the_server_aborted_fails_the_request() {
    let aborted =
        r#"{"choices":[{"index":0,"text":"a"},{"index":1,"text":"","finish_reason":"abort"}]}"#;
    let timeline = read_whole("vllm", &streamed(&[aborted, "[DONE]"]));
    assert!(outcome_of(&timeline).starts_with("in-stream"), "{timeline:?}");
}

/// The error stood in a choice that was not looked at, and the request counted as a success.
#[test]
fn an_error_inside_a_further_choice_fails_the_request() {
    let error = r#"{"choices":[{"index":0,"text":"a"},{"index":1,"text":"","error":{"message":"worker gone"}}]}"#;
    let found = outcome_of(&read_whole("vllm", &streamed(&[error, "[DONE]"])));
    assert_eq!(found, "in-stream worker gone");
    let escaped = error.replacen("choices", "\\u0063hoices", 1);
    let found = outcome_of(&read_whole("vllm", &streamed(&[&escaped, "[DONE]"])));
    assert_eq!(found, "in-stream worker gone");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    let whole = read_whole("vllm", format!("{head}{error}").as_bytes());
    assert_eq!(outcome_of(&whole), "in-stream worker gone");
    let aborted = r#"{"choices":[{"index":0,"text":"a","finish_reason":"stop"},{"index":1,"text":"","finish_reason":"abort"}]}"#;
    let found = outcome_of(&read_whole("vllm", &streamed(&[aborted, "[DONE]"])));
    assert_eq!(found, "in-stream the server ended the answer early: finish reason `abort`");
}

/// Two whole answers counted as one that is twice as long as requested.
#[test]
fn every_choice_of_an_answer_in_one_piece_is_an_event() {
    let body = r#"{"choices":[{"index":0,"message":{"content":"a"}},{"index":1,"message":{"content":"b"}},{"index":2,"message":{"content":""}}],"usage":{"completion_tokens":8}}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    let timeline = read_whole("openai-chat", format!("{head}{body}").as_bytes());
    assert_eq!((letters(&timeline.events).as_str(), outcome_of(&timeline).as_str()), ("tf", "ok"));
    assert_eq!(timeline.output_tokens().map(|(tokens, _)| tokens), Some(8));
    assert!(timeline.events.iter().all(|event| event.tokens().is_none()), "usage covers both");
}

/// The repeated message of every choice behind the first counted as one more event.
#[test]
fn a_message_behind_the_pieces_repeats_no_choice() {
    let piece =
        r#"{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}"#;
    let last = r#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"},{"index":1,"message":{"content":"b"},"finish_reason":"stop"}]}"#;
    let timeline = read_whole("openai-chat", &streamed(&[piece, last, "[DONE]"]));
    assert_eq!(letters(&timeline.events), "tfe.");
    assert_eq!(timeline.text.as_deref(), Some("a"));
}
