//! Steps of the wall clock.

use crate::notes::NoteCode;
use tokometer_record::health::ClockStep;

use super::{MILLI, Scene, class, ms, open_loop};

/// A step at 5 s, when twenty requests are in flight, that made their first tokens late by so much.
fn stepped(late_ms: f64) -> Scene {
    let mut scene = open_loop();
    let step = ClockStep { begin: ms(4_990), end: ms(5_001) };
    scene.health.clock_steps = 1;
    scene.health.clock_step_times = Some(vec![step]);
    for row in &mut scene.rows {
        if row.start <= step.end && row.end >= step.begin {
            row.ttft = row.ttft().map(|ttft| ttft + late_ms * MILLI).into();
        }
    }
    scene
}

/// A run of an hour was INVALID for one step that moved nothing.
#[test]
fn a_step_of_the_clock_is_judged_by_what_the_requests_in_flight_at_it_change() {
    for figure in ["ttft_ms_mean", "ttft_ms_p99", "tpot_ms_p99", "e2e_ms_mean", "requests_per_s"] {
        let effect = stepped(0.0).effect(NoteCode::ClockStep, figure);
        assert_eq!(class(effect), "remark", "{figure}: {effect}");
    }
    // 21 of 400 requests late by 200 ms: 10 % of a mean of 100 ms.
    assert_eq!(class(stepped(200.0).effect(NoteCode::ClockStep, "ttft_ms_mean")), "INVALID");
    assert_eq!(class(stepped(200.0).effect(NoteCode::ClockStep, "ttft_ms_p99")), "INVALID");
    assert_eq!(class(stepped(200.0).effect(NoteCode::ClockStep, "e2e_ms_mean")), "remark");
}

#[test]
fn a_step_at_an_unknown_time_or_during_most_requests_has_no_bound() {
    let check = |times: Option<Vec<ClockStep>>| {
        let mut scene = open_loop();
        scene.health.clock_steps = 1;
        scene.health.clock_step_times = times;
        assert_eq!(class(scene.effect(NoteCode::ClockStep, "e2e_ms_p50")), "INVALID");
        assert_eq!(class(scene.effect(NoteCode::ClockStep, "requests_per_s")), "remark");
    };
    check(None);
    check(Some(vec![ClockStep { begin: ms(0), end: ms(15_000) }]));
}

/// 21 requests were in flight, so up to 42 gaps are wrong: more than half of 1 % of 4,000.
#[test]
fn wrong_gaps_may_decide_a_percentile_of_few_gaps() {
    let check = |gaps: u64, figure: &str, expected: &str| {
        let mut scene = stepped(0.0);
        scene.gaps = Some(gaps);
        let effect = scene.effect(NoteCode::ClockStep, figure);
        assert_eq!(class(effect), expected, "{gaps} {figure}");
    };
    check(4_000, "gap_ms_p99", "INVALID");
    check(4_000, "gap_ms_p90", "remark");
    check(4_000, "gap_ms_mean", "remark");
    check(40_000, "gap_ms_p99", "remark");
}
