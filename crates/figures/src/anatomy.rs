//! Parts of the time to first token, as far as they are known.
//!
//! In: timelines, and the server's counters. Out: mean milliseconds per part, each marked as measured
//! by the client, reported by the server, or inferred. Means are over all requests, so the parts
//! after sending add up to the mean time to first token. Unknown parts stay in the rest in the
//! server, because their share of it would be a guess.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::{Phase, Timeline};

use crate::reported;
use crate::server::ServerFigures;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartSource {
    Measured,
    /// By the server, in the response or in its counters.
    #[serde(rename = "told")]
    Reported,
    /// Derived from other values, or the remainder.
    Inferred,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartStage {
    /// Before the first byte of the request: not part of the time to first token.
    Before,
    /// Between the first byte of the request and the first content.
    Within,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    /// Over all requests, those without this part included.
    pub mean_ms: f64,
    /// Whether it is part of the time to first token.
    pub stage: PartStage,
    /// Shown beside the value.
    pub known: PartSource,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    nanos: f64,
    count: u64,
}

impl Sum {
    fn add(&mut self, span: Option<Nanos>) {
        if let Some(span) = span {
            self.nanos += span.0 as f64;
            self.count += 1;
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Anatomy {
    client_queue: Sum,
    connect: Sum,
    send: Sum,
    /// The kernel smooths round-trip times and includes delayed acknowledgements, so the smallest of
    /// the run is closest to the network's.
    least_round_trip: Option<Nanos>,
    server_queue: Sum,
    prefill: Sum,
    rest: Sum,
    requests: u64,
}

impl Anatomy {
    /// Adds one request; those without content or outside the measured phase are skipped.
    pub fn push(&mut self, timeline: &Timeline) {
        let times = &timeline.times;
        let is_measured = timeline.identity.phase == Phase::Measure && timeline.is_success();
        let (Some(sent), Some(first)) = (times.first_byte_sent, timeline.first_content()) else {
            return;
        };
        if !is_measured {
            return;
        }
        self.requests += 1;
        self.client_queue.add(times.intended.map(|intended| times.admitted - intended));
        let connected = times.tls_end.or(times.connect_end);
        self.connect.add(times.connect_begin.and_then(|begin| connected?.checked_sub(begin)));
        let upload = times.last_byte_sent.map_or(Nanos::ZERO, |last| last - sent);
        self.send.add(Some(upload));
        let round_trip = timeline.network.map(|network| network.round_trip);
        self.least_round_trip = self.least_round_trip.into_iter().chain(round_trip).min();
        let reported = reported::timings(timeline);
        self.server_queue.add(reported.queue);
        self.prefill.add(reported.prefill);
        let known = [reported.queue, reported.prefill].into_iter().flatten();
        let known = known.fold(upload, |sum, span| sum + span);
        self.rest.add(Some((first.at - sent) - known));
    }

    /// The parts in the order of a request; those that no request had are left out. Where no response
    /// reports queue or prefill times, the server's counters are used, and their means are subtracted
    /// from the remainder.
    pub fn parts(&self, server: Option<&ServerFigures>) -> Vec<Part> {
        if self.requests == 0 {
            return Vec::new();
        }
        let mean = |sum: Sum| (sum.count > 0).then(|| sum.nanos / self.requests as f64 / 1e6);
        let mut rest = mean(self.rest).unwrap_or(0.0);
        let network = self.least_round_trip.map(|least| least.as_millis_f64().min(rest));
        rest -= network.unwrap_or(0.0);
        let mut reported = |sum: Sum, counted: Option<f64>| {
            mean(sum).or_else(|| {
                // The counters include other clients' requests, and may not exceed what is left.
                let taken = counted?.min(rest);
                rest -= taken;
                Some(taken)
            })
        };
        let queue = reported(self.server_queue, server.and_then(|server| server.queue_ms_mean));
        let prefill = reported(self.prefill, server.and_then(|server| server.prefill_ms_mean));
        let named = [
            ("client queue", mean(self.client_queue), PartSource::Measured, PartStage::Before),
            ("connect", mean(self.connect), PartSource::Measured, PartStage::Before),
            ("sending the request", mean(self.send), PartSource::Measured, PartStage::Within),
            ("network round trip", network, PartSource::Inferred, PartStage::Within),
            ("server queue", queue, PartSource::Reported, PartStage::Within),
            ("prefill", prefill, PartSource::Reported, PartStage::Within),
            ("rest in the server", Some(rest), PartSource::Inferred, PartStage::Within),
        ];
        let part = |(name, mean_ms, known, stage): (&str, Option<f64>, PartSource, PartStage)| {
            Some(Part { name: name.to_owned(), mean_ms: mean_ms?, stage, known })
        };
        named.into_iter().filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{
        AttemptId, Event, EventKind, Outcome, RequestedLengths, ServerTimings, TcpStats,
    };

    use super::*;

    fn request() -> Timeline {
        let at = Nanos::from_millis;
        let mut timeline =
            Timeline::new(AttemptId::new(0, Phase::Measure), RequestedLengths::default(), at(15));
        timeline.times.intended = Some(at(10));
        timeline.times.connect_begin = Some(at(15));
        timeline.times.connect_end = Some(at(17));
        timeline.times.first_byte_sent = Some(at(17));
        timeline.times.last_byte_sent = Some(at(18));
        timeline.push(Event::new(at(58), 0, EventKind::Text));
        timeline.outcome = Outcome::Success;
        timeline
    }

    fn shown(timeline: &Timeline) -> Vec<(String, f64)> {
        let mut anatomy = Anatomy::default();
        anatomy.push(timeline);
        anatomy.parts(None).into_iter().map(|part| (part.name, part.mean_ms)).collect()
    }

    #[test]
    fn what_nobody_tells_stays_with_the_server_undivided() {
        let parts = shown(&request());
        let expected = [
            ("client queue", 5.0),
            ("connect", 2.0),
            ("sending the request", 1.0),
            ("rest in the server", 40.0),
        ];
        assert_eq!(parts, expected.map(|(name, mean)| (name.to_owned(), mean)));
    }

    #[test]
    fn what_the_server_reports_is_subtracted_from_the_remainder() {
        let mut timeline = request();
        timeline.network =
            Some(TcpStats { round_trip: Nanos::from_millis(2), ..TcpStats::default() });
        timeline.server_timings = Some(ServerTimings {
            prefill: Some(Nanos::from_millis(30)),
            ..ServerTimings::default()
        });
        let parts = shown(&timeline);
        assert_eq!(parts.last(), Some(&("rest in the server".to_owned(), 8.0)));
        assert!(parts.contains(&("prefill".to_owned(), 30.0)));
    }

    #[test]
    fn failed_requests_have_no_first_token_to_take_apart() {
        let mut timeline = request();
        timeline.outcome = Outcome::Abandoned;
        assert!(shown(&timeline).is_empty());
    }

    #[test]
    fn counters_tell_what_answers_do_not_and_take_no_more_than_there_is() {
        let mut anatomy = Anatomy::default();
        anatomy.push(&request());
        let mean = |queue: f64, prefill: f64, name: &str| {
            let server = ServerFigures {
                queue_ms_mean: Some(queue),
                prefill_ms_mean: Some(prefill),
                ..ServerFigures::default()
            };
            let parts = anatomy.parts(Some(&server));
            parts.into_iter().find(|part| part.name == name).map(|part| part.mean_ms)
        };
        assert_eq!(mean(10.0, 25.0, "server queue"), Some(10.0));
        assert_eq!(mean(10.0, 25.0, "rest in the server"), Some(5.0));
        assert_eq!(mean(10.0, 90.0, "prefill"), Some(30.0));
        assert_eq!(mean(10.0, 90.0, "rest in the server"), Some(0.0));
    }

    #[test]
    fn parts_after_sending_add_up_to_the_mean_time_to_first_token() {
        let mut anatomy = Anatomy::default();
        anatomy.push(&request());
        let mut reused = request();
        (reused.times.connect_begin, reused.times.connect_end) = (None, None);
        anatomy.push(&reused);
        let parts = anatomy.parts(None);
        let within = parts.iter().filter(|part| part.stage == PartStage::Within);
        assert!((within.map(|part| part.mean_ms).sum::<f64>() - 41.0).abs() < 1e-9);
        assert!(parts.iter().any(|part| part.name == "connect" && part.mean_ms < 1.5));
    }
}
