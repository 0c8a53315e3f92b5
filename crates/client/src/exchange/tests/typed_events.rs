//! The Responses and Messages APIs where no capture shows them.

use super::{letters, outcome_of, read_whole, streamed};

const DELTA: &str = r#"{"type":"response.output_text.delta","delta":"a"}"#;
const START: &str = r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":30,"cache_creation_input_tokens":2,"output_tokens":1}}}"#;
const TEXT: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;

fn completed(status: &str) -> String {
    format!(
        r#"{{"type":"response.completed","response":{{"status":"{status}","error":null,"usage":{{"input_tokens":3,"output_tokens":2}}}}}}"#
    )
}

fn check(backend: &str, events: &[&str], kinds: &str, outcome: &str) {
    let timeline = read_whole(backend, &streamed(events));
    assert_eq!(letters(&timeline.events), kinds, "{events:?}");
    assert_eq!(outcome_of(&timeline), outcome, "{events:?}");
}

#[test]
fn a_response_ends_at_its_terminal_event_and_nothing_else() {
    let check = |events: &[&str], kinds: &str, outcome: &str| {
        check("openai-responses", events, kinds, outcome);
    };
    check(&[DELTA, &completed("completed")], "tu", "ok");
    check(&[DELTA, &completed("incomplete")], "tu", "ok");
    check(&[DELTA], "t", "cut the stream ended without its end marker");
    let incomplete = r#"{"type":"response.incomplete","response":{"status":"incomplete","usage":{"output_tokens":2}}}"#;
    check(&[DELTA, incomplete], "tu", "ok");
    let early = "in-stream the server ended the answer early: finish reason";
    check(&[DELTA, &completed("cancelled")], "tu", &format!("{early} `cancelled`"));
    let done = r#"{"type":"response.output_text.done","text":"a"}"#;
    let unknown = r#"{"type":"response.web_search_call.searching","item_id":"x"}"#;
    check(&[unknown, DELTA, done, &completed("completed")], "otou", "ok");
}

