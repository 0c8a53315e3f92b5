//! Token counts that servers send unasked, or count in their own way.

use super::*;

fn counts_of(timeline: &Timeline) -> Vec<Option<u32>> {
    let contents = timeline.events.iter().filter(|event| event.kind.has_choice());
    contents.map(Event::tokens).collect()
}

fn read(backend: &str, events: &[String]) -> Timeline {
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let timeline = read_whole(backend, &streamed(&events));
    assert_eq!(outcome_of(&timeline), "ok", "{events:?}");
    timeline
}

/// A chat event with text, usage of so many output tokens and a finish reason.
fn chat(text: &str, output: Option<u32>, finish: Option<&str>) -> String {
    let usage =
        output.map(|output| serde_json::json!({"prompt_tokens": 5, "completion_tokens": output}));
    let choice =
        serde_json::json!({"index": 0, "delta": {"content": text}, "finish_reason": finish});
    serde_json::json!({"choices": [choice], "usage": usage}).to_string()
}

/// Some servers send it with every event, as a sum, as an estimate or as zeros.
#[test]
fn usage_that_was_not_requested_with_every_event_counts_no_event() {
    let events =
        [chat(" a", Some(3), None), chat(" b", Some(5), Some("stop")), "[DONE]".to_owned()];
    let timeline = read("openai-chat", &events);
    assert_eq!(counts_of(&timeline), [None; 2]);
    assert_eq!(timeline.usage.unwrap().completion_tokens, Some(5));
    let mut settings = settings();
    settings.usage = UsageReports::Continuous;
    let stream = streamed(&events.each_ref().map(String::as_str));
    let (timeline, _) = read_pieces(&mut exchange("openai-chat", &settings), [&stream[..]]);
    assert_eq!(counts_of(&timeline), [Some(3), Some(2)]);
}

/// xAI counts reasoning beside the output: 100 streamed tokens counted as 6, so the time per token was
/// 20 times as long.
#[test]
fn reasoning_that_the_sum_shows_beside_the_output_is_part_of_the_output() {
    let check = |total: u32, output: u32, reasoning: u32, expected: u32| {
        let usage = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":20,"completion_tokens":{output},"total_tokens":{total},"completion_tokens_details":{{"reasoning_tokens":{reasoning}}}}}}}"#
        );
        let timeline =
            read("openai-chat", &[chat(" w", None, Some("stop")), usage.clone(), "[DONE]".into()]);
        let usage = timeline.usage.unwrap();
        let counts = (usage.completion_tokens, usage.reasoning_tokens);
        assert_eq!(counts, (Some(expected), Some(reasoning)), "{usage:?}");
    };
    check(120, 6, 94, 100);
    check(120, 100, 94, 100);
    check(26, 6, 0, 6);
    check(0, 6, 94, 6);
}

