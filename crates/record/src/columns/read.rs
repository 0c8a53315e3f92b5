//! From Arrow columns back to timelines.
//!
//! Columns are found by name, once per batch: one that is missing or has another type reads as absent,
//! one that is not known is left alone. Rows are made one at a time, so that a batch takes no more
//! memory than its bytes.

mod events;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, ListArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use tokometer_base::Nanos;

use self::events::Events;
use super::counts::CountColumns;
use super::{POINTS, event_base};
use crate::failure::{Failure, FailureKind, Outcome};
use crate::timeline::{
    AttemptId, Connection, MergeWaits, Phase, StampSource, TcpStats, Timeline, Times,
};
use crate::writer::SentAttempt;

/// No run is longer than a month. A later time is damage, and figures per second would exhaust the
/// memory.
pub(crate) const LONGEST: Nanos = Nanos::from_secs(31 * 24 * 3_600);

pub(super) struct Numbers<T: ArrowPrimitiveType>(Option<PrimitiveArray<T>>);

impl<T: ArrowPrimitiveType> Numbers<T> {
    pub(super) fn of(batch: &RecordBatch, name: &str) -> Self {
        Self(batch.column_by_name(name).and_then(|column| column.as_primitive_opt().cloned()))
    }

    pub(super) fn at(&self, row: usize) -> Option<T::Native> {
        let column = self.0.as_ref()?;
        column.is_valid(row).then(|| column.value(row))
    }

    /// An upper bound of all values: also counts what lies behind an absent one.
    fn most(&self) -> Option<T::Native>
    where
        T::Native: Ord,
    {
        self.0.as_ref().and_then(|column| column.values().iter().copied().max())
    }
}

pub(super) type U64s = Numbers<UInt64Type>;
pub(super) type U32s = Numbers<UInt32Type>;

impl Numbers<UInt64Type> {
    pub(super) fn span(&self, row: usize) -> Option<Nanos> {
        self.at(row).map(Nanos)
    }
}

impl Numbers<UInt32Type> {
    fn u16(&self, row: usize) -> Option<u16> {
        self.at(row).and_then(|value| u16::try_from(value).ok())
    }
}

pub(super) struct TextColumn(Option<StringArray>);

impl TextColumn {
    pub(super) fn of(batch: &RecordBatch, name: &str) -> Self {
        Self(batch.column_by_name(name).and_then(|column| column.as_string_opt().cloned()))
    }

    pub(super) fn at(&self, row: usize) -> Option<&str> {
        let column = self.0.as_ref()?;
        column.is_valid(row).then(|| column.value(row))
    }

    fn owned(&self, row: usize) -> Option<String> {
        self.at(row).map(str::to_owned)
    }
}

/// A column of lists of numbers.
struct Lists<T: ArrowPrimitiveType>(Option<(ListArray, PrimitiveArray<T>)>);

impl<T: ArrowPrimitiveType> Lists<T> {
    fn of(batch: &RecordBatch, name: &str) -> Self {
        let lists = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
        Self(
            lists.and_then(|lists| {
                Some((lists.clone(), lists.values().as_primitive_opt().cloned()?))
            }),
        )
    }

    /// The numbers of a row.
    fn at(&self, row: usize) -> Option<List<'_, T>> {
        let (lists, values) = self.0.as_ref().filter(|(lists, _)| lists.is_valid(row))?;
        let offset = |at: usize| lists.value_offsets().get(at).map(|at| usize::try_from(*at).ok());
        let (from, to) = (offset(row)??, offset(row + 1)??);
        Some(List { values: values.values().get(from..to)?, nulls: values.nulls(), from })
    }

    /// The numbers of a row that has `length` of them. A list of another length is damaged.
    fn of_length(&self, row: usize, length: usize) -> List<'_, T> {
        self.at(row).filter(|list| list.values.len() == length).unwrap_or(List::NONE)
    }

    /// An upper bound of all values: also counts what lies behind an absent one.
    fn most(&self) -> Option<T::Native>
    where
        T::Native: Ord,
    {
        self.0.as_ref().and_then(|(_, values)| values.values().iter().copied().max())
    }
}

/// The numbers of one row.
struct List<'a, T: ArrowPrimitiveType> {
    values: &'a [T::Native],
    /// Of all rows; this one begins at `from`.
    nulls: Option<&'a NullBuffer>,
    from: usize,
}

impl<T: ArrowPrimitiveType> List<'_, T> {
    const NONE: Self = Self { values: &[], nulls: None, from: 0 };

    fn at(&self, index: usize) -> Option<T::Native> {
        let value = self.values.get(index)?;
        self.nulls.is_none_or(|nulls| nulls.is_valid(self.from + index)).then_some(*value)
    }
}

struct Identities {
    index: U64s,
    shard: U32s,
    point: U32s,
    phase: TextColumn,
    target: U32s,
    session: U64s,
    turn: U32s,
    attempt: U32s,
    class: TextColumn,
    lora: TextColumn,
}

