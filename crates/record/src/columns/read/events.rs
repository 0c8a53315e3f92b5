//! The events of a batch: one list per property, or packed.

use arrow_array::RecordBatch;
use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type};
use tokometer_base::Nanos;

use super::super::packed;
use super::Lists;
use crate::event::{Event, EventKind};

pub(super) struct Events {
    times: Lists<Int64Type>,
    reads: Lists<UInt32Type>,
    tokens: Lists<UInt16Type>,
    kinds: Lists<UInt8Type>,
    bounds: Lists<UInt8Type>,
    /// In the place of the others, in a record whose events were packed.
    packed: Lists<UInt8Type>,
}

impl Events {
    pub(super) fn of(batch: &RecordBatch) -> Self {
        Self {
            times: Lists::of(batch, "event_ns"),
            reads: Lists::of(batch, "event_read"),
            tokens: Lists::of(batch, "event_tokens"),
            kinds: Lists::of(batch, "event_kind"),
            bounds: Lists::of(batch, "event_upper_bound"),
            packed: Lists::of(batch, "event_packed"),
        }
    }

    /// The latest time of a row, relative to the request's own. `None` without events.
    pub(super) fn latest(&self, row: usize) -> Option<i64> {
        if let Some(bytes) = self.packed.at(row) {
            return packed::latest(bytes.values);
        }
        let list = self.times.at(row)?;
        (0..list.values.len()).filter_map(|at| list.at(at)).max()
    }

    /// No time of `rows` rows is later; `None` without events.
    pub(super) fn latest_at_most(&self, rows: usize) -> Option<i64> {
        let packed = (0..rows).filter_map(|row| self.packed.at(row));
        let packed = packed.filter_map(|bytes| packed::latest(bytes.values)).max();
        self.times.most().max(packed)
    }

    /// Whether the bytes of a row describe events.
    pub(super) fn is_readable(&self, row: usize) -> bool {
        self.packed.at(row).is_none_or(|bytes| packed::unpack(bytes.values, Nanos::ZERO).is_some())
    }

    pub(super) fn at(&self, row: usize, base: Nanos) -> Vec<Event> {
        if let Some(bytes) = self.packed.at(row) {
            return packed::unpack(bytes.values, base).unwrap_or_default();
        }
        let Some(times) = self.times.at(row) else { return Vec::new() };
        let length = times.values.len();
        let reads = self.reads.of_length(row, length);
        let tokens = self.tokens.of_length(row, length);
        let kinds = self.kinds.of_length(row, length);
        let bounds = self.bounds.of_length(row, length);
        let event = |at: usize| {
            let time = Nanos(base.0.saturating_add_signed(times.at(at).unwrap_or(0)));
            let kind = kinds.at(at).map_or(EventKind::Other, EventKind::from_number);
            let read = reads.at(at).unwrap_or(0);
            let count = tokens.at(at).map(u32::from);
            let bound = bounds.at(at).unwrap_or(0);
            Event::new(time, read, kind).with_tokens(count).with_upper_bound(bound != 0)
        };
        (0..length).map(event).collect()
    }
}
