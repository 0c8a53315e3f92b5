//! Which requests a delay touches, and what follows from leaving them out.

use crate::notes::NoteCode;
use tokometer_base::Nanos;
use tokometer_record::health::{ThreadStall, WorkerHealth};
use tokometer_record::{Health, RecordedLoad};

use super::{MILLI, Scene, burst, class, closed_loop, delay, ms, open_loop, stalled};
use crate::effects::touched::{Delay, leave_out};
use tokometer_figures::rows::{RequestRow, TimeSpan};
use tokometer_figures::testing;

fn span(begin: u64, end: u64) -> TimeSpan {
    TimeSpan { begin: ms(begin), end: ms(end) }
}

/// Six of ten requests overlap a delay of 6 ms, two one of 30 ms: leaving out most of a run says nothing
/// about the rest, so only the longer delay counts.
#[test]
fn where_most_requests_would_be_left_out_only_longer_delays_count() {
    let rows: Vec<RequestRow> =
        (0..10).map(|at| testing::row(at, ms(at * 100), ms(at * 100 + 50))).collect();
    let short = Delay { length: ms(6), span: span(0, 520) };
    let long = Delay { length: ms(30), span: span(800, 920) };
    let found = leave_out(&rows, [short, long]);
    assert_eq!((found.count, found.longest_kept), (2, ms(10)));
    assert!(found.is_touched[8] && found.is_touched[9]);
    let found = leave_out(&rows, [short]);
    assert_eq!((found.count, found.longest_kept), (0, ms(6)), "nothing is left out");
    let brief = Delay { length: ms(6), span: span(0, 420) };
    assert_eq!(leave_out(&rows, [brief]).count, 5);
}

#[test]
fn a_request_that_waits_during_a_stall_is_touched_by_it() {
    let mut late = testing::row(0, ms(0), ms(50));
    delay(&mut late, ms(200));
    let after = testing::row(1, ms(300), ms(350));
    let stall = Delay { length: ms(100), span: span(60, 160) };
    let rows = [late, after.clone(), after.clone(), after];
    let found = leave_out(&rows, [stall]);
    assert_eq!(found.is_touched, [true, false, false, false]);
}

/// What was held back is in the server together until its first tokens come: a request that is sent in
/// that time meets all of it.
#[test]
fn requests_sent_behind_late_ones_are_touched_until_their_first_tokens() {
    let mut scene = stalled(1.0);
    let behind = |row: &&mut RequestRow| (ms(11_001)..ms(11_090)).contains(&row.start);
    for row in scene.rows.iter_mut().filter(behind) {
        row.ttft = Some(4_000.0 * MILLI).into();
    }
    assert_eq!(class(scene.effect(NoteCode::LateSends, "ttft_ms_mean")), "INVALID");
}

/// They also decode together until they end, and with them what is sent after their first tokens.
#[test]
fn the_pace_of_requests_that_share_their_steps_with_late_ones_is_touched_until_these_end() {
    let mut scene = stalled(1.0);
    let beside = |row: &&mut RequestRow| (ms(11_200)..ms(11_900)).contains(&row.start);
    for row in scene.rows.iter_mut().filter(beside) {
        row.tpot = Some(14.0 * MILLI).into();
    }
    assert_eq!(class(scene.effect(NoteCode::LateSends, "tpot_ms_p99")), "INVALID");
    assert_eq!(class(scene.effect(NoteCode::LateSends, "ttft_ms_p99")), "remark");
}

/// The first requests of a closed loop fill its slots one after another, which is no refill.
#[test]
fn filling_the_slots_is_no_late_refill() {
    let mut scene = closed_loop(0);
    for row in &mut scene.rows[..10] {
        row.ttft = Some(900.0 * MILLI).into();
    }
    assert_eq!(class(scene.effect(NoteCode::SlowRefill, "ttft_ms_mean")), "remark");
}

/// The slowest of 100 requests happens to lie in a stall; without an interval of P99 that is chance.
#[test]
fn a_percentile_without_an_interval_is_not_moved_by_one_request() {
    let mut scene = stalled(1.0);
    scene.rows = scene.rows.split_off(150);
    scene.rows.truncate(100);
    let slowest = scene.rows.iter_mut().find(|row| row.lateness() > Nanos::ZERO).unwrap();
    slowest.ttft = Some(150.0 * MILLI).into();
    assert_eq!(class(scene.effect(NoteCode::LateSends, "ttft_ms_p99")), "remark");
}

