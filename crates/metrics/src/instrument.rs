//! The instrument's own error: what the record says against what the server logged.
//!
//! In: timelines, and per request the times at which a server handed each content event to the
//! kernel, on the same monotonic clock. Out: the distribution of stamp minus truth for first tokens,
//! and of reported gap minus true gap for the rest. On loopback this proves the error of reading,
//! parsing and harvesting; it says nothing about a network card.

use std::collections::BTreeMap;

use serde::Serialize;
use tokometer_base::Nanos;
use tokometer_record::{Phase, Timeline};

/// Content events of one request as the server sent them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Emission {
    /// Index of the request in the plan.
    pub index: u64,
    /// Just before each content event was handed to the kernel.
    pub sent: Vec<Nanos>,
}

/// A distribution of errors in nanoseconds; negative is early. `None` when there was nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ErrorSpread {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile of the absolute error.
    pub p99: Option<f64>,
    /// Largest absolute error.
    pub max: Option<f64>,
}

/// How far the record is from the truth.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct InstrumentError {
    /// First content of each request: stamp minus emission.
    pub ttft: ErrorSpread,
    /// Gaps between content events that are not marked as upper bounds: reported minus true.
    pub gap: ErrorSpread,
    /// Share of content events whose stamp is only an upper bound.
    pub marked_share: Option<f64>,
    /// Content events compared.
    pub events: u64,
    /// Events stamped before they were sent, which no honest clock allows.
    pub early_events: u64,
    /// Requests whose number of content events differs from what was sent.
    pub mismatched_requests: u64,
    /// Requests that could not be compared because the log does not know them.
    pub unknown_requests: u64,
}

fn spread(mut errors: Vec<f64>) -> ErrorSpread {
    if errors.is_empty() {
        return ErrorSpread::default();
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    errors.sort_by(f64::total_cmp);
    let p50 = errors[errors.len() / 2];
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let p99 = sizes[(sizes.len() * 99 / 100).min(sizes.len() - 1)];
    ErrorSpread { mean: Some(mean), p50: Some(p50), p99: Some(p99), max: sizes.last().copied() }
}

/// Compares measured requests with the server's log.
pub fn error(timelines: &[Timeline], emissions: &[Emission]) -> InstrumentError {
    let known: BTreeMap<u64, &Emission> =
        emissions.iter().map(|emission| (emission.index, emission)).collect();
    let mut result = InstrumentError::default();
    let (mut firsts, mut gaps, mut marked) = (Vec::new(), Vec::new(), 0_u64);
    let measured = timelines.iter().filter(|timeline| timeline.identity.phase == Phase::Measure);
    for timeline in measured {
        let Some(emission) = known.get(&timeline.identity.index) else {
            result.unknown_requests += 1;
            continue;
        };
        let content: Vec<_> =
            timeline.events.iter().filter(|event| event.kind.is_content()).collect();
        if content.len() != emission.sent.len() {
            result.mismatched_requests += 1;
            continue;
        }
        for (at, (event, sent)) in content.iter().zip(&emission.sent).enumerate() {
            let late = event.at.signed_since(*sent) as f64;
            result.events += 1;
            result.early_events += u64::from(late < 0.0);
            marked += u64::from(event.is_upper_bound());
            let Some(before) = at.checked_sub(1) else {
                firsts.push(late);
                continue;
            };
            if !event.is_upper_bound() && !content[before].is_upper_bound() {
                let late_before = content[before].at.signed_since(emission.sent[before]) as f64;
                gaps.push(late - late_before);
            }
        }
    }
    result.ttft = spread(firsts);
    result.gap = spread(gaps);
    result.marked_share = (result.events > 0).then(|| marked as f64 / result.events as f64);
    result
}

#[cfg(test)]
mod tests {
    use tokometer_record::{Asked, Event, EventKind, Identity};

    use super::*;

    fn timeline(index: u64, at: &[u64]) -> Timeline {
        let mut timeline =
            Timeline::new(Identity::new(index, Phase::Measure), Asked::default(), Nanos(0));
        for (read, at) in (0..).zip(at) {
            timeline.push(Event::new(Nanos(*at), read, EventKind::Text));
        }
        timeline
    }

    fn emission(index: u64, sent: &[u64]) -> Emission {
        Emission { index, sent: sent.iter().copied().map(Nanos).collect() }
    }

    #[test]
    fn errors_are_stamp_minus_truth_for_first_tokens_and_gap_minus_gap_after() {
        let found = error(&[timeline(0, &[110, 205, 330])], &[emission(0, &[100, 200, 300])]);
        assert_eq!(found.ttft.mean, Some(10.0));
        // Gaps 95 and 125 against 100 and 100.
        assert_eq!(found.gap.mean, Some(10.0));
        assert_eq!(found.gap.max, Some(25.0));
        assert_eq!((found.events, found.early_events), (3, 0));
    }

    #[test]
    fn lost_events_and_early_stamps_are_counted_not_averaged() {
        let rows = [timeline(0, &[90]), timeline(1, &[50]), timeline(2, &[50])];
        let found = error(&rows, &[emission(0, &[100]), emission(1, &[40, 45])]);
        assert_eq!(found.early_events, 1);
        assert_eq!(found.mismatched_requests, 1);
        assert_eq!(found.unknown_requests, 1);
    }

    #[test]
    fn marked_events_are_left_out_of_the_gaps_and_counted() {
        let mut row = timeline(0, &[100, 200, 300]);
        row.events[1] = row.events[1].with_upper_bound(true);
        let found = error(&[row], &[emission(0, &[100, 150, 300])]);
        assert_eq!(found.gap, ErrorSpread::default());
        assert_eq!(found.marked_share, Some(1.0 / 3.0));
    }
}
