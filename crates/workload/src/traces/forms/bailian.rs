//! Alibaba's Bailian traces: chats whose turns name the one before them. Each row has its whole prompt as blocks.

use serde::Deserialize;

use super::super::call::{Blocks, Call, Content, Moment, Order, SECOND, Tokens};
use super::super::flaw::Flaw;
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

const BLOCK_TOKENS: u32 = 16;

pub(in super::super) const FORM: Form = Form {
    name: "bailian",
    is: |names| names.have(&["chat_id", "parent_chat_id", "input_length", "output_length"]),
    read,
    clock: TraceClock::Trace,
};

#[derive(Deserialize)]
struct Line {
    chat_id: i64,
    /// -1 for the first turn of a chat.
    parent_chat_id: i64,
    timestamp: Moment,
    input_length: Tokens,
    output_length: Tokens,
    #[serde(rename = "type")]
    class: Option<String>,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

fn read(row: Row<'_>, setting: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let line: Line = form::json(row)?;
    let tokens = setting.block_tokens.unwrap_or(BLOCK_TOKENS);
    let blocks = Blocks { ids: line.hash_ids, tokens, scope: 0 };
    blocks.check(line.input_length.0)?;
    let parent = (line.parent_chat_id >= 0).then(|| line.parent_chat_id.cast_unsigned());
    found.calls.push(Call {
        order: Order::After { id: line.chat_id.cast_unsigned(), parent },
        start: Some(line.timestamp.nanos(SECOND)?),
        input: Some(line.input_length.0),
        output: Some(line.output_length.0),
        prompt: Content::Blocks(blocks),
        class: line.class,
        ..Call::default()
    });
    Ok(())
}
