//! The values kept of each request after its events are dropped, and the load over time.

use std::collections::BTreeMap;
use std::iter;

use tokometer_base::Nanos;
use tokometer_record::{FailureKind, Outcome, Timeline};

use crate::joined::{self, Joined};
use crate::measure;
use crate::sends::{self, Sends};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Succeeded,
    /// An error, a timeout, or no content.
    Failed,
    /// By its user, as the plan says.
    Cancelled,
    /// In flight when the client stopped.
    Abandoned,
}

pub(crate) type FailureClass = (FailureKind, Option<u16>);

/// A duration in nanoseconds that a request may lack, in half the memory of an `Option<f64>`.
#[derive(Debug, Clone, Copy)]
pub struct MaybeSpan(f64);

impl MaybeSpan {
    pub(crate) const NONE: Self = Self(f64::NAN);

    fn get(self) -> Option<f64> {
        (!self.0.is_nan()).then_some(self.0)
    }
}

impl From<MaybeSpan> for Option<f64> {
    fn from(span: MaybeSpan) -> Self {
        span.get()
    }
}

impl From<Option<f64>> for MaybeSpan {
    fn from(span: Option<f64>) -> Self {
        span.map_or(Self::NONE, Self)
    }
}

#[derive(Debug, Clone)]
pub struct RequestRow {
    pub index: u64,
    /// The intended time, otherwise the admission.
    pub due: Nanos,
    /// The first byte of the request.
    pub start: Nanos,
    /// When its slot was free again.
    pub end: Nanos,
    /// See [`crate::define`], like the next two.
    pub ttft: MaybeSpan,
    /// `None` for answers of one token.
    pub tpot: MaybeSpan,
    pub e2e: MaybeSpan,
    /// In microseconds, which saturate.
    late: u32,
    /// Of the first content; zero where it came alone in its read.
    pub joined_first: Joined,
    /// Of the last content; zero where nothing shows that it waited.
    pub joined_last: Joined,
    /// Zero for the first attempt.
    pub attempt: u16,
    pub target: u16,
    /// Index of the target's address; `None` when no connection was made.
    pub(crate) address: Option<u16>,
    pub(crate) failure: Option<FailureClass>,
    /// Index among the run's classes.
    pub(crate) class: Option<u8>,
    /// The number of its failure's message, which is kept once and not once per request.
    pub(crate) message: u8,
    pub fate: Fate,
}

// A run of a million requests keeps a million of them.
const _: () = assert!(size_of::<RequestRow>() == 96);

impl RequestRow {
    pub fn of(timeline: &Timeline, cap: Option<u32>) -> Self {
        let times = &timeline.times;
        let start = times.first_byte_sent.unwrap_or(times.admitted);
        let last_event = timeline.events.last().map(|event| event.at);
        let (fate, failure) = match &timeline.outcome {
            Outcome::Success => (Fate::Succeeded, None),
            Outcome::Failed(failure) => (Fate::Failed, Some((failure.kind, failure.status))),
            Outcome::Cancelled => (Fate::Cancelled, None),
            Outcome::Abandoned => (Fate::Abandoned, None),
        };
        // What a cancelled request would have taken is unknown.
        let whole = |value: Option<f64>| value.filter(|_| fate != Fate::Cancelled).into();
        // The slot was taken until the server's open body was given up.
        let end = times.freed.or(times.end).or(last_event).unwrap_or(start).max(start);
        let row = Self {
            due: times.intended.unwrap_or(times.admitted),
            ttft: measure::ttft(timeline).into(),
            tpot: whole(measure::tpot(timeline)),
            e2e: whole(measure::e2e(timeline)),
            joined_first: joined::first(timeline).unwrap_or_default(),
            joined_last: joined::last(timeline).unwrap_or_default(),
            attempt: u16::try_from(timeline.identity.attempt).unwrap_or(u16::MAX),
            target: timeline.identity.target,
            address: timeline.connection.address,
            failure,
            fate,
            ..Self::between(timeline.identity.index, start, end)
        };
        row.with_lateness(sends::lateness(timeline, cap))
    }

