//! Dynamo's request traces: one event per line, of which those that end a request are calls.
//!
//! Block hashes are rolling: an equal hash is an equal prefix.

use serde::Deserialize;

use super::super::call::{Agent, Blocks, Call, Content, MILLISECOND, Moment, Tokens, key, nanos};
use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

pub(in super::super) const FORM: Form = Form {
    name: "dynamo",
    is: |names| names.have(&["event"]) || names.have(&["event_type", "event_time_unix_ms"]),
    read,
    clock: TraceClock::Trace,
};

/// An event, or a line around one.
#[derive(Deserialize)]
struct Event {
    event: Option<Box<Event>>,
    event_type: Option<String>,
    agent_context: Option<AgentContext>,
    request: Option<Request>,
}

#[derive(Deserialize)]
struct AgentContext {
    session_id: String,
    parent_session_id: Option<String>,
}

#[derive(Deserialize)]
struct Request {
    request_received_ms: Option<Moment>,
    total_time_ms: Option<Moment>,
    ttft_ms: Option<Moment>,
    input_tokens: Option<Tokens>,
    output_tokens: Option<Tokens>,
    replay: Option<Replay>,
}

#[derive(Deserialize)]
struct Replay {
    trace_block_size: u32,
    input_length: Tokens,
    input_sequence_hashes: Vec<u64>,
}

fn read(row: Row<'_>, setting: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let mut event: Event = form::json(row)?;
    if let Some(inner) = event.event.take() {
        event = *inner;
    }
    // The time of a tool is the gap between two calls.
    if event.event_type.as_deref() != Some("request_end") {
        return Ok(());
    }
    let request = event.request.ok_or_else(|| "it has no `request`".to_owned())?;
    let agent = event.agent_context.map(|context| Agent {
        key: key(&context.session_id),
        parent: context.parent_session_id.as_deref().map(key),
        joins: true,
    });
    let received = nanos(request.request_received_ms, MILLISECOND)?;
    let mut call = Call {
        agent,
        start: Some(received.ok_or(FlawKind::NoTime.with("it has no `request_received_ms`"))?),
        duration: nanos(request.total_time_ms, MILLISECOND)?,
        ttft: nanos(request.ttft_ms, MILLISECOND)?,
        input: request.input_tokens.map(|tokens| tokens.0),
        output: request.output_tokens.map(|tokens| tokens.0),
        ..Call::default()
    };
    if let Some(replay) = request.replay {
        let tokens = setting.block_tokens.unwrap_or(replay.trace_block_size).max(1);
        let blocks = Blocks { ids: replay.input_sequence_hashes, tokens, scope: 0 };
        blocks.check(replay.input_length.0)?;
        call.input = Some(replay.input_length.0);
        call.prompt = Content::Blocks(blocks);
    }
    found.calls.push(call);
    Ok(())
}