#[test]
fn a_cumulative_text_that_does_not_grow_is_empty() {
    let stream = |texts: &[&str]| -> Vec<String> {
        let event = |(at, text): (usize, &&str)| {
            let text = serde_json::to_string(text).unwrap();
            let finish = if at + 1 == texts.len() { r#"{"type":"length"}"# } else { "null" };
            let meta = format!(
                r#"{{"finish_reason":{finish},"prompt_tokens":5,"completion_tokens":{}}}"#,
                at + 1
            );
            format!(r#"{{"text":{text},"meta_info":{meta}}}"#)
        };
        texts.iter().enumerate().map(event).chain(["[DONE]".to_owned()]).collect()
    };
    let check = |texts: &[&str], kinds: &str, text: &str| {
        let timeline = read("sglang", &stream(texts));
        assert_eq!(letters(&timeline.events), kinds, "{texts:?}");
        assert_eq!(timeline.text.as_deref(), Some(text), "{texts:?}");
    };
    check(&[" a", " a b", " a b", " a b c"], "ttet.", " a b c");
    check(&["\u{fffd}", "😀", "😀a"], "ttt.", "😀a");
    check(&["", "ab", "ab\u{fffd}", "ab😀"], "ettt.", "ab😀");
    // A stop string that is taken away again.
    check(&[" a#", " a##", " a"], "tte.", " a##");
}

/// Perplexity repeats all text so far beside each increment. It was taken for the increment, so the
/// text was many times too long, and the finish reason counted as text.
#[test]
fn a_message_beside_the_increment_is_no_text_of_its_own() {
    let event = |order: [&str; 2], piece: &str, so_far: &str, finish: &str| {
        let part = |name: &str| match name {
            "delta" => format!(r#""delta":{{"role":"assistant","content":"{piece}"}}"#),
            _ => format!(r#""message":{{"role":"assistant","content":"{so_far}"}}"#),
        };
        let [first, second] = order.map(part);
        format!(r#"{{"choices":[{{"index":0,"finish_reason":{finish},{first},{second}}}]}}"#)
    };
    for order in [["delta", "message"], ["message", "delta"]] {
        let events = [
            event(order, "a", "a", "null"),
            event(order, " b", "a b", "null"),
            event(order, " c", "a b c", "null"),
            event(order, "", "a b c", r#""stop""#),
            "[DONE]".to_owned(),
        ];
        let timeline = read("openai-chat", &events);
        assert_eq!(letters(&timeline.events), "ttte.");
        assert_eq!(timeline.text.as_deref(), Some("a b c"));
    }
}

/// `MiniMax` ends its pieces with the whole message. It counted as another piece, so E2E and TPOT were those of its
/// time, and the text was there twice.
#[test]
fn a_message_behind_the_increments_is_no_text_of_its_own() {
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}"#;
    let last = r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"a b","reasoning_content":"h","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}"#;
    let events =
        [chat("a", None, None), chat(" b", None, None), call.into(), last.into(), "[DONE]".into()];
    let timeline = read("openai-chat", &events);
    assert_eq!(letters(&timeline.events), "ttce.");
    assert_eq!(timeline.text.as_deref(), Some("a b"));
    assert_eq!(timeline.tool_calls.as_deref(), Some(r#"[{"name":"f","arguments":"{}"}]"#));
}

/// The count was zero, so the text was tokenized instead.
#[test]
fn zeros_behind_a_count_do_not_replace_it() {
    let zeros = r#"{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#;
    let events = [chat("a", None, None), chat("", Some(7), Some("stop")), zeros.into()];
    let usage = read("openai-chat", &[&events[..], &["[DONE]".to_owned()]].concat()).usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(5), Some(7)));
    let events = [chat("", Some(0), None), chat("a", None, Some("stop")), "[DONE]".into()];
    assert_eq!(read("openai-chat", &events).usage.unwrap().completion_tokens, Some(0));
}

/// Ollama's own API, for example.
#[test]
fn a_stream_of_another_protocol_names_the_flags_to_check() {
    let event = r#"{"model":"m","response":" w","done":false}"#;
    let outcome = outcome_of(&read_whole("openai", &streamed(&[event, event])));
    assert_eq!(
        outcome,
        "cut the stream ended without its end marker, and no event has a field of this protocol; \
         check `--backend` and `--endpoint`"
    );
}

/// An estimate in the first event was larger than the true count, which came last, and stayed.
#[test]
fn the_last_count_of_the_prompt_replaces_an_earlier_one() {
    let prompt = |backend: &str, events: &[&str]| {
        read_whole(backend, &streamed(events)).usage.and_then(|usage| usage.prompt_tokens)
    };
    let token = |prompt: u32| {
        format!(
            r#"{{"choices":[{{"text":"a"}}],"usage":{{"prompt_tokens":{prompt},"completion_tokens":1}}}}"#
        )
    };
    let last = |prompt: u32| {
        format!(r#"{{"choices":[],"usage":{{"prompt_tokens":{prompt},"completion_tokens":4}}}}"#)
    };
    assert_eq!(prompt("vllm", &[&token(50), &last(8), "[DONE]"]), Some(8));
    assert_eq!(prompt("vllm", &[&token(8), &last(0), "[DONE]"]), Some(8));
    // The Messages API counts cached tokens apart, and the last event may leave them out.
    let begin =
        |usage: &str| format!(r#"{{"type":"message_start","message":{{"usage":{{{usage}}}}}}}"#);
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":5,"output_tokens":4}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let cached = begin(r#""input_tokens":5,"cache_read_input_tokens":30"#);
    assert_eq!(prompt("anthropic", &[&cached, text, end, stop]), Some(35));
    let estimate = begin(r#""input_tokens":30"#);
    assert_eq!(prompt("anthropic", &[&estimate, text, end, stop]), Some(5));
}

/// Eight tokens became 99.
#[test]
fn nothing_behind_the_end_mark_is_counted() {
    let token = "data: {\"choices\":[{\"index\":0,\"text\":\" a\"}]}\n\n";
    let usage = |tokens: u32| {
        format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":4,\"completion_tokens\":{tokens}}}}}\n\n"
        )
    };
    let done = "data: [DONE]\n\n";
    let more = [token.repeat(3), usage(99)].concat();
    let body = [token.repeat(8), usage(8), done.to_owned(), more, done.to_owned()].concat();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let stream = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let timeline = read_whole("vllm", stream.as_bytes());
    assert!(timeline.is_success());
    assert_eq!(timeline.usage.unwrap().completion_tokens, Some(8));
    assert_eq!(timeline.events.iter().filter(|event| event.kind.is_content()).count(), 8);
    assert_eq!(timeline.text.as_deref(), Some(" a".repeat(8).as_str()));
}