/// While requests keep coming, a stall delays them and not the end of the run.
#[test]
fn a_stall_moves_the_rate_of_an_open_loop_only_at_its_end() {
    let rate = |mut scene: Scene, at: u64| {
        scene.health.is_same_host = Some(true);
        scene.health.stalls = Some(vec![ThreadStall { begin: ms(at), end: ms(at + 800) }]);
        scene.effect(NoteCode::Stalls, "requests_per_s")
    };
    assert!(rate(open_loop(), 5_000) <= 0.0);
    assert_eq!(class(rate(open_loop(), 19_500)), "SUSPECT");
    assert_eq!(class(rate(closed_loop(0), 5_000)), "SUSPECT");
}

#[test]
fn a_stall_before_a_request_was_due_does_not_explain_its_lateness() {
    let mut scene = stalled(1.0);
    scene.health.stalls = Some(vec![ThreadStall { begin: ms(1_000), end: ms(9_000) }]);
    assert_eq!(scene.effects().late_in_stalls(), Some(0.0));
}

/// A burst that took half a second to send left the server with less to decode meanwhile.
#[test]
fn the_speed_of_a_burst_is_bounded_by_the_load_that_was_held_back() {
    let effect = burst(500).effect(NoteCode::LateSends, "tpot_ms_mean");
    assert!(effect > 0.01 && effect < 0.05, "{effect}");
}

/// Behind a concurrency cap the rate is the server's, not the client's.
#[test]
fn a_missed_rate_counts_without_a_cap_only() {
    let effect = |max_concurrency: Option<u32>| {
        let mut scene = open_loop();
        scene.load = RecordedLoad { max_concurrency, ..scene.load };
        scene.observed.sends.judged = 400;
        (scene.observed.first_due, scene.observed.last_due) = (Some(ms(0)), Some(ms(20_000)));
        (scene.observed.first_send, scene.observed.last_send) = (Some(ms(0)), Some(ms(22_000)));
        for (index, row) in (0..).zip(&mut scene.rows) {
            row.start = ms(index * 55);
        }
        scene.effect(NoteCode::RateMissed, "ttft_ms_mean")
    };
    assert_eq!((class(effect(None)), class(effect(Some(10)))), ("INVALID", "remark"));
}

/// A connection whose first packet was lost made the last request 2 s late: all latencies were INVALID, and
/// the rate of the run, which ended later, was VALID.
#[test]
fn a_late_last_request_is_no_missed_rate_but_a_longer_run() {
    let mut scene = open_loop();
    scene.observed.sends.judged = 400;
    (scene.observed.first_due, scene.observed.last_due) = (Some(ms(0)), Some(ms(20_000)));
    (scene.observed.first_send, scene.observed.last_send) = (Some(ms(0)), Some(ms(22_000)));
    let last = scene.rows.last_mut().unwrap();
    (last.start, last.end) = (last.start + ms(2_000), last.end + ms(2_000));
    (scene.observed.network_views, scene.observed.retransmitting) = (400, 7);
    assert_eq!(class(scene.effect(NoteCode::RateMissed, "ttft_ms_mean")), "remark");
    assert_eq!(class(scene.effect(NoteCode::Retransmits, "requests_per_s")), "INVALID");
    // The wait for a slot behind a cap is the server's.
    scene.load = RecordedLoad { max_concurrency: Some(10), ..scene.load };
    assert_eq!(class(scene.effect(NoteCode::Retransmits, "requests_per_s")), "remark");
}

/// Kernel timestamps do not wait for the reading thread.
#[test]
fn waiting_for_a_cpu_moves_times_that_user_space_takes() {
    let effect = |kernel_stamped: u64| {
        let mut scene = open_loop();
        (scene.observed.user_stamped, scene.observed.kernel_stamped) = (400, kernel_stamped);
        let worker = WorkerHealth { run_queue_delay: Some(ms(3_000)), ..WorkerHealth::default() };
        scene.health = Health { workers: vec![worker], ..Health::default() };
        scene.effect(NoteCode::StarvedClient, "ttft_ms_mean")
    };
    assert_eq!((class(effect(0)), class(effect(1))), ("INVALID", "remark"));
}
