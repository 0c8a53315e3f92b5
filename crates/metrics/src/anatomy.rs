//! Where the time to the first token went, as far as it can be known.
//!
//! In: timelines. Out: mean milliseconds per part, each marked as measured by us, told by the server,
//! or inferred. Parts that nothing tells stay inside `server`, which is what is left over: a guess at
//! how much of it was queue would be a guess.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::{Phase, Timeline};

/// How a part is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// By our own clock.
    Measured,
    /// The server reported it with the answer.
    Told,
    /// From something else, or left over.
    Inferred,
}

/// One part of the time to the first token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What it was spent on.
    pub name: String,
    /// Mean over the requests that have it.
    pub mean_ms: f64,
    /// Share of the whole, from 0 to 1.
    pub share: f64,
    /// How it is known.
    pub known: Known,
}

/// Sums of one part.
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

/// Collects the parts of many requests.
#[derive(Debug, Clone, Default)]
pub struct Anatomy {
    client_queue: Sum,
    connect: Sum,
    send: Sum,
    network: Sum,
    server_queue: Sum,
    prefill: Sum,
    rest: Sum,
    requests: u64,
}

impl Anatomy {
    /// Takes one request; those without content or outside the measured phase have no such time.
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
        self.network.add(round_trip);
        let told = timeline.server_timings.unwrap_or_default();
        self.server_queue.add(told.queue);
        self.prefill.add(told.prefill);
        let known = [round_trip, told.queue, told.prefill].into_iter().flatten();
        let known = known.fold(upload, |sum, span| sum + span);
        self.rest.add(Some((first.at - sent) - known));
    }

    /// The parts in the order of a request's life; those that no request had are left out.
    pub fn parts(&self) -> Vec<Part> {
        let named = [
            ("client queue", self.client_queue, Known::Measured),
            ("connect", self.connect, Known::Measured),
            ("sending the request", self.send, Known::Measured),
            ("network round trip", self.network, Known::Inferred),
            ("server queue", self.server_queue, Known::Told),
            ("prefill", self.prefill, Known::Told),
            ("server, not told apart", self.rest, Known::Inferred),
        ];
        let total: f64 = named.iter().map(|(_, sum, _)| sum.nanos).sum();
        let part = |(name, sum, known): (&str, Sum, Known)| {
            (sum.count > 0).then(|| Part {
                name: name.to_owned(),
                mean_ms: sum.nanos / sum.count as f64 / 1e6,
                share: if total > 0.0 { sum.nanos / total } else { 0.0 },
                known,
            })
        };
        named.into_iter().filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{Asked, Event, EventKind, Identity, Network, Outcome, ServerTimings};

    use super::*;

    fn request() -> Timeline {
        let at = Nanos::from_millis;
        let mut timeline =
            Timeline::new(Identity::new(0, Phase::Measure), Asked::default(), at(15));
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
        anatomy.parts().into_iter().map(|part| (part.name, part.mean_ms)).collect()
    }

    #[test]
    fn what_nobody_tells_stays_with_the_server_undivided() {
        let parts = shown(&request());
        let expected = [
            ("client queue", 5.0),
            ("connect", 2.0),
            ("sending the request", 1.0),
            ("server, not told apart", 40.0),
        ];
        assert_eq!(parts, expected.map(|(name, mean)| (name.to_owned(), mean)));
    }

    #[test]
    fn what_the_server_tells_is_taken_from_what_is_left_over() {
        let mut timeline = request();
        timeline.network =
            Some(Network { round_trip: Nanos::from_millis(2), ..Network::default() });
        timeline.server_timings = Some(ServerTimings {
            prefill: Some(Nanos::from_millis(30)),
            ..ServerTimings::default()
        });
        let parts = shown(&timeline);
        assert_eq!(parts.last(), Some(&("server, not told apart".to_owned(), 8.0)));
        assert!(parts.contains(&("prefill".to_owned(), 30.0)));
    }

    #[test]
    fn failed_requests_have_no_first_token_to_take_apart() {
        let mut timeline = request();
        timeline.outcome = Outcome::Abandoned;
        assert!(shown(&timeline).is_empty());
    }
}
