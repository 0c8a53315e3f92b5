//! Streams written here: forms of providers that no capture has.

use super::*;

#[test]
fn constructed_streams_end_with_the_expected_outcome() {
    let check = |backend: &str, events: &[&str], kinds: &str, outcome: &str| {
        let timeline = read_whole(backend, &streamed(events));
        assert_eq!(letters(&timeline.events), kinds, "{events:?}");
        assert_eq!(outcome_of(&timeline), outcome, "{events:?}");
    };
    let cut = "cut the stream ended without its end marker";
    let none = |events| format!("no-content the answer ended without content (events: {events})");
    check("vllm", &[r#"{"choices":[{"text":"a"}]}"#], "t", cut);
    check("vllm", &[r#"{"choices":[{"text":"a"}]}"#, "[DONE]"], "t.", "ok");
    check("vllm", &["[DONE]"], ".", &none(1));
    check(
        "openai-chat",
        &[r#"{"choices":[{"delta":{"role":"assistant"}}]}"#, "[DONE]"],
        "r.",
        &none(2),
    );
    // A single token with half a character is a response: the server counted it.
    let half =
        r#"{"choices":[{"text":"","finish_reason":"length"}],"usage":{"completion_tokens":1}}"#;
    check("vllm", &[half, "[DONE]"], "e.", "ok");
    let thought = r#"{"choices":[{"delta":{"reasoning":"hm","content":null}}]}"#;
    let thought_too = r#"{"choices":[{"delta":{"reasoning_content":"hm","content":""}}]}"#;
    let call =
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":"tool_calls"}]}"#;
    check("openai-chat", &[thought, thought_too, thought, call], "hhhc", "ok");
    check("vllm", &["{oops"], "!", "protocol an event is not JSON: {oops");
    check("trt", &[r#"{"text_output":"a"}"#, r#"{"text_output":" b"}"#], "tt", "ok");
    check("tgi", &[r#"{"token":{"text":"</s>","special":true},"generated_text":""}"#], "e", "ok");
    let piece = |text: &str, told: u32| {
        format!(
            r#"{{"text":"{text}","output_ids":[7],"meta_info":{{"completion_tokens":{told}}}}}"#
        )
    };
    check("sglang", &[&piece("long one", 1), &piece("b", 2), "[DONE]"], "tt.", "ok");
}

/// A conversation goes on with what a user would have read.
#[test]
fn the_answer_of_a_turn_is_its_text_without_the_reasoning() {
    let thought = |text: &str| format!(r#"{{"choices":[{{"delta":{{"reasoning":"{text}"}}}}]}}"#);
    let said = |text: &str| format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#);
    let check = |events: &[String], text: &str, answer: Option<&str>| {
        let mut events: Vec<&str> = events.iter().map(String::as_str).collect();
        events.push("[DONE]");
        let timeline = read_whole("openai-chat", &streamed(&events));
        assert_eq!(timeline.text.as_deref(), Some(text), "{events:?}");
        assert_eq!(timeline.answer.as_deref(), answer, "{events:?}");
    };
    check(&[said("a"), said("b")], "ab", None);
    check(&[thought("x"), thought("y"), said("a"), said("b"), said("c")], "xyabc", Some("abc"));
    check(&[said("a"), thought("x"), said("b"), said("c")], "axbc", Some("abc"));
    check(&[thought("x"), thought("y")], "xy", None);
}

#[test]
fn ids_without_text_are_content() {
    let event = |ids: &str, told: u32| {
        format!(r#"{{"output_ids":[{ids}],"meta_info":{{"completion_tokens":{told}}}}}"#)
    };
    let events = [event("1", 1), event("1,2,3", 3), event("1,2,3", 3)];
    let timeline = read_whole("sglang", &streamed(&[&events[0], &events[1], &events[2], "[DONE]"]));
    assert_eq!(letters(&timeline.events), "ttu.");
    assert_eq!(timeline.events[1].tokens(), Some(2));
}

#[test]
fn a_stream_of_events_is_read_whatever_its_label() {
    let stream = streamed(&[r#"{"choices":[{"text":"a"}]}"#, "[DONE]"]);
    let stream = String::from_utf8(stream).unwrap();
    for label in ["text/plain", "application/json", "application/x-ndjson", "application/jsonl"] {
        let stream = stream.replace("text/event-stream", label);
        for step in [1, 7, stream.len()] {
            let pieces = stream.as_bytes().chunks(step);
            let (timeline, _) = read_pieces(&mut exchange("vllm", &settings()), pieces);
            assert_eq!(letters(&timeline.events), "t.", "{label} by {step}");
            assert_eq!(outcome_of(&timeline), "ok", "{label} by {step}");
        }
    }
}

/// Providers of OpenAI's protocol have the counts in several objects.
#[test]
fn counts_are_read_in_every_provider_s_form() {
    let text = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let counts = r#"{"prompt_tokens":9,"completion_tokens":4,"prompt_cache_hit_tokens":5}"#;
    for end in [
        format!(r#"{{"choices":[],"usage":{counts}}}"#),
        format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop","usage":{counts}}}]}}"#),
        format!(r#"{{"choices":[],"x_groq":{{"id":"r","usage":{counts}}}}}"#),
    ] {
        let timeline = read_whole("openai-chat", &streamed(&[text, &end, "[DONE]"]));
        let usage = timeline.usage.unwrap_or_default();
        let told = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens);
        assert_eq!(told, (Some(9), Some(4), Some(5)), "{end}");
    }
}

#[test]
fn a_stream_of_pieces_from_sglang_is_joined_and_a_cumulative_one_replaced() {
    let event = |text: &str, ids: &str, told: u32| {
        format!(
            r#"{{"text":"{text}","output_ids":[{ids}],"meta_info":{{"completion_tokens":{told}}}}}"#
        )
    };
    let text = |events: &[&str]| read_whole("sglang", &streamed(events)).text.unwrap();
    assert_eq!(text(&[&event("ab", "1", 1), &event("c", "2", 2), "[DONE]"]), "abc");
    assert_eq!(text(&[&event("ab", "1", 1), &event("abc", "1,2", 2), "[DONE]"]), "abc");
}
