//! Answers that several cases share.

use crate::scripted::{AfterResponse, ScriptedRequest};

/// An event with one token, as `/v1/completions` streams it.
pub(super) const TOKEN: &str = r#"{"choices":[{"index":0,"text":" word"}]}"#;
/// The event that ends an answer.
pub(super) const LAST: &str = r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#;
/// Usage of an answer of four tokens.
pub(super) const USAGE: &str =
    r#"{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":4}}"#;
/// Head of a stream in chunks, on a connection that stays open.
pub(super) const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A good answer of four tokens in chunks; the connection stays open.
pub(super) fn good(mut asked: ScriptedRequest<'_>) -> AfterResponse {
    asked.send(CHUNKED);
    asked.send(chunk(&events(4)));
    asked.send("0\r\n\r\n");
    AfterResponse::Stay
}

/// All events of a good answer.
pub(super) fn events(tokens: usize) -> String {
    let mut data = vec![TOKEN; tokens];
    data.extend([LAST, USAGE, "[DONE]"]);
    data.iter().flat_map(|data| ["data: ", data, "\n\n"]).collect()
}

pub(super) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A stream that ends with the connection and holds exactly this.
pub(super) fn stream(mut asked: ScriptedRequest<'_>, body: impl AsRef<[u8]>) -> AfterResponse {
    asked.start_stream();
    asked.send(body);
    AfterResponse::Close
}

/// A whole answer with this status and body; the connection stays open.
pub(super) fn answer(
    mut asked: ScriptedRequest<'_>,
    status: &str,
    kind: &str,
    body: &str,
) -> AfterResponse {
    asked.answer(status, kind, body);
    AfterResponse::Stay
}

/// An error as OpenAI's servers report it.
pub(super) fn error(asked: ScriptedRequest<'_>, status: &str, words: &str) -> AfterResponse {
    let body = format!(r#"{{"error":{{"message":"{words}","type":"x","code":null}}}}"#);
    answer(asked, status, "application/json", &body)
}

/// Says nothing more until the client gives up.
pub(super) fn hold(asked: ScriptedRequest<'_>) -> AfterResponse {
    asked.hold()
}

pub(super) fn reset(asked: ScriptedRequest<'_>) -> AfterResponse {
    asked.reset()
}
