//! Time that the server's own clock does not contain.

use super::{Scene, class, closed_loop, ms, open_loop};
use crate::notes::NoteCode;
use tokometer_figures::server::ServerFigures;

/// The same run, whose server counted so many requests with this mean E2E.
fn counted(scene: Scene, requests: f64, mean_ms: f64) -> Scene {
    let server = ServerFigures {
        is_whole: true,
        e2e_ms_mean: Some(mean_ms),
        e2e_requests: Some(requests),
        ..ServerFigures::default()
    };
    Scene { server: Some(server), ..scene }
}

#[test]
fn time_outside_the_server_is_an_effect_on_whole_requests_above_what_an_http_layer_takes() {
    let check = |mean_ms: f64, expected: &str| {
        let scene = counted(open_loop(), 400.0, mean_ms);
        for figure in ["e2e_ms_mean", "e2e_ms_p50", "e2e_ms_p99", "concurrency"] {
            let effect = scene.effect(NoteCode::OutsideServer, figure);
            assert_eq!(class(effect), expected, "{mean_ms}, {figure}: {effect}");
        }
        for figure in ["ttft_ms_mean", "tpot_ms_mean", "requests_per_s", "total_output_tokens"] {
            assert!(scene.effect(NoteCode::OutsideServer, figure) == 0.0, "{figure}");
        }
    };
    check(960.0, "remark");
    check(940.0, "INVALID");
    // A server that counts its work after the last text is no effect.
    check(1_100.0, "remark");
}

#[test]
fn first_tokens_are_an_effect_above_a_fifth() {
    let effect = |mean_ms: f64| {
        let mut scene = counted(open_loop(), 400.0, 1_000.0);
        scene.server.as_mut().unwrap().ttft_ms_mean = Some(mean_ms);
        assert!(scene.effect(NoteCode::OutsideServer, "e2e_ms_mean") == 0.0);
        scene.effect(NoteCode::OutsideServer, "ttft_ms_p50")
    };
    assert!(effect(86.0) == 0.0, "14 ms of 86 may be the server's HTTP layer");
    assert!((effect(50.0) - 1.0).abs() < 0.1, "50 ms of 50");
}

#[test]
fn the_rate_of_a_closed_loop_follows_the_time_outside_the_server() {
    let scene = closed_loop(0);
    let requests = scene.rows.len() as f64;
    let scene = counted(scene, requests, 1.0);
    assert_eq!(class(scene.effect(NoteCode::OutsideServer, "requests_per_s")), "INVALID");
}

#[test]
fn a_round_trip_is_part_of_every_request() {
    let mut scene = counted(open_loop(), 400.0, 940.0);
    scene.observed.round_trips = (0..400).map(|index| (ms(30), index)).collect();
    assert!(scene.effect(NoteCode::OutsideServer, "e2e_ms_mean") == 0.0);
}

#[test]
fn a_mean_about_other_requests_is_not_compared() {
    let scene = counted(open_loop(), 410.0, 500.0);
    assert!(scene.effect(NoteCode::OutsideServer, "e2e_ms_mean") == 0.0);
    let mut scene = counted(open_loop(), 400.0, 500.0);
    scene.server.as_mut().unwrap().is_whole = false;
    assert!(scene.effect(NoteCode::OutsideServer, "e2e_ms_mean") == 0.0);
    // One that the last scrape did not have yet.
    assert!(
        counted(open_loop(), 399.0, 500.0).effect(NoteCode::OutsideServer, "e2e_ms_mean") > 0.4
    );
}
