//! Counts of tokens that are missing, impossible, or contradict the stream.

use super::case::Case;
use super::scripts::{LAST, TOKEN, USAGE, stream};
use crate::scripted::{AfterResponse, ScriptedRequest};

/// Eight tokens and a finish reason, then `usage` as the last event.
fn eight(asked: ScriptedRequest<'_>, usage: &str) -> AfterResponse {
    let tokens = format!("data: {TOKEN}\n\n").repeat(8);
    let usage = if usage.is_empty() { String::new() } else { format!("data: {usage}\n\n") };
    stream(asked, format!("{tokens}data: {LAST}\n\n{usage}data: [DONE]\n\n"))
}

/// Four tokens with this in the usage object.
fn four(asked: ScriptedRequest<'_>, usage: &str) -> AfterResponse {
    let tokens = format!("data: {TOKEN}\n\n").repeat(4);
    stream(
        asked,
        format!(
            "{tokens}data: {LAST}\n\ndata: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
        ),
    )
}

pub(super) const CASES: &[Case] = &[
    Case::every("no usage in any answer", |asked| eight(asked, ""))
        .counts(3, 0)
        .tokens(24)
        .exit(0)
        .says(&["counted by"]),
    Case::every("usage of 4 tokens for 8 events", |asked| eight(asked, USAGE))
        .counts(3, 0)
        .exit(0)
        .says(&["note[usage-contradicts-stream]"]),
    Case::every("usage of 0 tokens for 8 events", |asked| eight(asked, &USAGE.replace(":4", ":0")))
        .counts(3, 0)
        .exit(0)
        .says(&["note[usage-contradicts-stream]"]),
    Case::every("usage of 900 tokens for 4 events", |asked| four(asked, r#"{"prompt_tokens":8,"completion_tokens":900}"#))
        .counts(3, 0)
        .exit(0)
        .says(&["note[long-answers]"]),
    Case::every("usage only in the first event", |asked| {
        let first = TOKEN.replace("]}", r#"],"usage":{"prompt_tokens":8,"completion_tokens":1}}"#);
        let rest = format!("data: {TOKEN}\n\n").repeat(7);
        stream(asked, format!("data: {first}\n\n{rest}data: {LAST}\n\ndata: [DONE]\n\n"))
    })
    .counts(3, 0)
    .exit(0)
    .says(&["note[usage-contradicts-stream]"]),
    Case::every("usage is null", |asked| four(asked, "null")).counts(3, 0).exit(0).tokens(12).says(&["counted by"]),
    Case::every("usage counts are strings", |asked| {
        four(asked, r#"{"prompt_tokens":"8","completion_tokens":"4"}"#)
    })
    .counts(3, 0)
    .exit(0)
    .tokens(12)
    .says(&["counted by"]),
    Case::every("usage counts are negative", |asked| four(asked, r#"{"prompt_tokens":-8,"completion_tokens":-4}"#))
        .counts(3, 0)
        .exit(0)
        .tokens(12)
        .says(&["counted by"]),
    Case::every("usage counts of 1e300", |asked| {
        four(asked, r#"{"prompt_tokens":1e300,"completion_tokens":1e300}"#)
    })
    .counts(3, 0)
    .exit(0)
    .tokens(12)
    .says(&["counted by"]),
    Case::every("more cached tokens than the prompt has", |asked| {
        four(asked, r#"{"prompt_tokens":8,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":80}}"#)
    })
    .counts(3, 0)
    .exit(0)
    .tokens(12)
    .says(&["cached"]),
    Case::every("more reasoning tokens than the answer has", |asked| {
        four(asked, r#"{"prompt_tokens":8,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":900}}"#)
    })
    .counts(3, 0)
    .exit(0)
    .tokens(12)
    .says(&["reasoning"]),
];