#[test]
fn every_kind_of_piece_is_told_apart() {
    let piece = |kind: &str, delta: &str| format!(r#"{{"type":"{kind}","delta":"{delta}"}}"#);
    let events = [
        piece("response.reasoning_text.delta", "h"),
        piece("response.reasoning_summary_text.delta", "h"),
        piece("response.refusal.delta", "no"),
        piece("response.function_call_arguments.delta", "{"),
        piece("response.mcp_call_arguments.delta", "{"),
        piece("response.output_text.delta", ""),
        completed("completed"),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    check("openai-responses", &events, "hhtcceu", "ok");
}

/// They had neither TTFT nor E2E, and without usage they failed.
#[test]
fn a_response_without_pieces_has_its_text_in_the_event_that_ends_it() {
    let done = r#"{"type":"response.output_text.done","text":"a b"}"#;
    let part =
        r#"{"type":"response.content_part.done","part":{"type":"output_text","text":"a b"}}"#;
    let ended = completed("completed");
    check("openai-responses", &[done, part, &ended], "tou", "ok");
    check("openai-responses", &[DELTA, done, &ended], "tou", "ok");
    let text = |events: &[&str]| read_whole("openai-responses", &streamed(events)).text;
    assert_eq!(text(&[done, part, &ended]).as_deref(), Some("a b"));
    assert_eq!(text(&[DELTA, done, &ended]).as_deref(), Some("a"));
}

/// The text that came only whole was dropped behind reasoning, and so was every part but the first.
#[test]
fn the_whole_text_of_each_part_without_pieces_is_taken() {
    let thought = r#"{"type":"response.reasoning_text.delta","delta":"hm"}"#;
    let done = |text: &str| format!(r#"{{"type":"response.output_text.done","text":"{text}"}}"#);
    let (first, second, ended) = (done("a b"), done("c d"), completed("completed"));
    let read = |events: &[&str]| {
        let timeline = read_whole("openai-responses", &streamed(events));
        (letters(&timeline.events), timeline.text.unwrap_or_default())
    };
    let expect = |kinds: &str, text: &str| (kinds.to_owned(), text.to_owned());
    assert_eq!(read(&[thought, thought, &first, &ended]), expect("hhtu", "hmhma b"));
    assert_eq!(read(&[&first, &second, &ended]), expect("ttu", "a bc d"));
    assert_eq!(read(&[DELTA, &done("a"), &second, &ended]), expect("totu", "ac d"));
    // The shape of a whole text is not that of a piece.
    assert_eq!(read(&[&first, DELTA, DELTA, &done("aa"), &ended]), expect("tttou", "a baa"));
}

fn named(events: &[(&str, &str)]) -> Vec<u8> {
    let mut stream =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_vec();
    for (name, data) in events {
        stream.extend(format!("event: {name}\ndata: {data}\n\n").into_bytes());
    }
    stream
}

/// Reasoning taught the form of the pieces, and the text behind it counted as reasoning.
#[test]
fn events_that_only_their_name_tells_apart_are_read_by_it() {
    let piece = r#"{"output_index":1,"delta":"x"}"#;
    let ended = ("response.completed", r#"{"response":{"status":"completed"}}"#);
    let (thought, text) = ("response.reasoning_text.delta", "response.output_text.delta");
    let pieces = named(&[(thought, piece), (thought, piece), (text, piece), (text, piece), ended]);
    let timeline = read_whole("openai-responses", &pieces);
    assert_eq!(letters(&timeline.events), "hhtt.");
    assert_eq!(timeline.answer.as_deref(), Some("xx"));
    let call = "response.function_call_arguments.delta";
    let calls = named(&[
        (
            "response.output_item.added",
            r#"{"output_index":1,"item":{"type":"function_call","name":"f","arguments":""}}"#,
        ),
        (call, piece),
        (call, piece),
        ended,
    ]);
    let timeline = read_whole("openai-responses", &calls);
    assert_eq!(letters(&timeline.events), "occ.");
    assert_eq!(timeline.tool_calls.as_deref(), Some(r#"[{"name":"f","arguments":"xx"}]"#));
}

#[test]
fn failures_inside_a_response_are_told_in_the_servers_words() {
    let check = |events: &[&str], kinds: &str, outcome: &str| {
        check("openai-responses", events, kinds, outcome);
    };
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"out of memory"}}}"#;
    check(&[DELTA, failed], "t!", "in-stream out of memory");
    let error = r#"{"type":"error","code":"x","message":"too busy"}"#;
    check(&[DELTA, error], "t!", "in-stream too busy");
    check(&[DELTA, r#"{"error":{"message":"gone"}}"#], "t!", "in-stream gone");
}

#[test]
fn a_message_counts_cached_tokens_and_ends_at_its_stop() {
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":5,"output_tokens":9}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let ping = r#"{"type":"ping"}"#;
    let timeline = read_whole("anthropic", &streamed(&[START, ping, TEXT, TEXT, delta, stop]));
    assert_eq!(letters(&timeline.events), "rottu.");
    let usage = timeline.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.cached_tokens), (Some(37), Some(30)));
    assert_eq!(usage.completion_tokens, Some(9));
    check("anthropic", &[START, TEXT, delta], "rtu", "cut the stream ended without its end marker");
    let thinking =
        r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}"#;
    let signature =
        r#"{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"xyz"}}"#;
    let json =
        r#"{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}"#;
    check("anthropic", &[START, thinking, signature, json, delta, stop], "rhocu.", "ok");
}

/// SGLang ends a failed message like a complete one.
#[test]
fn a_message_with_an_error_fails_though_it_is_stopped() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    check("anthropic", &[START, TEXT, error, stop], "rt!.", "in-stream busy");
}

/// The first event's count is not the answer's: without a final one nothing is known.
#[test]
fn a_message_without_final_usage_has_no_count() {
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let timeline = read_whole("anthropic", &streamed(&[START, TEXT, delta, stop]));
    assert_eq!(timeline.usage.unwrap().completion_tokens, None);
    assert_eq!(outcome_of(&timeline), "ok");
}

/// vLLM and SGLang send chunks with choices, OpenAI events with types.
#[test]
fn transcriptions_are_read_in_both_forms_and_in_one_piece() {
    let check = |events: &[&str], kinds: &str, outcome: &str| {
        check("openai-audio", events, kinds, outcome);
    };
    let chunk = |content: &str, finish: &str| {
        format!(
            r#"{{"id":"trsc-1","object":"transcription.chunk","created":1,"model":"m","choices":[{{"delta":{{"content":"{content}"}},"finish_reason":{finish},"stop_reason":null}}]}}"#
        )
    };
    let usage = r#"{"object":"transcription.chunk","choices":[],"usage":{"prompt_tokens":152,"completion_tokens":2,"total_tokens":154}}"#;
    let (first, last) = (chunk(" So", "null"), chunk(" it", r#""stop""#));
    check(&[&first, &last, usage, "[DONE]"], "ttu.", "ok");
    check(&[&first], "t", "cut the stream ended without its end marker");
    let failed = r#"{"error":{"message":"no decoder","code":400}}"#;
    check(&[&first, failed], "t!", "in-stream no decoder");
    let delta = r#"{"type":"transcript.text.delta","delta":"So"}"#;
    let done = r#"{"type":"transcript.text.done","text":"So it","usage":{"type":"tokens","input_tokens":9,"output_tokens":2,"total_tokens":11}}"#;
    check(&[delta, delta, done], "ttu", "ok");
    let read = read_whole("openai-audio", &streamed(&[delta, delta, done]));
    assert_eq!(read.usage.unwrap().completion_tokens, Some(2));
    assert_eq!(read.text.as_deref(), Some("SoSo"));
}

/// Silence has a transcript without text: an answer of no tokens. It was a failure without content.
#[test]
fn a_transcript_without_text_is_an_answer() {
    let chunk = |finish: &str| {
        format!(
            r#"{{"object":"transcription.chunk","choices":[{{"delta":{{"content":""}},"finish_reason":{finish}}}]}}"#
        )
    };
    let (open, last) = (chunk("null"), chunk(r#""stop""#));
    check("openai-audio", &[&open, &last, "[DONE]"], "ee.", "ok");
    let done = r#"{"type":"transcript.text.done","text":""}"#;
    assert_eq!(outcome_of(&read_whole("openai-audio", &streamed(&[done]))), "ok");
    let whole = |backend: &str, body: &str| {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        read_whole(backend, answer.as_bytes())
    };
    let silent = whole("openai-audio", r#"{"text":"","usage":{"type":"duration","seconds":5}}"#);
    assert_eq!(outcome_of(&silent), "ok");
    assert_eq!((silent.text.as_deref(), silent.first_content()), (Some(""), None));
    // What is no transcript, or is cut, is no answer; nor is an empty chat.
    let nothing = "no-content the answer ended without content (events: 1)";
    assert_eq!(outcome_of(&whole("openai-audio", r#"{"usage":{"seconds":5}}"#)), nothing);
    assert_eq!(outcome_of(&read_whole("openai-audio", &streamed(&["[DONE]"]))), nothing);
    check("openai-audio", &[&open], "e", "cut the stream ended without its end marker");
    let chat = r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#;
    assert_eq!(outcome_of(&whole("openai-chat", chat)), nothing);
    let chat = read_whole("openai-chat", &streamed(&[&open, &last, "[DONE]"]));
    assert_eq!(outcome_of(&chat), "no-content the answer ended without content (events: 3)");
}

/// Some gateways send the type and a message, and neither an `error` object nor the event's name.
#[test]
fn an_event_of_the_type_error_fails_the_answer() {
    let error = r#"{"type":"error","message":"worker gone","code":503}"#;
    let responses = r#"{"type":"response.output_text.delta","delta":"a"}"#;
    let sound = r#"{"type":"transcript.text.delta","delta":"a"}"#;
    let stop = r#"{"type":"message_stop"}"#;
    check("anthropic", &[TEXT, error, stop], "t!.", "in-stream worker gone");
    check("openai-audio", &[sound, error], "t!", "in-stream worker gone");
    check("openai-responses", &[responses, error], "t!", "in-stream worker gone");
    let failed = r#"{"type":"response.failed","response":{"status":"failed"}}"#;
    let timeline = read_whole("openai-responses", &streamed(&[responses, failed]));
    assert_eq!(letters(&timeline.events), "t!");
    assert!(outcome_of(&timeline).starts_with("in-stream "), "{}", outcome_of(&timeline));
}
