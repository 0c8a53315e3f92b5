//! Mooncake's traces, with the fields that `AIPerf` adds: sessions, pauses and given prompts.
//!
//! Times and pauses are milliseconds. In a session each row adds to the one before it, as in `AIPerf`, unless it
//! begins with the same block or carries its whole list of messages.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::call::{Blocks, Call, Content, Id, MILLISECOND, Moment, Tokens, nanos};
use super::super::flaw::Flaw;
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

const BLOCK_TOKENS: u32 = 512;

pub(in super::super) const FORM: Form = Form {
    name: "mooncake",
    is: |names| {
        names.have_any(&["input_length", "text_input", "payload"])
            || names.have(&["messages"])
                && names.have_any(&["timestamp", "delay", "output_length", "session_id"])
    },
    read,
    clock: TraceClock::Trace,
};

#[derive(Deserialize)]
struct Line {
    timestamp: Option<Moment>,
    delay: Option<Moment>,
    session_id: Option<Id>,
    input_length: Option<Tokens>,
    output_length: Option<Tokens>,
    #[serde(default)]
    hash_ids: Vec<u64>,
    text_input: Option<String>,
    messages: Option<Box<RawValue>>,
    message_mode: Option<String>,
    tools: Option<Value>,
    payload: Option<Map<String, Value>>,
    extra: Option<Map<String, Value>>,
}

fn read(row: Row<'_>, setting: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let line: Line = form::json(row)?;
    let prompts = [line.input_length.is_some(), line.text_input.is_some(), line.messages.is_some()];
    let prompts = prompts.into_iter().chain([line.payload.is_some()]).filter(|is| *is).count();
    if prompts != 1 {
        let text =
            "exactly one of `input_length`, `text_input`, `messages` and `payload` is needed";
        return Err(text.to_owned().into());
    }
    let mut extra = line.extra.unwrap_or_default();
    if let Some(tools) = line.tools {
        extra.entry("tools").or_insert(tools);
    }
    let adds = line.session_id.is_some();
    let has_blocks = !line.hash_ids.is_empty();
    let blocks = has_blocks.then(|| Blocks {
        ids: line.hash_ids,
        tokens: setting.block_tokens.unwrap_or(BLOCK_TOKENS),
        scope: 0,
    });
    let input = line.input_length.map(|tokens| tokens.0);
    if let (Some(blocks), Some(input)) = (&blocks, input) {
        blocks.check(input)?;
    }
    let prompt = if let Some(list) = line.messages {
        let is_delta = line.message_mode.as_deref() == Some("delta");
        Content::Messages { list: list.get().to_owned(), adds: adds && is_delta }
    } else if let Some(text) = line.text_input {
        Content::Text { text, adds }
    } else if let Some(mut body) = line.payload {
        let list = body.remove("messages").unwrap_or_else(|| json!([]));
        extra.append(&mut body);
        Content::Messages { list: list.to_string(), adds: false }
    } else if adds {
        Content::Adds(blocks)
    } else {
        blocks.map_or(Content::Fresh, Content::Blocks)
    };
    found.calls.push(Call {
        session: line.session_id.map(|id| id.0),
        start: nanos(line.timestamp, MILLISECOND)?,
        pause_before: nanos(line.delay, MILLISECOND)?,
        input,
        output: line.output_length.map(|tokens| tokens.0),
        prompt,
        extra_body: (!extra.is_empty()).then(|| Value::Object(extra).to_string()),
        ..Call::default()
    });
    Ok(())
}