    /// A request that succeeded and has no latencies.
    pub fn between(index: u64, start: Nanos, end: Nanos) -> Self {
        Self {
            index,
            due: start,
            start,
            end,
            ttft: MaybeSpan::NONE,
            tpot: MaybeSpan::NONE,
            e2e: MaybeSpan::NONE,
            late: 0,
            joined_first: Joined::default(),
            joined_last: Joined::default(),
            attempt: 0,
            target: 0,
            class: None,
            address: None,
            failure: None,
            message: 0,
            fate: Fate::Succeeded,
        }
    }

    #[must_use]
    pub fn with_lateness(mut self, late: Option<Nanos>) -> Self {
        self.late = u32::try_from(late.unwrap_or(Nanos::ZERO).0 / 1_000).unwrap_or(u32::MAX);
        self
    }

    /// How late the client sent it; zero for a retry.
    pub fn lateness(&self) -> Nanos {
        Nanos::from_micros(u64::from(self.late))
    }

    /// In nanoseconds, like the next two.
    pub fn ttft(&self) -> Option<f64> {
        self.ttft.get()
    }

    pub fn tpot(&self) -> Option<f64> {
        self.tpot.get()
    }

    pub fn e2e(&self) -> Option<f64> {
        self.e2e.get()
    }

    /// The latencies that objectives use; `None` for requests without content. An answer in one piece
    /// is there from its first token on when it ends.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        Some(Latencies {
            ttft_ms: self.ttft().or(self.e2e())? / 1e6,
            tpot_ms: self.tpot().unwrap_or(0.0) / 1e6,
            e2el_ms: self.e2e()? / 1e6,
        })
    }
}

/// The latencies of one request that objectives refer to, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latencies {
    pub ttft_ms: f64,
    /// Zero for a response of one token, which therefore always meets its limit.
    pub tpot_ms: f64,
    pub e2el_ms: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    pub begin: Nanos,
    pub end: Nanos,
}

impl TimeSpan {
    pub fn length(&self) -> Nanos {
        self.end - self.begin
    }

    pub fn contains(&self, at: Nanos) -> bool {
        self.begin <= at && at < self.end
    }

    /// Divides the span into `count` equal ones.
    pub(crate) fn pieces(&self, count: u64) -> impl Iterator<Item = Self> + use<> {
        let (begin, length) = (self.begin, self.length().0);
        (0..count).map(move |piece| Self {
            begin: begin + Nanos(length / count * piece),
            end: begin + Nanos(length / count * (piece + 1)),
        })
    }

    /// The piece among `count` equal ones that contains a time.
    pub(crate) fn piece_of(&self, at: Nanos, count: u64) -> Option<usize> {
        let piece = at.checked_sub(self.begin)?.0.checked_div(self.length().0 / count)?;
        usize::try_from(piece).ok().filter(|_| piece < count)
    }
}

/// Mean number of requests in flight in each of `count` equal pieces of a span, in one pass.
pub(crate) fn mean_in_flight_by_piece(rows: &[RequestRow], part: TimeSpan, count: u64) -> Vec<f64> {
    let pieces: Vec<TimeSpan> = part.pieces(count).collect();
    let mut overlaps = vec![0.0; pieces.len()];
    for row in rows {
        let begin = row.start.max(part.begin);
        let Some(first) = part.piece_of(begin, count) else { continue };
        let touched = pieces.iter().zip(&mut overlaps).skip(first);
        for (piece, sum) in touched.take_while(|(piece, _)| piece.begin < row.end) {
            *sum += (row.end.min(piece.end) - begin.max(piece.begin)).0 as f64;
        }
    }
    let mean = |(sum, piece): (f64, &TimeSpan)| sum / piece.length().0.max(1) as f64;
    overlaps.into_iter().zip(&pieces).map(mean).collect()
}

/// The times at which the number in flight changes, in order, with the change. Takes the starts and
/// the ends of requests. An end comes before a start at the same instant, so that a slot that is
/// reused is not counted twice.
pub fn changes(
    flights: impl Iterator<Item = (Nanos, Nanos)>,
) -> impl Iterator<Item = (Nanos, i64)> {
    let (mut starts, mut ends): (Vec<Nanos>, Vec<Nanos>) = flights.unzip();
    starts.sort_unstable();
    ends.sort_unstable();
    let (mut starts, mut ends) = (starts.into_iter().peekable(), ends.into_iter().peekable());
    iter::from_fn(move || match (starts.peek(), ends.peek()) {
        (Some(start), Some(end)) if start >= end => ends.next().map(|at| (at, -1)),
        (Some(_), _) => starts.next().map(|at| (at, 1)),
        (None, _) => ends.next().map(|at| (at, -1)),
    })
}

