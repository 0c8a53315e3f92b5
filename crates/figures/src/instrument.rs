//! The client's measurement error: the record compared with the server's log.
//!
//! In: timelines, and for each request the times at which a server passed each content event to the
//! kernel, on the same monotonic clock. Out: the distribution of stamp minus truth for first tokens,
//! and of reported minus true gap for the rest. On loopback this shows the error of reading and
//! parsing, not that of a network card.

use std::collections::BTreeMap;

use serde::Serialize;
use tokometer_base::Nanos;
use tokometer_record::{Phase, Timeline};

/// Content events of one request as the server sent them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Emission {
    /// In the plan.
    pub index: u64,
    /// Just before each content event was passed to the kernel.
    pub sent: Vec<Nanos>,
}

/// A distribution of errors in nanoseconds; negative is early. `None` without values.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ErrorSpread {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    /// 99th percentile of the absolute error.
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

/// How far the record is from the server's log.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct InstrumentError {
    /// First content of each request: stamp minus send time.
    pub ttft: ErrorSpread,
    /// Gaps between content events that are not upper bounds: reported minus true.
    pub gap: ErrorSpread,
    /// Share of content events whose stamp is only an upper bound.
    pub marked_share: Option<f64>,
    pub events: u64,
    /// Events stamped before they were sent, which correct clocks do not allow.
    pub early_events: u64,
    /// Requests whose number of content events differs from the log.
    pub mismatched_requests: u64,
    pub unknown_requests: u64,
}

impl InstrumentError {
    pub fn lost_requests(&self) -> u64 {
        self.mismatched_requests + self.unknown_requests
    }

    /// The error of first tokens that 99 in 100 keep below; `None` when nothing could be compared.
    pub fn first_token_p99(&self) -> Option<Nanos> {
        self.ttft.p99.map(|nanos| Nanos::from_secs_f64(nanos / 1e9))
    }
}

fn spread(mut errors: Vec<f64>) -> ErrorSpread {
    if errors.is_empty() {
        return ErrorSpread::default();
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    tokometer_base::sort_numbers(&mut errors);
    let p50 = errors[errors.len() / 2];
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    tokometer_base::sort_numbers(&mut sizes);
    let p99 = sizes[(sizes.len() * 99 / 100).min(sizes.len() - 1)];
    ErrorSpread { mean: Some(mean), p50: Some(p50), p99: Some(p99), max: sizes.last().copied() }
}

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

#[derive(Debug, Clone, Serialize)]
pub struct PassError {
    /// How the load was sent and read.
    pub name: String,
    pub error: InstrumentError,
    pub cpu_secs_per_million: Option<f64>,
}

impl PassError {
    pub fn of(
        name: &str,
        timelines: &[Timeline],
        emissions: &[Emission],
        cpu_time: Option<Nanos>,
    ) -> Self {
        let events: usize = timelines.iter().map(|timeline| timeline.events.len()).sum();
        Self {
            name: name.to_owned(),
            error: error(timelines, emissions),
            cpu_secs_per_million: cpu_time.map(|time| time.0 as f64 / 1e3 / events.max(1) as f64),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Fitness {
    pub concurrency: u32,
    pub asked_events_per_s: f64,
    /// Events per second that this client can read at most.
    pub most_events_per_s: Option<f64>,
    /// The first one decides.
    pub passes: Vec<PassError>,
}

/// Largest p99 error of first tokens at which the machine is fit for the load.
const FIT_TTFT_NANOS: f64 = 1e6;

impl Fitness {
    pub fn is_fit(&self) -> bool {
        let is_fast = self.most_events_per_s.is_none_or(|most| most >= self.asked_events_per_s);
        let is_true = self.passes.first().is_some_and(|pass| {
            pass.error.ttft.p99.is_some_and(|p99| p99 <= FIT_TTFT_NANOS)
                && pass.error.mismatched_requests == 0
        });
        is_fast && is_true
    }
}

/// Events per second from the first event of all requests to the last.
pub fn events_per_s(timelines: impl Iterator<Item = Timeline>) -> f64 {
    let (mut events, mut first, mut last) = (0_u64, u64::MAX, 0_u64);
    for timeline in timelines {
        events += timeline.events.len() as u64;
        first = first.min(timeline.events.first().map_or(u64::MAX, |event| event.at.0));
        last = last.max(timeline.events.last().map_or(0, |event| event.at.0));
    }
    events as f64 / (last.saturating_sub(first).max(1) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, Event, EventKind, RequestedLengths};

    use super::*;

    fn timeline(index: u64, at: &[u64]) -> Timeline {
        let mut timeline = Timeline::new(
            AttemptId::new(index, Phase::Measure),
            RequestedLengths::default(),
            Nanos(0),
        );
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
        assert_eq!(found.lost_requests(), 2);
        assert_eq!(found.first_token_p99(), Some(Nanos(10)));
    }

    #[test]
    fn marked_events_are_left_out_of_the_gaps_and_counted() {
        let mut row = timeline(0, &[100, 200, 300]);
        row.events[1] = row.events[1].with_upper_bound(true);
        let found = error(&[row], &[emission(0, &[100, 150, 300])]);
        assert_eq!(found.gap, ErrorSpread::default());
        assert_eq!(found.marked_share, Some(1.0 / 3.0));
    }

    fn fitness(p99: f64, most: f64) -> Fitness {
        let ttft = ErrorSpread { p99: Some(p99), ..ErrorSpread::default() };
        let error = InstrumentError { ttft, ..InstrumentError::default() };
        Fitness {
            concurrency: 2_048,
            asked_events_per_s: 102_400.0,
            most_events_per_s: Some(most),
            passes: vec![PassError { name: "adaptive".into(), error, cpu_secs_per_million: None }],
        }
    }

    #[test]
    fn a_load_is_refused_when_stamps_are_late_or_events_too_many() {
        assert!(fitness(5_900.0, 250_000.0).is_fit());
        assert!(!fitness(5e6, 250_000.0).is_fit());
        assert!(!fitness(5_900.0, 50_000.0).is_fit());
    }

    #[test]
    fn rates_of_events_and_cpu_time_are_those_of_all_requests() {
        let timelines = [timeline(0, &[0, 500_000_000]), timeline(1, &[1_000_000_000])];
        assert!((events_per_s(timelines.clone().into_iter()) - 3.0).abs() < 1e-9);
        let pass = PassError::of("eager", &timelines, &[], Some(Nanos::from_millis(3)));
        assert!((pass.cpu_secs_per_million.unwrap() - 1_000.0).abs() < 1e-9);
    }
}