impl Identities {
    fn of(batch: &RecordBatch) -> Self {
        Self {
            index: U64s::of(batch, "index"),
            shard: U32s::of(batch, "shard"),
            point: U32s::of(batch, "point"),
            phase: TextColumn::of(batch, "phase"),
            target: U32s::of(batch, "target"),
            session: U64s::of(batch, "session"),
            turn: U32s::of(batch, "turn"),
            attempt: U32s::of(batch, "attempt"),
            class: TextColumn::of(batch, "class"),
            lora: TextColumn::of(batch, "lora"),
        }
    }

    /// Rows without a phase are of the measured one.
    fn phase(&self, row: usize) -> Phase {
        self.phase.at(row).map_or(Phase::Measure, Phase::from_name)
    }

    fn at(&self, row: usize) -> AttemptId {
        AttemptId {
            index: self.index.at(row).unwrap_or(0),
            shard: self.shard.at(row).unwrap_or(0),
            point: self.point.at(row).unwrap_or(0),
            phase: self.phase(row),
            target: self.target.u16(row).unwrap_or(0),
            session: self.session.at(row),
            turn: self.turn.at(row).unwrap_or(0),
            attempt: self.attempt.at(row).unwrap_or(0),
            class: self.class.owned(row),
            lora: self.lora.owned(row),
        }
    }
}

struct ConnectionColumns {
    id: U64s,
    uses_before: U32s,
    age: U64s,
    reopened: U32s,
    worker: U32s,
    address: U32s,
    round_trip: U64s,
    retransmits: U32s,
    segments_in: U32s,
}

impl ConnectionColumns {
    fn of(batch: &RecordBatch) -> Self {
        Self {
            id: U64s::of(batch, "connection"),
            uses_before: U32s::of(batch, "connection_uses"),
            age: U64s::of(batch, "connection_age_ns"),
            reopened: U32s::of(batch, "connection_reopened"),
            worker: U32s::of(batch, "worker"),
            address: U32s::of(batch, "address"),
            round_trip: U64s::of(batch, "round_trip_ns"),
            retransmits: U32s::of(batch, "retransmits"),
            segments_in: U32s::of(batch, "segments_in"),
        }
    }

    fn at(&self, row: usize) -> Connection {
        Connection {
            id: self.id.at(row).unwrap_or(0),
            uses_before: self.uses_before.at(row).unwrap_or(0),
            age: self.age.span(row),
            reopened: self.reopened.at(row).unwrap_or(0),
            worker: self.worker.u16(row).unwrap_or(0),
            address: self.address.u16(row),
        }
    }

    fn network(&self, row: usize) -> Option<TcpStats> {
        self.round_trip.span(row).map(|round_trip| TcpStats {
            round_trip,
            retransmits: self.retransmits.at(row).unwrap_or(0),
            segments_in: self.segments_in.at(row).unwrap_or(0),
        })
    }
}

struct Outcomes {
    outcome: TextColumn,
    status: U32s,
    failure_status: U32s,
    failure: TextColumn,
    reads: U32s,
    merged_reads: U32s,
    merge_waits: [U64s; 2],
    clock_faults: U32s,
    text: TextColumn,
    tool_calls: TextColumn,
    own_tools: TextColumn,
    answer_hash: U64s,
}

impl Outcomes {
    fn of(batch: &RecordBatch) -> Self {
        Self {
            outcome: TextColumn::of(batch, "outcome"),
            status: U32s::of(batch, "status"),
            failure_status: U32s::of(batch, "failure_status"),
            failure: TextColumn::of(batch, "failure"),
            reads: U32s::of(batch, "reads"),
            merged_reads: U32s::of(batch, "merged_reads"),
            merge_waits: ["first_merge_wait_ns", "last_merge_wait_ns"]
                .map(|name| U64s::of(batch, name)),
            clock_faults: U32s::of(batch, "clock_faults"),
            text: TextColumn::of(batch, "text"),
            tool_calls: TextColumn::of(batch, "tool_calls"),
            own_tools: TextColumn::of(batch, "own_tools"),
            answer_hash: U64s::of(batch, "answer_hash"),
        }
    }

    fn merge_waits(&self, row: usize) -> MergeWaits {
        let [first, last] = &self.merge_waits;
        MergeWaits { first: first.span(row), last: last.span(row) }
    }

    fn at(&self, row: usize) -> Outcome {
        match self.outcome.at(row) {
            Some("success") => Outcome::Success,
            None | Some("abandoned") => Outcome::Abandoned,
            Some(word) => Outcome::Failed(Failure {
                kind: FailureKind::from_name(word).unwrap_or(FailureKind::Protocol),
                status: self.failure_status.u16(row),
                message: self.failure.owned(row).unwrap_or_default(),
            }),
        }
    }
}

/// The rows of a batch, one after the other.
pub(crate) struct BatchRows {
    origin: Nanos,
    row: usize,
    length: usize,
    identities: Identities,
    connections: ConnectionColumns,
    stamp_source: TextColumn,
    admitted: U64s,
    points: [U64s; POINTS.len()],
    counts: CountColumns,
    outcomes: Outcomes,
    events: Events,
}