/// The number in flight after each change, in order.
fn in_flight(rows: &[RequestRow]) -> impl Iterator<Item = (Nanos, u64)> {
    let mut count = 0_i64;
    changes(rows.iter().map(|row| (row.start, row.end))).map(move |(at, step)| {
        count += step;
        (at, u64::try_from(count).unwrap_or(0))
    })
}

/// A request that is retried is due with its first attempt: it was in its slot from then on.
pub(crate) fn keep_first_due(rows: &mut [RequestRow]) {
    let retried = rows.iter().filter(|row| row.attempt > 0);
    let mut due: BTreeMap<u64, Nanos> = retried.map(|row| (row.index, row.due)).collect();
    for row in rows.iter() {
        due.entry(row.index).and_modify(|due| *due = row.due.min(*due));
    }
    for row in rows.iter_mut().filter(|row| row.attempt > 0) {
        row.due = due.get(&row.index).copied().unwrap_or(row.due);
    }
}

pub(crate) fn peak_in_flight(rows: &[RequestRow]) -> u64 {
    in_flight(rows).map(|(_, count)| count).max().unwrap_or(0)
}

/// When so many requests were first in flight; `None` where they never were.
pub(crate) fn first_reaching(rows: &[RequestRow], wanted: u64) -> Option<Nanos> {
    in_flight(rows).find(|(_, count)| *count >= wanted).map(|(at, _)| at)
}

/// How late the requests of a part of a run were sent.
pub(crate) fn sends_of(rows: &[RequestRow]) -> Sends {
    let mut sends = Sends::default();
    for row in rows {
        sends.add_lateness(row.lateness());
    }
    sends
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_base::seed::whole_between;

    use super::*;

    /// Requests of 0 to 300 ns, begun within 1,000 ns.
    fn rows() -> Vec<RequestRow> {
        let mut draws = Seed(5).stream("rows").at(0);
        let mut row = |index: u64| {
            let start = whole_between(&mut draws, 0, 1_000);
            let length = whole_between(&mut draws, 0, 300);
            RequestRow::between(index, Nanos(start), Nanos(start + length))
        };
        (0..400).map(&mut row).collect()
    }

    #[test]
    fn one_pass_over_the_rows_gives_the_mean_of_every_piece() {
        let rows = rows();
        for (begin, end, count) in [(0, 1_200, 12), (103, 997, 7), (300, 305, 12), (500, 500, 3)] {
            let part = TimeSpan { begin: Nanos(begin), end: Nanos(end) };
            let mean = |part: TimeSpan| {
                let overlap = |row: &RequestRow| row.end.min(part.end) - row.start.max(part.begin);
                let sum: f64 = rows.iter().map(|row| overlap(row).0 as f64).sum();
                sum / part.length().0.max(1) as f64
            };
            let each: Vec<f64> = part.pieces(count).map(mean).collect();
            assert_eq!(mean_in_flight_by_piece(&rows, part, count), each, "{part:?} {count}");
            for at in (0..1_300).map(Nanos) {
                let containing = part.pieces(count).position(|piece| piece.contains(at));
                assert_eq!(part.piece_of(at, count), containing, "{part:?} {count} {at:?}");
            }
        }
    }

    #[test]
    fn changes_are_sorted_and_an_end_precedes_a_start_at_the_same_instant() {
        let rows = rows();
        let mut expected: Vec<(Nanos, i64)> =
            rows.iter().flat_map(|row| [(row.start, 1), (row.end, -1)]).collect();
        expected.sort_unstable();
        let found: Vec<(Nanos, i64)> =
            changes(rows.iter().map(|row| (row.start, row.end))).collect();
        assert_eq!(found, expected);
    }

    /// A stage with late sends said that 0 of 0 requests were late.
    #[test]
    fn the_late_sends_of_a_part_are_those_of_its_requests() {
        let row = |late: u64| {
            RequestRow::between(0, Nanos::ZERO, Nanos::from_secs(1))
                .with_lateness(Some(Nanos::from_millis(late)))
        };
        let expected = Sends { judged: 3, late: 1, worst: Nanos::from_millis(9) };
        assert_eq!(sends_of(&[row(0), row(9), row(5)]), expected);
    }
}
