//! Times of a run, exact to the nanosecond.

use tokometer_base::Nanos;
use tokometer_schedule::{Arrivals, First, Pace};

use super::faults::check;
use super::platform::CALL_COST;
use super::scenario::Scenario;
use crate::Connections;

/// Many slow streams are read once per interval, and every event still has its arrival time.
#[test]
fn streams_that_are_read_lazily_keep_exact_times() {
    let mut scenario = Scenario::plain(1, 240, 120);
    scenario.tokens = 30;
    scenario.habits.gap = Some(Nanos::from_millis(11));
    let ran = check(&scenario);
    let health = &ran.end.as_ref().unwrap().health;
    assert!(health.lazy_streams > 100, "{} lazy streams", health.lazy_streams);
    assert!(ran.measured().all(tokometer_record::Timeline::is_success));
    assert_eq!(health.stalls.as_deref(), Some(&[][..]), "nothing stalls in virtual time");
    let delay = &health.workers[0].kernel_to_user;
    assert!(delay.max >= Nanos::from_micros(200), "the reads came later than the events");
}

/// Nothing but a stamp and a write is left for the start of a burst: everything else was done before, or
/// follows.
#[test]
fn a_burst_leaves_on_open_connections_with_one_write_per_request() {
    for connections in [Connections::Auto, Connections::Preopen, Connections::PerRequest] {
        let mut scenario = Scenario::plain(3, 200, 200);
        scenario.config.connections = connections;
        let is_capped = connections != Connections::PerRequest;
        scenario.config.limits.max_concurrency =
            scenario.config.limits.max_concurrency.filter(|_| is_capped);
        let ran = scenario.run();
        let begin = ran.end.as_ref().unwrap().measure_begin;
        let mut sends = Vec::new();
        for timeline in ran.measured() {
            let times = &timeline.times;
            assert!(timeline.is_success() && times.connect_begin.is_none(), "{timeline:?}");
            assert_eq!(times.admitted, begin);
            sends.push(times.first_byte_sent.unwrap());
        }
        sends.sort_unstable();
        assert!(sends[0] >= begin && sends.len() == 200);
        let span = *sends.last().unwrap() - sends[0];
        assert_eq!(span, Nanos(199 * CALL_COST.0), "{connections:?}");
    }
}

/// A target that accepts no connection does not keep the run from being ended, and nothing has failed
/// before the start.
#[test]
fn a_burst_whose_connections_never_open_can_be_interrupted() {
    let mut scenario = Scenario::plain(4, 20, 20);
    scenario.listen_at(&[super::server::SILENT]);
    scenario.interrupt_at = Some(Nanos::from_millis(100));
    let ran = scenario.run();
    let end = ran.end.as_ref().unwrap();
    assert_eq!((end.stop, end.never_sent), (tokometer_record::Stop::Interrupted, 20));
    assert_eq!(ran.measured().count(), 0);
}

/// With preopened connections and a free CPU only the system calls lie between the intended time and
/// the send.
#[test]
fn a_pace_is_kept_to_the_cost_of_the_calls() {
    let mut scenario = Scenario::plain(2, 200, 1_000);
    scenario.config.arrivals = Arrivals::Paced(Pace::flat(500.0, Some(1.0), First::Waits));
    scenario.config.connections = Connections::Preopen;
    let ran = check(&scenario);
    let health = &ran.end.as_ref().unwrap().health;
    assert_eq!(health.stalls.as_deref(), Some(&[][..]), "nothing stalls in virtual time");
    assert!(health.pacing_control.len() > 50, "the control thread follows the schedule");
    for timeline in ran.measured() {
        let intended = timeline.times.intended.unwrap();
        let late = timeline.times.first_byte_sent.unwrap() - intended;
        assert!(late < Nanos::from_millis(2), "{late}: {timeline:?}");
    }
}

/// Kernel stamps are wall-clock times. Those that a step of that clock makes impossible are replaced by
/// the user's clock, so that no time of the run moves with it. Nothing reports the step here: the offset
/// is only measured again from time to time.
#[test]
fn a_step_of_the_wall_clock_moves_no_time() {
    let times = |wall_step: Option<(Nanos, i64)>| -> Vec<(u64, Vec<Nanos>)> {
        let mut scenario = Scenario::plain(3, 60, 100);
        scenario.tokens = 20;
        scenario.habits.gap = Some(Nanos::from_millis(10));
        scenario.config.arrivals = Arrivals::Paced(Pace::flat(50.0, Some(1.0), First::Waits));
        scenario.config.connections = Connections::Preopen;
        scenario.wall_step = wall_step;
        let ran = scenario.run();
        let of = |timeline: &tokometer_record::Timeline| {
            assert!(timeline.is_success(), "{timeline:?}");
            let events = timeline.events.iter().map(|event| event.at).collect();
            (timeline.identity.index, events)
        };
        let mut found: Vec<(u64, Vec<Nanos>)> = ran.measured().map(of).collect();
        found.sort();
        let health = &ran.end.as_ref().unwrap().health;
        let steps = health.clock_step_times.as_deref().unwrap();
        assert_eq!(health.clock_steps, u32::from(wall_step.is_some()));
        assert_eq!(steps.is_empty(), wall_step.is_none());
        if let Some((at, _)) = &wall_step {
            assert!(
                steps.iter().all(|step| step.begin <= *at && *at <= step.end),
                "{steps:?} {at}"
            );
        }
        found
    };
    let undisturbed = times(None);
    for seconds in [-30.0, -0.3, 0.3, 30.0] {
        let by = Nanos::from_secs_f64(f64::abs(seconds)).0.cast_signed();
        let by = if seconds < 0.0 { -by } else { by };
        let stepped = times(Some((Nanos::from_millis(700), by)));
        assert_eq!(stepped.len(), undisturbed.len());
        for ((index, events), (_, expected)) in stepped.iter().zip(&undisturbed) {
            for (at, expected) in events.iter().zip(expected) {
                let off = at.signed_since(*expected).abs();
                assert!(off < 2_000_000, "{seconds} s, request {index}: {at} is not {expected}");
            }
        }
    }
}
