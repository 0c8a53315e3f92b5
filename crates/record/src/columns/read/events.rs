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
    /// Instead of the others, in a record whose events were packed.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{ListBuilder, UInt8Builder};
    use arrow_schema::{Field, Schema};

    use super::super::super::{EventColumns, decode, encode_as};
    use super::super::LONGEST;
    use super::*;
    use crate::timeline::{AttemptId, Phase, RequestedLengths, Timeline};

    const ORIGIN: Nanos = Nanos::from_secs(7);

    /// A request sent a second after the run's origin, with text at these times after the send.
    fn row(index: u64, events: &[Nanos]) -> Timeline {
        let sent = ORIGIN + Nanos::from_secs(1);
        let identity = AttemptId::new(index, Phase::Measure);
        let mut row = Timeline::new(identity, RequestedLengths::default(), sent);
        for at in events {
            row.push(Event::new(sent + *at, 0, EventKind::Text));
        }
        row
    }

    /// One batch in each form.
    fn batches(rows: &[Timeline]) -> [RecordBatch; 2] {
        [EventColumns::Plain, EventColumns::Packed]
            .map(|columns| encode_as(columns, rows, ORIGIN).unwrap())
    }

    #[test]
    fn the_latest_event_of_a_row_and_of_a_batch_is_found_in_both_forms() {
        let rows = [row(0, &[Nanos(50), Nanos(70)]), row(1, &[]), row(2, &[Nanos(90), Nanos(20)])];
        for batch in batches(&rows) {
            let events = Events::of(&batch);
            let latest: Vec<_> = (0..3).map(|row| events.latest(row)).collect();
            assert_eq!(latest, [Some(70), None, Some(90)]);
            assert!(events.latest_at_most(3) >= Some(90));
            assert!((0..3).all(|row| events.is_readable(row)));
        }
        let [_, packed] = batches(&rows);
        assert_eq!(Events::of(&packed).latest_at_most(3), Some(90));
        for batch in batches(&[row(0, &[])]) {
            assert_eq!(Events::of(&batch).latest_at_most(1), None);
        }
    }

    #[test]
    fn a_time_outside_of_any_run_is_damage_in_both_forms() {
        for (last, is_damage) in [(LONGEST - Nanos::from_secs(1), false), (LONGEST, true)] {
            let rows = [row(0, &[Nanos(5)]), row(1, &[Nanos(9), last, Nanos(10)])];
            for batch in batches(&rows) {
                let why = decode(&batch, ORIGIN).err();
                let expected = "the times of row 1 lie outside of the run".to_owned();
                assert_eq!(why, is_damage.then_some(expected));
            }
        }
    }

    #[test]
    fn packed_bytes_that_are_no_events_are_damage() {
        let [_, batch] = batches(&[row(0, &[Nanos(5)]), row(1, &[Nanos(6)])]);
        let whole = Events::of(&batch).packed.at(0).unwrap().values.to_vec();
        let mut lists = ListBuilder::new(UInt8Builder::new());
        for bytes in [&whole[..], &whole[..whole.len() - 1]] {
            lists.values().append_slice(bytes);
            lists.append(true);
        }
        let damaged = Arc::new(lists.finish());
        let column = batch.schema().index_of("event_packed").unwrap();
        let mut columns = batch.columns().to_vec();
        columns[column] = damaged;
        let mut fields: Vec<Field> =
            batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        fields[column] = Field::new("event_packed", columns[column].data_type().clone(), true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let events = Events::of(&batch);
        assert_eq!([0, 1].map(|row| events.is_readable(row)), [true, false]);
        assert_eq!(events.latest_at_most(2), Some(5));
        let why = decode(&batch, ORIGIN).err().unwrap();
        assert_eq!(why, "the packed events of row 1 are damaged");
    }
}
