//! Converts timelines to Arrow columns; [`read`] converts them back.
//!
//! One row per ended attempt. Times are nanoseconds since the run's origin; events are list columns
//! with nanoseconds since the request's first byte sent (since its admission, where nothing was
//! sent), or one list of bytes ([`packed`]).

mod counts;
mod packed;
mod read;

use std::sync::Arc;

use arrow_array::builder::{
    ListBuilder, StringBuilder, UInt8Builder, UInt32Builder, UInt64Builder,
};
use arrow_array::{
    Array, ArrayRef, Int64Array, ListArray, RecordBatch, UInt8Array, UInt16Array, UInt32Array,
};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use tokometer_base::{Nanos, Script};

pub(crate) use self::read::{LONGEST, decode, measured_attempts, starts};
use crate::failure::Outcome;
use crate::timeline::{ServerTimings, Timeline, Times, Usage};

/// Builds one batch column by column.
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

    fn add_u64(&mut self, name: &str, values: impl Iterator<Item = Option<u64>>) {
        let mut builder = UInt64Builder::new();
        values.for_each(|value| builder.append_option(value));
        self.add(name, builder.finish());
    }

    fn add_u32(&mut self, name: &str, values: impl Iterator<Item = Option<u32>>) {
        let mut builder = UInt32Builder::new();
        values.for_each(|value| builder.append_option(value));
        self.add(name, builder.finish());
    }

    fn add_span(&mut self, name: &str, values: impl Iterator<Item = Option<Nanos>>) {
        self.add_u64(name, values.map(|value| value.map(|span| span.0)));
    }

    fn add_text<'a>(&mut self, name: &str, values: impl Iterator<Item = Option<&'a str>>) {
        let mut builder = StringBuilder::new();
        values.for_each(|value| builder.append_option(value));
        self.add(name, builder.finish());
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
    add_identity(&mut table, timelines);
    add_times(&mut table, timelines, origin);
    add_counts(&mut table, timelines);
    add_outcome(&mut table, timelines);
    match events {
        EventColumns::Plain => add_events(&mut table, timelines),
        EventColumns::Packed => add_packed_events(&mut table, timelines),
    }
    RecordBatch::try_new(Arc::new(Schema::new(table.fields)), table.columns)
}

fn add_identity(table: &mut ColumnBuilder, timelines: &[Timeline]) {
    let identities = || timelines.iter().map(|timeline| &timeline.identity);
    table.add_u64("index", identities().map(|id| Some(id.index)));
    table.add_u32("shard", identities().map(|id| Some(id.shard)));
    table.add_u32("point", identities().map(|id| Some(id.point)));
    table.add_text("phase", identities().map(|id| Some(id.phase.name())));
    table.add_u32("target", identities().map(|id| Some(u32::from(id.target))));
    table.add_u64("session", identities().map(|id| id.session));
    table.add_u32("turn", identities().map(|id| Some(id.turn)));
    table.add_u32("attempt", identities().map(|id| Some(id.attempt)));
    table.add_text("class", identities().map(|id| id.class.as_deref()));
    table.add_text("lora", identities().map(|id| id.lora.as_deref()));
    let connections = || timelines.iter().map(|timeline| &timeline.connection);
    table.add_u64("connection", connections().map(|connection| Some(connection.id)));
    table.add_u32("connection_uses", connections().map(|connection| Some(connection.uses_before)));
    table.add_span("connection_age_ns", connections().map(|connection| connection.age));
    table.add_u32("connection_reopened", connections().map(|connection| Some(connection.reopened)));
    table.add_u32("worker", connections().map(|connection| Some(u32::from(connection.worker))));
    table.add_u32("address", connections().map(|connection| connection.address.map(u32::from)));
    table.add_text(
        "stamp_source",
        timelines.iter().map(|timeline| Some(timeline.stamp_source.name())),
    );
}

