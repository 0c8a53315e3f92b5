//! From Arrow columns back to timelines.
//!
//! Columns are found by name, once per batch: one that is missing or has another type reads as absent,
//! one that is not known is left alone. Rows are made one at a time, so that a batch takes no more
//! memory than its bytes.

mod events;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrowPrimitiveType, ListArray, PrimitiveArray, RecordBatch, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::NullBuffer;
use tokometer_base::Nanos;

use self::events::Events;
use super::{COLUMNS, Column, event_base};
use crate::rows::SentAttempt;
use crate::timeline::{AttemptId, Phase, RequestedLengths, Timeline, Times};

/// No run is longer than a month. A later time is damage, and figures per second would exhaust the
/// memory.
pub(crate) const LONGEST: Nanos = Nanos::from_secs(31 * 24 * 3_600);

fn numbers<T: ArrowPrimitiveType>(batch: &RecordBatch, name: &str) -> Option<PrimitiveArray<T>> {
    batch.column_by_name(name)?.as_primitive_opt().cloned()
}

fn texts(batch: &RecordBatch, name: &str) -> Option<StringArray> {
    batch.column_by_name(name)?.as_string_opt().cloned()
}

fn number<T: ArrowPrimitiveType>(
    column: Option<&PrimitiveArray<T>>,
    row: usize,
) -> Option<T::Native> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

/// A column that a batch has, and how its values go into a timeline.
enum Cells {
    Time(UInt64Array, fn(&mut Times, Nanos)),
    Span(UInt64Array, fn(&mut Timeline, Nanos)),
    U64(UInt64Array, fn(&mut Timeline, u64)),
    U32(UInt32Array, fn(&mut Timeline, u32)),
    Text(StringArray, fn(&mut Timeline, &str)),
    List(Lists<UInt32Type>, fn(&mut Timeline, &[u32])),
}

impl Cells {
    fn of(batch: &RecordBatch, column: &Column) -> Option<Self> {
        Some(match column {
            Column::Time(name, _, set) => Self::Time(numbers(batch, name)?, *set),
            Column::Span(name, _, set) => Self::Span(numbers(batch, name)?, *set),
            Column::U64(name, _, set) => Self::U64(numbers(batch, name)?, *set),
            Column::U32(name, _, set) => Self::U32(numbers(batch, name)?, *set),
            Column::Text(name, _, set) => Self::Text(texts(batch, name)?, *set),
            Column::List(name, _, set) => Self::List(Lists::of(batch, name), *set),
        })
    }

    fn put(&self, row: usize, origin: Nanos, into: &mut Timeline) {
        match self {
            Self::Time(column, set) if column.is_valid(row) => {
                set(&mut into.times, origin + Nanos(column.value(row)));
            }
            Self::Span(column, set) if column.is_valid(row) => set(into, Nanos(column.value(row))),
            Self::U64(column, set) if column.is_valid(row) => set(into, column.value(row)),
            Self::U32(column, set) if column.is_valid(row) => set(into, column.value(row)),
            Self::Text(column, set) if column.is_valid(row) => set(into, column.value(row)),
            Self::List(column, set) => {
                if let Some(list) = column.at(row) {
                    set(into, list.values);
                }
            }
            _ => {}
        }
    }
}

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

pub(crate) struct BatchRows {
    origin: Nanos,
    row: usize,
    length: usize,
    cells: Vec<Cells>,
    events: Events,
}

impl BatchRows {
    fn of(batch: &RecordBatch, origin: Nanos) -> Self {
        let cells = COLUMNS.iter().filter_map(|column| Cells::of(batch, column));
        let (cells, events) = (cells.collect(), Events::of(batch));
        Self { origin, row: 0, length: batch.num_rows(), cells, events }
    }

    /// No time of the batch is later than this one, relative to the run's origin. It may lie behind an absent
    /// value.
    fn latest_at_most(&self) -> Nanos {
        let latest = |cells: &Cells| match cells {
            Cells::Time(column, _) => column.values().iter().copied().max(),
            _ => None,
        };
        let points = self.cells.iter().filter_map(latest).max();
        let events = self.events.latest_at_most(self.length).unwrap_or(0);
        Nanos(points.unwrap_or(0).saturating_add_signed(events.max(0)))
    }

    fn latest(&self, row: usize) -> Nanos {
        let timeline = self.without_events(row);
        let events = self.events.latest(row);
        let base = event_base(&timeline.times);
        let latest = events.map(|latest| Nanos(base.0.saturating_add_signed(latest)));
        let time = |column: &Column| match column {
            Column::Time(_, get, _) => get(&timeline.times),
            _ => None,
        };
        COLUMNS.iter().filter_map(time).chain(latest).fold(Nanos::ZERO, Nanos::max)
    }

    fn without_events(&self, row: usize) -> Timeline {
        let identity = AttemptId::new(0, Phase::Measure);
        let mut timeline = Timeline::new(identity, RequestedLengths::default(), self.origin);
        self.cells.iter().for_each(|cells| cells.put(row, self.origin, &mut timeline));
        timeline
    }

    fn timeline(&self, row: usize) -> Timeline {
        let timeline = self.without_events(row);
        let events = self.events.at(row, event_base(&timeline.times));
        Timeline { events, ..timeline }
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

/// Index and attempt of each row of the measured phase, which rows without a phase belong to.
pub(crate) fn measured_attempts(batch: &RecordBatch) -> impl Iterator<Item = (u64, u32)> + use<> {
    let (index, attempt) =
        (numbers::<UInt64Type>(batch, "index"), numbers::<UInt32Type>(batch, "attempt"));
    let phases = texts(batch, "phase");
    (0..batch.num_rows()).filter_map(move |row| {
        let phase = phases.as_ref().filter(|phases| phases.is_valid(row));
        let phase = phase.map_or(Phase::Measure, |phases| Phase::from_name(phases.value(row)));
        let attempt = number(index.as_ref(), row).zip(number(attempt.as_ref(), row));
        attempt.filter(|_| phase == Phase::Measure)
    })
}

/// The rows of a batch of sent attempts. One that lies outside of any run is damaged, and left out.
pub(crate) fn starts(
    batch: &RecordBatch,
    origin: Nanos,
) -> impl Iterator<Item = SentAttempt> + use<> {
    let (index, sent) =
        (numbers::<UInt64Type>(batch, "index"), numbers::<UInt64Type>(batch, "sent_ns"));
    let attempt = numbers::<UInt32Type>(batch, "attempt");
    (0..batch.num_rows()).filter_map(move |row| {
        let at = number(sent.as_ref(), row).map(Nanos).filter(|at| *at <= LONGEST)?;
        let (index, attempt) = (number(index.as_ref(), row)?, number(attempt.as_ref(), row)?);
        Some(SentAttempt { index, attempt, sent: origin + at })
    })
}
