//! The values kept of each request after its events are dropped, and the load over time.

use tokometer_base::Nanos;
use tokometer_record::{FailureKind, Outcome, Timeline};

use crate::goodput::Latencies;
use crate::measure;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Succeeded,
    Failed,
    Abandoned,
}

/// Failures are grouped by this.
pub(crate) type FailureClass = (FailureKind, Option<u16>);

/// One attempt of one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestRow {
    pub(crate) key: (u32, u64),
    pub(crate) attempt: u32,
    pub(crate) target: u16,
    /// Index of the target's address; `None` when no connection was made.
    pub(crate) address: Option<u16>,
    pub(crate) fate: Fate,
    /// The intended time, otherwise the admission.
    pub(crate) due: Nanos,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// Durations are in nanoseconds.
    pub(crate) ttft: Option<f64>,
    pub(crate) tpot: Option<f64>,
    pub(crate) e2e: Option<f64>,
    /// The message is kept once per group, not once per request.
    pub(crate) failure: Option<FailureClass>,
}

impl RequestRow {
    pub(crate) fn of(timeline: &Timeline) -> Self {
        let times = &timeline.times;
        let start = times.first_byte_sent.unwrap_or(times.admitted);
        let last_event = timeline.events.last().map(|event| event.at);
        let (fate, failure) = match &timeline.outcome {
            Outcome::Success => (Fate::Succeeded, None),
            Outcome::Failed(failure) => (Fate::Failed, Some((failure.kind, failure.status))),
            Outcome::Abandoned => (Fate::Abandoned, None),
        };
        Self {
            key: (timeline.identity.point, timeline.identity.index),
            attempt: timeline.identity.attempt,
            target: timeline.identity.target,
            address: timeline.connection.address,
            fate,
            due: times.intended.unwrap_or(times.admitted),
            start,
            end: times.end.or(last_event).unwrap_or(start).max(start),
            ttft: measure::ttft(timeline),
            tpot: measure::tpot(timeline),
            e2e: measure::e2e(timeline),
            failure,
        }
    }

    /// The latencies that objectives use; `None` for requests without content.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        Some(Latencies {
            ttft_ms: self.ttft? / 1e6,
            tpot_ms: self.tpot.unwrap_or(0.0) / 1e6,
            e2el_ms: self.e2e? / 1e6,
        })
    }
}

/// A time span of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
}

impl TimeSpan {
    pub(crate) fn length(&self) -> Nanos {
        self.end - self.begin
    }

    pub(crate) fn contains(&self, at: Nanos) -> bool {
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
}

/// Mean number of requests in flight during a span.
pub(crate) fn mean_in_flight(rows: &[RequestRow], part: TimeSpan) -> f64 {
    let overlap = |row: &RequestRow| (row.end.min(part.end) - row.start.max(part.begin)).0 as f64;
    rows.iter().map(overlap).sum::<f64>() / part.length().0.max(1) as f64
}

/// Most requests in flight at one instant, and when the number first reached `wanted`.
pub(crate) fn sweep(rows: &[RequestRow], wanted: u64) -> (u64, Option<Nanos>) {
    let mut steps: Vec<(Nanos, i64)> =
        rows.iter().flat_map(|row| [(row.start, 1), (row.end, -1)]).collect();
    // An end sorts before a start at the same instant, so that a place that is reused is not counted
    // twice.
    steps.sort_unstable();
    let (mut in_flight, mut peak, mut reached) = (0_i64, 0_i64, None);
    for (at, step) in steps {
        in_flight += step;
        peak = peak.max(in_flight);
        if reached.is_none() && u64::try_from(in_flight).is_ok_and(|now| now >= wanted) {
            reached = Some(at);
        }
    }
    (u64::try_from(peak).unwrap_or(0), reached)
}