/// The name of a time column, and the field that it holds.
type TimeColumn = (&'static str, fn(&mut Times) -> &mut Option<Nanos>);

const POINTS: [TimeColumn; 10] = [
    ("intended_ns", |times| &mut times.intended),
    ("connect_begin_ns", |times| &mut times.connect_begin),
    ("connect_end_ns", |times| &mut times.connect_end),
    ("tls_end_ns", |times| &mut times.tls_end),
    ("lost_send_ns", |times| &mut times.lost_send),
    ("first_byte_sent_ns", |times| &mut times.first_byte_sent),
    ("last_byte_sent_ns", |times| &mut times.last_byte_sent),
    ("headers_ns", |times| &mut times.headers),
    ("end_ns", |times| &mut times.end),
    ("freed_ns", |times| &mut times.freed),
];

fn add_times(table: &mut ColumnBuilder, timelines: &[Timeline], origin: Nanos) {
    table.add_span(
        "admitted_ns",
        timelines.iter().map(|timeline| Some(timeline.times.admitted - origin)),
    );
    for (name, point) in POINTS {
        let values = timelines.iter().map(|timeline| {
            let mut times = timeline.times;
            point(&mut times).map(|at| at - origin)
        });
        table.add_span(name, values);
    }
}

fn add_counts(table: &mut ColumnBuilder, timelines: &[Timeline]) {
    let usage = |pick: fn(&Usage) -> Option<u32>| {
        timelines.iter().map(move |timeline| timeline.usage.as_ref().and_then(pick))
    };
    let requested = || timelines.iter().map(|timeline| &timeline.requested);
    table.add_u32("asked_prompt_tokens", requested().map(|requested| requested.prompt_tokens));
    table.add_u32("asked_output_tokens", requested().map(|requested| requested.output_tokens));
    table.add_u64("body_bytes", requested().map(|requested| Some(requested.body_bytes)));
    table.add_u32("items", requested().map(|requested| requested.items));
    let audio = requested().map(|requested| requested.audio.map(|length| length.0));
    table.add_u64("audio_ns", audio);
    table.add_u64("prompt_hash", requested().map(|requested| requested.prompt_hash));
    table.add_text("prompt_script", requested().map(|it| it.prompt_script.map(Script::name)));
    table.add_u32("usage_prompt_tokens", usage(|usage| usage.prompt_tokens));
    table.add_u32("usage_completion_tokens", usage(|usage| usage.completion_tokens));
    table.add_u32("usage_cached_tokens", usage(|usage| usage.cached_tokens));
    table.add_u32("usage_reasoning_tokens", usage(|usage| usage.reasoning_tokens));
    let bytes = || timelines.iter().map(|timeline| timeline.content_bytes);
    table.add_u64("first_content_bytes", bytes().map(|bytes| Some(bytes?.first)));
    table.add_u64("content_bytes", bytes().map(|bytes| Some(bytes?.all)));
    table.add_u64("reasoning_bytes", bytes().map(|bytes| bytes?.reasoning));
    table.add_u32("retokenized_tokens", timelines.iter().map(|t| t.retokenized_tokens));
    let timing = |pick: fn(&ServerTimings) -> Option<Nanos>| {
        timelines.iter().map(move |timeline| timeline.server_timings.as_ref().and_then(pick))
    };
    table.add_span("server_queue_ns", timing(|timings| timings.queue));
    table.add_span("server_prefill_ns", timing(|timings| timings.prefill));
    table.add_span("server_decode_ns", timing(|timings| timings.decode));
    let network = || timelines.iter().map(|timeline| timeline.network);
    table.add_span("round_trip_ns", network().map(|network| Some(network?.round_trip)));
    table.add_u32("retransmits", network().map(|network| Some(network?.retransmits)));
    table.add_u32("segments_in", network().map(|network| Some(network?.segments_in)));
}

fn add_outcome(table: &mut ColumnBuilder, timelines: &[Timeline]) {
    let failure = |timeline: &Timeline| match &timeline.outcome {
        Outcome::Failed(failure) => Some(failure.clone()),
        Outcome::Success | Outcome::Abandoned => None,
    };
    let words: Vec<_> = timelines
        .iter()
        .map(|timeline| match &timeline.outcome {
            Outcome::Success => "success",
            Outcome::Failed(failure) => failure.kind.name(),
            Outcome::Abandoned => "abandoned",
        })
        .collect();
    let messages: Vec<_> = timelines.iter().map(|t| failure(t).map(|f| f.message)).collect();
    table.add_text("outcome", words.into_iter().map(Some));
    table.add_u32("status", timelines.iter().map(|timeline| timeline.status.map(u32::from)));
    table.add_u32(
        "failure_status",
        timelines.iter().map(|t| failure(t).and_then(|failure| failure.status).map(u32::from)),
    );
    table.add_text("failure", messages.iter().map(Option::as_deref));
    table.add_u32("reads", timelines.iter().map(|timeline| Some(timeline.reads)));
    table.add_u32("merged_reads", timelines.iter().map(|timeline| Some(timeline.merged_reads)));
    let waits = || timelines.iter().map(|timeline| timeline.merge_waits);
    table.add_span("first_merge_wait_ns", waits().map(|waits| waits.first));
    table.add_span("last_merge_wait_ns", waits().map(|waits| waits.last));
    table.add_u32("clock_faults", timelines.iter().map(|timeline| Some(timeline.clock_faults)));
    table.add_text("text", timelines.iter().map(|timeline| timeline.text.as_deref()));
    table.add_text("tool_calls", timelines.iter().map(|timeline| timeline.tool_calls.as_deref()));
    table.add_text("own_tools", timelines.iter().map(|timeline| timeline.own_tools.as_deref()));
    table.add_u64("answer_hash", timelines.iter().map(|timeline| timeline.answer_hash));
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