impl BatchRows {
    fn of(batch: &RecordBatch, origin: Nanos) -> Self {
        Self {
            origin,
            row: 0,
            length: batch.num_rows(),
            identities: Identities::of(batch),
            connections: ConnectionColumns::of(batch),
            stamp_source: TextColumn::of(batch, "stamp_source"),
            admitted: U64s::of(batch, "admitted_ns"),
            points: POINTS.map(|(name, _)| U64s::of(batch, name)),
            counts: CountColumns::of(batch),
            outcomes: Outcomes::of(batch),
            events: Events::of(batch),
        }
    }

    fn times(&self, row: usize) -> Times {
        let admitted = self.origin + self.admitted.span(row).unwrap_or_default();
        let mut times = Times { admitted, ..Times::default() };
        for ((_, point), column) in POINTS.iter().zip(&self.points) {
            *point(&mut times) = column.span(row).map(|at| self.origin + at);
        }
        times
    }

    /// No time of the batch is later than this one, relative to the run's origin.
    fn latest_at_most(&self) -> Nanos {
        let points = self.points.iter().chain([&self.admitted]).filter_map(U64s::most).max();
        let events = self.events.latest_at_most(self.length).unwrap_or(0);
        Nanos(points.unwrap_or(0).saturating_add_signed(events.max(0)))
    }

    /// The latest time of a request.
    fn latest(&self, row: usize) -> Nanos {
        let mut times = self.times(row);
        let base = event_base(&times);
        let points = POINTS.map(|(_, point)| *point(&mut times));
        let latest =
            self.events.latest(row).map(|latest| Nanos(base.0.saturating_add_signed(latest)));
        points.into_iter().flatten().chain(latest).fold(times.admitted, Nanos::max)
    }

    fn timeline(&self, row: usize) -> Timeline {
        let times = self.times(row);
        Timeline {
            identity: self.identities.at(row),
            requested: self.counts.requested(row),
            connection: self.connections.at(row),
            stamp_source: self.stamp_source.at(row).map(StampSource::from_name).unwrap_or_default(),
            events: self.events.at(row, event_base(&times)),
            times,
            reads: self.outcomes.reads.at(row).unwrap_or(0),
            merged_reads: self.outcomes.merged_reads.at(row).unwrap_or(0),
            merge_waits: self.outcomes.merge_waits(row),
            usage: self.counts.usage(row),
            content_bytes: self.counts.content_bytes(row),
            retokenized_tokens: self.counts.retokenized.at(row),
            server_timings: self.counts.timings(row),
            network: self.connections.network(row),
            status: self.outcomes.status.u16(row),
            outcome: self.outcomes.at(row),
            clock_faults: self.outcomes.clock_faults.at(row).unwrap_or(0),
            text: self.outcomes.text.owned(row),
            answer: None,
            tool_calls: self.outcomes.tool_calls.owned(row),
            own_tools: self.outcomes.own_tools.owned(row),
            answer_hash: self.outcomes.answer_hash.at(row),
        }
    }
}

impl Iterator for BatchRows {
    type Item = Timeline;

    fn next(&mut self) -> Option<Timeline> {
        let row = self.row;
        self.row += 1;
        (row < self.length).then(|| self.timeline(row))
    }
}

/// All rows of a batch, or the reason why it is damaged.
pub(crate) fn decode(batch: &RecordBatch, origin: Nanos) -> Result<BatchRows, String> {
    let rows = BatchRows::of(batch, origin);
    if let Some(row) = (0..rows.length).find(|row| !rows.events.is_readable(*row)) {
        return Err(format!("the packed events of row {row} are damaged"));
    }
    // One pass over each column, and the search for the row only where there may be one.
    if rows.latest_at_most() <= LONGEST {
        return Ok(rows);
    }
    match (0..rows.length).find(|row| rows.latest(*row) - origin > LONGEST) {
        Some(row) => Err(format!("the times of row {row} lie outside of the run")),
        None => Ok(rows),
    }
}

/// Index and attempt of each row of the measured phase.
pub(crate) fn measured_attempts(batch: &RecordBatch) -> impl Iterator<Item = (u64, u32)> + use<> {
    let (rows, identities) = (0..batch.num_rows(), Identities::of(batch));
    rows.filter_map(move |row| {
        let is_measured = identities.phase(row) == Phase::Measure;
        let attempt = identities.index.at(row).zip(identities.attempt.at(row));
        attempt.filter(|_| is_measured)
    })
}

/// The rows of a batch of sent attempts. One that lies outside of any run is damaged, and left out.
pub(crate) fn starts(
    batch: &RecordBatch,
    origin: Nanos,
) -> impl Iterator<Item = SentAttempt> + use<> {
    let (index, attempt, sent) =
        (U64s::of(batch, "index"), U32s::of(batch, "attempt"), U64s::of(batch, "sent_ns"));
    (0..batch.num_rows()).filter_map(move |row| {
        let at = sent.span(row).filter(|at| *at <= LONGEST)?;
        let (index, attempt) = (index.at(row)?, attempt.at(row)?);
        Some(SentAttempt { index, attempt, sent: origin + at })
    })
}
