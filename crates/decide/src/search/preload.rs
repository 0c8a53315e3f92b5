//! The beginning of a point that does not count: an empty server is fast.
//!
//! A point sends its load from the first second, and its requests count from the time at which the
//! number in flight has become flat. That is when it first reaches its mean over the second half of
//! the point: a queue near its limit fills up slowly, and no fixed time fits all servers.

use tokometer_base::Nanos;
use tokometer_figures::rows::TimeSpan;
use tokometer_figures::statistics;
use tokometer_record::{Phase, Timeline};

/// A point is longer by this share, for what is discarded.
const EXTRA: f64 = 0.25;
/// At most this share of a point is discarded: an overloaded server is never flat.
const MOST: f64 = 0.5;

/// The time for which load is sent, so that about `counted` remains.
pub fn with_preload(counted: Nanos) -> Nanos {
    Nanos::from_secs_f64(counted.as_secs_f64() * (1.0 + EXTRA))
}

/// When a request was in flight, or another part of a run.
#[derive(Debug, Clone, Copy)]
struct FlightSpan {
    begin: Nanos,
    end: Nanos,
}

impl FlightSpan {
    fn length_s(self) -> f64 {
        (self.end - self.begin).as_secs_f64()
    }
}

/// Marks the measured requests that began before the number in flight was flat as warm-up, and returns
/// the time from then until the last was sent: the load fills up before it and drains behind it. `None`
/// without any request.
pub fn discard_preload(timelines: &mut [Timeline]) -> Option<TimeSpan> {
    let begin = |one: &Timeline| one.times.first_byte_sent.unwrap_or(one.times.admitted);
    let flights: Vec<FlightSpan> = timelines
        .iter()
        .filter(|one| one.identity.phase == Phase::Measure)
        .map(|one| FlightSpan {
            begin: begin(one),
            end: one.times.end.unwrap_or_else(|| begin(one)),
        })
        .collect();
    let from = flat_from(&flights)?;
    for one in timelines.iter_mut().filter(|one| one.identity.phase == Phase::Measure) {
        if begin(one) < from {
            one.identity.phase = Phase::Warmup;
        }
    }
    let end = flights.iter().map(|flight| flight.begin).max()?;
    Some(TimeSpan { begin: from, end })
}

fn flat_from(flights: &[FlightSpan]) -> Option<Nanos> {
    let first = flights.iter().map(|flight| flight.begin).min()?;
    let last = flights.iter().map(|flight| flight.begin).max()?;
    let middle = first + Nanos::from_secs_f64((last - first).as_secs_f64() * MOST);
    let lengths: Vec<f64> = flights.iter().map(|flight| flight.length_s()).collect();
    // Before the first requests have ended, no number in flight can be the usual one.
    let settled = first + Nanos::from_secs_f64(statistics::mean(&lengths)?);
    let level = mean_in_flight(flights, FlightSpan { begin: middle, end: last });
    Some(reached(flights, level).unwrap_or(middle).max(settled).min(middle))
}

/// Over this part of the point; zero for a part without length.
fn mean_in_flight(flights: &[FlightSpan], part: FlightSpan) -> f64 {
    let inside = |flight: &FlightSpan| {
        let both =
            FlightSpan { begin: flight.begin.max(part.begin), end: flight.end.min(part.end) };
        both.length_s()
    };
    let sum: f64 = flights.iter().map(inside).sum();
    if part.length_s() > 0.0 { sum / part.length_s() } else { 0.0 }
}

/// When so many were first in flight.
fn reached(flights: &[FlightSpan], level: f64) -> Option<Nanos> {
    let begins = flights.iter().map(|flight| (flight.begin, 1_i64));
    let ends = flights.iter().map(|flight| (flight.end, -1_i64));
    let mut changes: Vec<(Nanos, i64)> = begins.chain(ends).collect();
    changes.sort_unstable();
    let mut count = 0;
    changes.into_iter().find_map(|(at, change)| {
        count += change;
        (count as f64 >= level).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, RequestedLengths};

    use super::*;

    fn flights(of: impl Iterator<Item = (f64, f64)>) -> Vec<FlightSpan> {
        of.map(|(begin, length)| FlightSpan {
            begin: Nanos::from_secs_f64(begin),
            end: Nanos::from_secs_f64(begin + length),
        })
        .collect()
    }

    #[test]
    fn the_start_lasts_until_as_many_are_in_flight_as_later_on() {
        // One request per second; each takes ten seconds: ten in flight from the tenth second on.
        let even = flights((0..100).map(|at| (f64::from(at), 10.0)));
        let from = flat_from(&even).unwrap().as_secs_f64();
        assert!((9.0..=11.0).contains(&from), "{from}");
        // A queue that fills up slowly: from 2 s in flight to 20 s over fifty seconds.
        let slow = flights((0..200).map(|at| {
            let at = f64::from(at);
            (at, 2.0 + 18.0 * (at / 50.0).min(1.0))
        }));
        let from = flat_from(&slow).unwrap().as_secs_f64();
        assert!((40.0..=75.0).contains(&from), "{from}");
    }

    /// Ten requests at once are as many as later on, but none of them has met a full server.
    #[test]
    fn the_start_lasts_at_least_a_mean_time_in_flight() {
        let waves = flights((0..400).map(|at| (f64::from(at / 10) * 5.0, 5.0)));
        assert_eq!(flat_from(&waves), Some(Nanos::from_secs(5)));
    }

    #[test]
    fn at_most_half_of_a_point_is_discarded() {
        let growing = flights((0..100).map(|at| (f64::from(at), f64::from(at))));
        assert!(flat_from(&growing).unwrap() <= Nanos::from_secs(50));
        let single = flights(std::iter::once((3.0, 1.0)));
        assert_eq!(flat_from(&single), Some(Nanos::from_secs(3)));
        assert_eq!(flat_from(&[]), None);
    }

    #[test]
    fn discarded_requests_become_warm_up_and_warm_up_stays() {
        let request = |index: u64, at: u64, phase| {
            let sent = Nanos::from_secs(at);
            let identity = AttemptId::new(index, phase);
            let mut timeline = Timeline::new(identity, RequestedLengths::default(), sent);
            timeline.times.first_byte_sent = Some(sent);
            timeline.times.end = Some(sent + Nanos::from_secs(5));
            timeline
        };
        let mut timelines: Vec<Timeline> =
            (0..40).map(|at| request(at, at, Phase::Measure)).collect();
        timelines.push(request(40, 39, Phase::Warmup));
        let window = discard_preload(&mut timelines).unwrap();
        assert_eq!(window.end, Nanos::from_secs(39));
        let from = window.begin;
        let measured = timelines.iter().filter(|one| one.identity.phase == Phase::Measure);
        assert_eq!(measured.count() as u64, 40 - from.0 / 1_000_000_000);
        assert!(from >= Nanos::from_secs(4) && from <= Nanos::from_secs(6), "{from}");
    }
}
