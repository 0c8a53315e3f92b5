//! What happened to packets on their way.

use super::{MILLI, Scene, class, closed_loop, ms, open_loop};
use crate::notes::NoteCode;
use tokometer_figures::Joined;

#[test]
fn a_first_token_that_shared_its_read_may_have_come_earlier() {
    let check = |is_merged: bool, nanos: f64, code: NoteCode, expected: &str| {
        let mut scene = open_loop();
        for row in &mut scene.rows {
            let by_client = if is_merged { nanos } else { 0.0 };
            row.joined_first = Joined::new(by_client, nanos - by_client);
        }
        let effect = scene.effect(code, "ttft_ms_mean");
        assert_eq!(class(effect), expected, "{nanos}: {effect}");
        assert_eq!(class(scene.effect(code, "e2e_ms_mean")), "remark");
    };
    check(true, 0.5 * MILLI, NoteCode::SlowReads, "remark");
    check(true, 3.0 * MILLI, NoteCode::SlowReads, "SUSPECT");
    check(true, 20.0 * MILLI, NoteCode::SlowReads, "INVALID");
    check(false, 20.0 * MILLI, NoteCode::SharedReads, "INVALID");
    check(false, 20.0 * MILLI, NoteCode::SlowReads, "remark");
}

#[test]
fn a_last_token_that_waited_for_a_proxy_moves_the_time_of_the_whole_request() {
    let check = |nanos: f64, expected: &str| {
        let mut scene = open_loop();
        for row in &mut scene.rows {
            row.joined_last = Joined::new(0.0, nanos);
        }
        let effect = scene.effect(NoteCode::SharedReads, "e2e_ms_mean");
        assert_eq!(class(effect), expected, "{nanos}: {effect}");
        assert!(scene.effect(NoteCode::SharedReads, "tpot_ms_mean") >= effect, "{nanos}");
        assert_eq!(class(scene.effect(NoteCode::SharedReads, "ttft_ms_mean")), "remark");
    };
    check(1.0 * MILLI, "remark");
    check(30.0 * MILLI, "SUSPECT");
    check(100.0 * MILLI, "INVALID");
}

/// So many of 400 requests had retransmissions.
fn lossy(lost: u64) -> Scene {
    let mut scene = open_loop();
    (scene.observed.network_views, scene.observed.retransmitting) = (400, lost);
    scene
}

/// The same with answers of 150 ms, and `slow` ones of 250 ms.
fn lossy_and_short(lost: u64, slow: usize) -> Scene {
    let mut scene = lossy(lost);
    for (nth, row) in scene.rows.iter_mut().enumerate() {
        let nanos = if nth < slow { 250.0 } else { 150.0 } * MILLI;
        (row.ttft, row.e2e) = (Some(nanos).into(), Some(nanos).into());
        row.end = row.start + ms(150);
    }
    scene
}

/// The loss of a request's packet is seen, that of an answer's last packet is not: P99 of E2E was VALID
/// although a retransmission had more than doubled it.
#[test]
fn a_path_that_loses_requests_may_have_delayed_as_many_answers() {
    let check = |lost: u64, figure: &str, expected: &str| {
        let scene = lossy(lost);
        let effect = scene.effect(NoteCode::Retransmits, figure);
        assert_eq!(class(effect), expected, "{lost} {figure}: {effect}");
    };
    check(0, "e2e_ms_p99", "remark");
    check(1, "e2e_ms_p99", "remark");
    // 200 ms of a second, for 1.5 % of the requests.
    check(6, "e2e_ms_p99", "INVALID");
    check(6, "e2e_ms_p90", "remark");
    check(6, "e2e_ms_mean", "remark");
    check(24, "e2e_ms_p90", "INVALID");
    check(24, "e2e_ms_mean", "SUSPECT");
    check(24, "tpot_ms_p99", "remark");
    check(24, "requests_per_s", "remark");
}

/// Probes and early retransmissions of a fast path were taken for waits of 200 ms, in answers of 40 ms.
#[test]
fn an_answer_faster_than_the_shortest_timeout_has_not_waited_for_one() {
    let check = |slow: usize, figure: &str, expected: &str| {
        let scene = lossy_and_short(24, slow);
        let effect = scene.effect(NoteCode::Retransmits, figure);
        assert_eq!(class(effect), expected, "{slow} {figure}: {effect}");
    };
    for figure in ["ttft_ms_mean", "ttft_ms_p99", "e2e_ms_p99", "requests_per_s"] {
        check(0, figure, "remark");
    }
    check(6, "ttft_ms_p99", "INVALID");
    check(6, "ttft_ms_p90", "remark");
    check(6, "e2e_ms_p99", "INVALID");
    check(6, "e2e_ms_mean", "SUSPECT");
}

/// On a long path a loss that a later packet shows costs a round trip or two, also below 200 ms.
#[test]
fn a_loss_on_a_long_path_costs_round_trips_in_short_answers_too() {
    let check = |millis: u64, figure: &str, expected: &str| {
        let mut scene = lossy_and_short(24, 0);
        scene.observed.round_trips = vec![(ms(millis), 0); 400];
        let effect = scene.effect(NoteCode::Retransmits, figure);
        assert_eq!(class(effect), expected, "{millis} ms {figure}: {effect}");
    };
    check(40, "ttft_ms_p99", "INVALID");
    check(40, "ttft_ms_mean", "SUSPECT");
    check(40, "ttft_ms_p50", "remark");
    check(40, "requests_per_s", "remark");
    check(0, "ttft_ms_p99", "remark");
}

#[test]
fn a_last_answer_that_may_have_waited_for_a_lost_packet_moves_the_rate() {
    let mut scene = open_loop();
    scene.observed.network_views = 400;
    scene.rows.last_mut().unwrap().end += ms(2_000);
    assert_eq!(
        class(scene.effect(NoteCode::Retransmits, "requests_per_s")),
        "remark",
        "nothing was lost"
    );
    scene.observed.retransmitting = 6;
    assert_eq!(class(scene.effect(NoteCode::Retransmits, "requests_per_s")), "INVALID");
    assert_eq!(class(scene.effect(NoteCode::Retransmits, "total_output_tokens")), "remark");
    // In a closed loop every wait keeps a slot from the next request.
    let mut scene = closed_loop(1);
    scene.observed.network_views = 400;
    scene.observed.retransmitting = 40;
    assert_eq!(class(scene.effect(NoteCode::Retransmits, "requests_per_s")), "SUSPECT");
}
