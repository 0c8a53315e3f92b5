//! Converts timelines to Arrow columns; [`read`] converts them back.
//!
//! One row per ended attempt. Times are nanoseconds since the run's origin; events are list columns
//! with nanoseconds since the request's first byte sent (since its admission, where nothing was
//! sent), or one list of bytes ([`packed`]). All other columns stand in one table, [`COLUMNS`].

mod packed;
mod read;

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt8Builder, UInt32Builder};
use arrow_array::{
    Array, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use tokometer_base::{Nanos, Script};

pub(crate) use self::read::{LONGEST, decode, measured_attempts, starts};
use crate::failure::{Failure, FailureKind, Outcome};
use crate::rows::SentAttempt;
use crate::timeline::{
    ContentBytes, Phase, ServerTimings, StampSource, TcpStats, Timeline, Times, Usage,
};

/// A column: its name, and how its values come out of a timeline and go back into one. An absent value stays
/// as it is in a new timeline.
enum Column {
    /// Stored relative to the run's origin.
    Time(&'static str, fn(&Times) -> Option<Nanos>, fn(&mut Times, Nanos)),
    Span(&'static str, fn(&Timeline) -> Option<Nanos>, fn(&mut Timeline, Nanos)),
    U64(&'static str, fn(&Timeline) -> Option<u64>, fn(&mut Timeline, u64)),
    U32(&'static str, fn(&Timeline) -> Option<u32>, fn(&mut Timeline, u32)),
    Text(&'static str, fn(&Timeline) -> Option<&str>, fn(&mut Timeline, &str)),
    List(&'static str, fn(&Timeline) -> Option<&[u32]>, fn(&mut Timeline, &[u32])),
}

use Column::{List, Span, Text, Time, U32, U64};

/// Every column but those of events, in the order of the file. The reader sets values in this order.
static COLUMNS: &[Column] = &[
    U64("index", |t| Some(t.identity.index), |t, v| t.identity.index = v),
    U32("shard", |t| Some(t.identity.shard), |t, v| t.identity.shard = v),
    U32("point", |t| Some(t.identity.point), |t, v| t.identity.point = v),
    Text("phase", |t| Some(t.identity.phase.name()), |t, v| t.identity.phase = Phase::from_name(v)),
    U32("target", |t| Some(t.identity.target.into()), |t, v| t.identity.target = narrow(v)),
    U64("session", |t| t.identity.session, |t, v| t.identity.session = Some(v)),
    U32("turn", |t| Some(t.identity.turn), |t, v| t.identity.turn = v),
    U32("turns", |t| t.identity.turns, |t, v| t.identity.turns = Some(v)),
    List("parents", |t| t.identity.parents.as_deref(), |t, v| t.identity.parents = Some(v.into())),
    Text("agent", |t| t.identity.agent.as_deref(), |t, v| t.identity.agent = Some(v.into())),
    U32("attempt", |t| Some(t.identity.attempt), |t, v| t.identity.attempt = v),
    Text("class", |t| t.identity.class.as_deref(), |t, v| t.identity.class = Some(v.into())),
    Text("lora", |t| t.identity.lora.as_deref(), |t, v| t.identity.lora = Some(v.into())),
    U64("connection", |t| Some(t.connection.id), |t, v| t.connection.id = v),
    U32("connection_uses", |t| Some(t.connection.uses_before), |t, v| t.connection.uses_before = v),
    Span("connection_age_ns", |t| t.connection.age, |t, v| t.connection.age = Some(v)),
    U32("connection_reopened", |t| Some(t.connection.reopened), |t, v| t.connection.reopened = v),
    U32("worker", |t| Some(t.connection.worker.into()), |t, v| t.connection.worker = narrow(v)),
    U32(
        "address",
        |t| t.connection.address.map(u32::from),
        |t, v| t.connection.address = v.try_into().ok(),
    ),
    Text(
        "stamp_source",
        |t| Some(t.stamp_source.name()),
        |t, v| t.stamp_source = StampSource::from_name(v),
    ),
    Time("admitted_ns", |t| Some(t.admitted), |t, at| t.admitted = at),
    Time("intended_ns", |t| t.intended, |t, at| t.intended = Some(at)),
    Time("recorded_ns", |t| t.recorded, |t, at| t.recorded = Some(at)),
    Time("connect_begin_ns", |t| t.connect_begin, |t, at| t.connect_begin = Some(at)),
    Time("connect_end_ns", |t| t.connect_end, |t, at| t.connect_end = Some(at)),
    Time("tls_end_ns", |t| t.tls_end, |t, at| t.tls_end = Some(at)),
    Time("lost_send_ns", |t| t.lost_send, |t, at| t.lost_send = Some(at)),
    Time("first_byte_sent_ns", |t| t.first_byte_sent, |t, at| t.first_byte_sent = Some(at)),
    Time("last_byte_sent_ns", |t| t.last_byte_sent, |t, at| t.last_byte_sent = Some(at)),
    Time("headers_ns", |t| t.headers, |t, at| t.headers = Some(at)),
    Time("end_ns", |t| t.end, |t, at| t.end = Some(at)),
    Time("freed_ns", |t| t.freed, |t, at| t.freed = Some(at)),
    U32(
        "asked_prompt_tokens",
        |t| t.requested.prompt_tokens,
        |t, v| t.requested.prompt_tokens = Some(v),
    ),
    U32(
        "asked_output_tokens",
        |t| t.requested.output_tokens,
        |t, v| t.requested.output_tokens = Some(v),
    ),
    U64("body_bytes", |t| Some(t.requested.body_bytes), |t, v| t.requested.body_bytes = v),
    U32("items", |t| t.requested.items, |t, v| t.requested.items = Some(v)),
    Span("audio_ns", |t| t.requested.audio, |t, v| t.requested.audio = Some(v)),
    U64("prompt_hash", |t| t.requested.prompt_hash, |t, v| t.requested.prompt_hash = Some(v)),
    Text(
        "prompt_script",
        |t| t.requested.prompt_script.map(Script::name),
        |t, v| t.requested.prompt_script = Script::named(v),
    ),
    Span(
        "session_recorded_ns",
        |t| t.requested.session_recorded,
        |t, v| t.requested.session_recorded = Some(v),
    ),
    U32(
        "possible_cached_tokens",
        |t| t.requested.possible_cached_tokens,
        |t, v| t.requested.possible_cached_tokens = Some(v),
    ),
    U32("usage_prompt_tokens", |t| t.usage?.prompt_tokens, |t, v| usage(t).prompt_tokens = Some(v)),
    U32(
        "usage_completion_tokens",
        |t| t.usage?.completion_tokens,
        |t, v| usage(t).completion_tokens = Some(v),
    ),
    U32("usage_cached_tokens", |t| t.usage?.cached_tokens, |t, v| usage(t).cached_tokens = Some(v)),
    U32(
        "usage_reasoning_tokens",
        |t| t.usage?.reasoning_tokens,
        |t, v| usage(t).reasoning_tokens = Some(v),
    ),
    U64("first_content_bytes", |t| Some(t.content_bytes?.first), |t, v| bytes(t).first = v),
    U64("content_bytes", |t| Some(t.content_bytes?.all), |t, v| bytes(t).all = v),
    U64("reasoning_bytes", |t| t.content_bytes?.reasoning, |t, v| bytes(t).reasoning = Some(v)),
    U32("retokenized_tokens", |t| t.retokenized_tokens, |t, v| t.retokenized_tokens = Some(v)),
    Span("server_queue_ns", |t| t.server_timings?.queue, |t, v| timings(t).queue = Some(v)),
    Span("server_prefill_ns", |t| t.server_timings?.prefill, |t, v| timings(t).prefill = Some(v)),
    Span("server_decode_ns", |t| t.server_timings?.decode, |t, v| timings(t).decode = Some(v)),
    Span("round_trip_ns", |t| Some(t.network?.round_trip), |t, v| network(t).round_trip = v),
    U32("retransmits", |t| Some(t.network?.retransmits), |t, v| network(t).retransmits = v),
    U32("segments_in", |t| Some(t.network?.segments_in), |t, v| network(t).segments_in = v),
    Text("outcome", |t| Some(outcome_name(&t.outcome)), |t, v| t.outcome = outcome_named(v)),
    U32("status", |t| t.status.map(u32::from), |t, v| t.status = v.try_into().ok()),
    U32(
        "failure_status",
        |t| failure(t)?.status.map(u32::from),
        |t, v| {
            if let Outcome::Failed(failure) = &mut t.outcome {
                failure.status = v.try_into().ok();
            }
        },
    ),
    Text(
        "failure",
        |t| Some(&failure(t)?.message),
        |t, v| {
            if let Outcome::Failed(failure) = &mut t.outcome {
                v.clone_into(&mut failure.message);
            }
        },
    ),
    U32("reads", |t| Some(t.reads), |t, v| t.reads = v),
    U32("merged_reads", |t| Some(t.merged_reads), |t, v| t.merged_reads = v),
    Span("first_merge_wait_ns", |t| t.merge_waits.first, |t, v| t.merge_waits.first = Some(v)),
    Span("last_merge_wait_ns", |t| t.merge_waits.last, |t, v| t.merge_waits.last = Some(v)),
    U32("clock_faults", |t| Some(t.clock_faults), |t, v| t.clock_faults = v),
    Text("text", |t| t.text.as_deref(), |t, v| t.text = Some(v.into())),
    Text("tool_calls", |t| t.tool_calls.as_deref(), |t, v| t.tool_calls = Some(v.into())),
    Text("own_tools", |t| t.own_tools.as_deref(), |t, v| t.own_tools = Some(v.into())),
    U64("answer_hash", |t| t.answer_hash, |t, v| t.answer_hash = Some(v)),
];

fn usage(timeline: &mut Timeline) -> &mut Usage {
    timeline.usage.get_or_insert_default()
}

fn bytes(timeline: &mut Timeline) -> &mut ContentBytes {
    timeline.content_bytes.get_or_insert_default()
}

fn timings(timeline: &mut Timeline) -> &mut ServerTimings {
    timeline.server_timings.get_or_insert_default()
}

fn network(timeline: &mut Timeline) -> &mut TcpStats {
    timeline.network.get_or_insert_default()
}

/// Zero for a number that no writer of this record has.
fn narrow(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

fn failure(timeline: &Timeline) -> Option<&Failure> {
    if let Outcome::Failed(failure) = &timeline.outcome { Some(failure) } else { None }
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "success",
        Outcome::Failed(failure) => failure.kind.name(),
        Outcome::Abandoned => "abandoned",
        Outcome::Cancelled => "cancelled",
    }
}

fn outcome_named(name: &str) -> Outcome {
    match name {
        "success" => Outcome::Success,
        "abandoned" => Outcome::Abandoned,
        "cancelled" => Outcome::Cancelled,
        kind => Outcome::Failed(Failure::new(
            FailureKind::from_name(kind).unwrap_or(FailureKind::Protocol),
            "",
        )),
    }
}

struct ColumnBuilder {
    fields: Vec<Field>,
    columns: Vec<ArrayRef>,
}

impl ColumnBuilder {
    fn add(&mut self, name: &str, column: impl Array + 'static) {
        let is_nullable = column.is_nullable() || !name.starts_with("event_");
        self.fields.push(Field::new(name, column.data_type().clone(), is_nullable));
        self.columns.push(Arc::new(column));
    }
}

/// The time that a request's event times are relative to.
fn event_base(times: &Times) -> Nanos {
    times.first_byte_sent.unwrap_or(times.admitted)
}

/// The columns that hold the events of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventColumns {
    /// One list per property, for every program that reads Arrow.
    Plain,
    /// One list of bytes, a fifth as large.
    Packed,
}

/// One batch with a row for each of `timelines`, in order.
pub(crate) fn encode(timelines: &[Timeline], origin: Nanos) -> Result<RecordBatch, ArrowError> {
    encode_as(EventColumns::Plain, timelines, origin)
}

/// The same with the events in these columns.
pub(crate) fn encode_as(
    events: EventColumns,
    timelines: &[Timeline],
    origin: Nanos,
) -> Result<RecordBatch, ArrowError> {
    let mut table = ColumnBuilder { fields: Vec::new(), columns: Vec::new() };
    for column in COLUMNS {
        let rows = timelines.iter();
        match column {
            Time(name, get, _) => {
                let times = rows.map(|row| get(&row.times).map(|at| (at - origin).0));
                table.add(name, times.collect::<UInt64Array>());
            }
            Span(name, get, _) => {
                let spans = rows.map(|row| get(row).map(|span| span.0));
                table.add(name, spans.collect::<UInt64Array>());
            }
            U64(name, get, _) => table.add(name, rows.map(get).collect::<UInt64Array>()),
            U32(name, get, _) => table.add(name, rows.map(get).collect::<UInt32Array>()),
            Text(name, get, _) => table.add(name, rows.map(get).collect::<StringArray>()),
            List(name, get, _) => table.add(name, lists(rows.map(get))),
        }
    }
    match events {
        EventColumns::Plain => add_events(&mut table, timelines),
        EventColumns::Packed => add_packed_events(&mut table, timelines),
    }
    RecordBatch::try_new(Arc::new(Schema::new(table.fields)), table.columns)
}

fn lists<'a>(rows: impl Iterator<Item = Option<&'a [u32]>>) -> ListArray {
    let mut lists = ListBuilder::new(UInt32Builder::new());
    for row in rows {
        lists.append_option(row.map(|row| row.iter().copied().map(Some)));
    }
    lists.finish()
}

fn add_events(table: &mut ColumnBuilder, timelines: &[Timeline]) {
    let lengths = || timelines.iter().map(|timeline| timeline.events.len());
    let count = lengths().sum();
    // Columns of the exact size: most of a record is here.
    let (mut times, mut reads) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut tokens, mut known) = (Vec::with_capacity(count), NullBufferBuilder::new(count));
    let (mut kinds, mut bounds) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for timeline in timelines {
        let base = event_base(&timeline.times);
        for event in &timeline.events {
            times.push(event.at.signed_since(base));
            reads.push(event.read);
            let tokens_inside = event.tokens();
            known.append(tokens_inside.is_some());
            tokens.push(tokens_inside.map_or(0, |one| u16::try_from(one).unwrap_or(u16::MAX)));
            kinds.push(event.kind as u8);
            bounds.push(u8::from(event.is_upper_bound()));
        }
    }
    let offsets = OffsetBuffer::from_lengths(lengths());
    let list = |values: ArrayRef| {
        let field = Field::new_list_field(values.data_type().clone(), true);
        ListArray::new(Arc::new(field), offsets.clone(), values, None)
    };
    table.add("event_ns", list(Arc::new(Int64Array::from(times))));
    table.add("event_read", list(Arc::new(UInt32Array::from(reads))));
    let tokens = UInt16Array::new(tokens.into(), known.finish());
    table.add("event_tokens", list(Arc::new(tokens)));
    table.add("event_kind", list(Arc::new(UInt8Array::from(kinds))));
    table.add("event_upper_bound", list(Arc::new(UInt8Array::from(bounds))));
}

fn add_packed_events(table: &mut ColumnBuilder, timelines: &[Timeline]) {
    let mut lists = ListBuilder::new(UInt8Builder::new());
    let mut bytes = Vec::new();
    for timeline in timelines {
        bytes.clear();
        packed::pack(&timeline.events, event_base(&timeline.times), &mut bytes);
        lists.values().append_slice(&bytes);
        lists.append(true);
    }
    table.add("event_packed", lists.finish());
}

/// The rows of sent attempts.
pub(crate) fn encode_starts(
    started: &[SentAttempt],
    origin: Nanos,
) -> Result<RecordBatch, ArrowError> {
    let schema = Schema::new(vec![
        Field::new("index", DataType::UInt64, false),
        Field::new("attempt", DataType::UInt32, false),
        Field::new("sent_ns", DataType::UInt64, false),
    ]);
    let indexes: UInt64Array = started.iter().map(|start| Some(start.index)).collect();
    let attempts: UInt32Array = started.iter().map(|start| Some(start.attempt)).collect();
    let times: UInt64Array = started.iter().map(|start| Some((start.sent - origin).0)).collect();
    let columns = vec![Arc::new(indexes) as _, Arc::new(attempts) as _, Arc::new(times) as _];
    RecordBatch::try_new(Arc::new(schema), columns)
}
