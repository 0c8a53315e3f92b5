//! `TraceLab`: rounds of agent sessions, as JSON lines with the times of their events or as a table.
//!
//! There are no blocks: a round keeps the beginning of the one before it, and the rest is new.

use serde::Deserialize;

use super::super::call::{Call, Content, Id, MILLISECOND, Moment, SECOND, Tokens, key};
use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

pub(in super::super) const ROUNDS: Form = Form {
    name: "tracelab",
    is: |names| names.have(&["session_id", "round_index", "input_tokens_total", "prefix_tokens"]),
    read: read_round,
    clock: TraceClock::Trace,
};

pub(in super::super) const TABLE: Form = Form {
    name: "tracelab-table",
    is: |names| names.have(&["round_idx", "prefix_len", "input_len", "output_len"]),
    read: read_cells,
    clock: TraceClock::Trace,
};

#[derive(Deserialize)]
struct Round {
    session_id: Id,
    input_tokens_total: Tokens,
    prefix_tokens: Tokens,
    output_tokens: Tokens,
    #[serde(default)]
    timing_events: Vec<TimingEvent>,
}

#[derive(Deserialize)]
struct TimingEvent {
    event_type: String,
    timestamp: Moment,
}

fn read_round(row: Row<'_>, _: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let round: Round = form::json(row)?;
    // It was sent at its last input, and had ended at its last output.
    let last = |is_input: bool| {
        let events = round.timing_events.iter();
        let of_kind = events.filter(|event| {
            matches!(event.event_type.as_str(), "user_message" | "tool_result") == is_input
        });
        of_kind
            .map(|event| event.timestamp.nanos(SECOND))
            .try_fold(None, |last, time| time.map(|time| last.max(Some(time))))
    };
    let start = last(true)?.ok_or(FlawKind::NoTime.with("it has no time of an input"))?;
    found.calls.push(Call {
        session: Some(round.session_id.0),
        start: Some(start),
        duration: last(false)?.and_then(|end| end.checked_sub(start)),
        input: Some(round.input_tokens_total.0),
        output: Some(round.output_tokens.0),
        prompt: Content::Keeps(round.prefix_tokens.0),
        ..Call::default()
    });
    Ok(())
}

fn read_cells(row: Row<'_>, _: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let cells = form::table(row)?;
    let tokens = |name: &str| Tokens::parse(cells.cell(name).unwrap_or_default());
    let time = |name: &str| {
        let moment = cells.cell(name).map(Moment::parse).transpose()?;
        moment.map(|moment| moment.nanos(MILLISECOND)).transpose()
    };
    let session = cells.cell("session_id").or(cells.cell("id"));
    let session = session.ok_or_else(|| "it has no `session_id`".to_owned())?;
    let prefix = tokens("prefix_len")?.0;
    let input = prefix.checked_add(tokens("input_len")?.0);
    found.calls.push(Call {
        session: Some(key(session)),
        start: time("arrival_time")?,
        pause_after: time("tool_wait_after_ms")?,
        input: Some(input.ok_or_else(|| "its prompt is too long".to_owned())?),
        output: Some(tokens("output_len")?.0),
        prompt: Content::Keeps(prefix),
        ..Call::default()
    });
    Ok(())
}
