//! Whether a finished point of an open loop left the server behind.
//!
//! A point at many times the capacity is over within seconds, before the number in flight can show a
//! trend, and the speed of each token may meet its objective all the while: what grows is the wait for
//! the first token.

use tokometer_figures::statistics;
use tokometer_record::Timeline;

use crate::slo::WaitLimit;

/// Fewer requests show no trend.
const LEAST_REQUESTS: usize = 40;
/// Seconds by which the wait may grow per second in a long point, and what a point of one second may show more.
const LEAST_GROWTH: f64 = 0.01;
const GROWTH_OF_A_SECOND: f64 = 1.0;
/// The same in any point: a server that serves 85 % of the arrivals lets the wait grow by this much.
const MOST_GROWTH: f64 = 0.18;
/// A growth is more than chance when it exceeds its standard error this many times.
const FAR: f64 = 4.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitTrend {
    /// As long at the end as before, or too few to tell.
    Steady,
    Growing,
}

/// Whether requests waited ever longer for their first token, counted from the intended time, in the last half
/// of those that were sent. A constant wait, however long, is none. Never for a closed loop, whose requests
/// have no intended time, nor where an objective limits the wait: that finds such a load by itself.
pub fn wait_trend(timelines: &[Timeline], wait: WaitLimit) -> WaitTrend {
    let mut waits: Vec<(f64, f64)> = timelines.iter().filter_map(waited).collect();
    if waits.len() < LEAST_REQUESTS || wait == WaitLimit::Limited {
        return WaitTrend::Steady;
    }
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let seconds = waits[waits.len() - 1].0 - waits[0].0;
    let most = MOST_GROWTH.min(LEAST_GROWTH + GROWTH_OF_A_SECOND / seconds);
    let late = &waits[waits.len() / 2..];
    let (third, fourth) = late.split_at(late.len() / 2);
    let (Some(from), Some(to)) = (WaitPart::of(third), WaitPart::of(fourth)) else {
        return WaitTrend::Steady;
    };
    let grown = to.wait - from.wait;
    let error = (from.error_squared + to.error_squared).sqrt();
    let is_growing = grown > FAR * error && grown > most * (to.due - from.due);
    if is_growing { WaitTrend::Growing } else { WaitTrend::Steady }
}

/// The intended time of a request and its wait for the first token, in seconds.
fn waited(timeline: &Timeline) -> Option<(f64, f64)> {
    let due = timeline.times.intended?;
    let first = timeline.first_content().map(|event| event.at).or(timeline.times.end)?;
    timeline.is_success().then(|| (due.as_secs_f64(), (first - due).as_secs_f64()))
}

/// Means of a part of the requests.
struct WaitPart {
    due: f64,
    wait: f64,
    /// Of the mean wait.
    error_squared: f64,
}

impl WaitPart {
    fn of(part: &[(f64, f64)]) -> Option<Self> {
        let dues: Vec<f64> = part.iter().map(|(due, _)| *due).collect();
        let waits: Vec<f64> = part.iter().map(|(_, wait)| *wait).collect();
        Some(Self {
            due: statistics::mean(&dues)?,
            wait: statistics::mean(&waits)?,
            error_squared: statistics::variance(&waits)? / waits.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;
    use tokometer_record::{AttemptId, Event, EventKind, Outcome, Phase, RequestedLengths};

    use super::*;

    /// `count` requests, one every 10 ms, whose first token comes after `wait` seconds.
    fn sent(count: u64, wait: impl Fn(f64) -> f64) -> Vec<Timeline> {
        let timeline = |index: u64| {
            let due = Nanos::from_millis(10 * index);
            let first = due + Nanos::from_secs_f64(wait(due.as_secs_f64()));
            let identity = AttemptId::new(index, Phase::Measure);
            let mut timeline = Timeline::new(identity, RequestedLengths::default(), due);
            timeline.times.intended = Some(due);
            timeline.times.end = Some(first + Nanos::from_secs(1));
            timeline.push(Event::new(first, 0, EventKind::Text));
            timeline.outcome = Outcome::Success;
            timeline
        };
        (0..count).map(timeline).collect()
    }

    fn grows(timelines: &[Timeline]) -> bool {
        wait_trend(timelines, WaitLimit::Free) == WaitTrend::Growing
    }

    #[test]
    fn waits_that_grow_with_the_arrivals_show_a_server_that_is_left_behind() {
        assert!(grows(&sent(600, |due| due * 90.0)), "4,096 instead of 45 req/s");
        assert!(grows(&sent(600, |due| due * 0.4)));
        assert!(
            !grows(&sent(600, |due| due * 0.1)),
            "5 to 10 % too much is chance in a short point"
        );
    }

    #[test]
    fn a_long_wait_that_stays_is_none() {
        assert!(!grows(&sent(600, |_| 30.0)));
        // The queue fills at first.
        assert!(!grows(&sent(600, |due| due.min(2.0) * 3.0)));
    }

    #[test]
    fn few_requests_and_single_slow_ones_show_nothing() {
        assert!(!grows(&sent(39, |due| due * 90.0)));
        assert!(!grows(&sent(80, |due| if due > 0.785 { 60.0 } else { 0.1 })));
    }

    #[test]
    fn a_closed_loop_has_no_backlog() {
        let mut closed = sent(600, |due| due * 90.0);
        for timeline in &mut closed {
            timeline.times.intended = None;
        }
        assert!(!grows(&closed));
    }

    /// 10 % too much let the wait grow by a tenth of the time, which a long point shows.
    #[test]
    fn a_longer_point_shows_a_smaller_growth_unless_an_objective_limits_the_wait() {
        let check = |wait: WaitLimit, count: u64, expected: WaitTrend| {
            let sent = sent(count, |due| due * 0.1);
            assert_eq!(wait_trend(&sent, wait), expected, "{wait:?} {count}");
        };
        check(WaitLimit::Free, 4_000, WaitTrend::Growing);
        check(WaitLimit::Free, 600, WaitTrend::Steady);
        check(WaitLimit::Limited, 4_000, WaitTrend::Steady);
    }
}
