//! Each rule at its thresholds, in both directions, on records made by hand.

mod clock;
mod delays;
mod held;
mod marks;
mod outside;
mod path;

use crate::notes::NoteCode;
use proptest::prelude::*;
use tokometer_base::Nanos;
use tokometer_record::health::ThreadStall;
use tokometer_record::{Health, RecordedLoad, RunInfo};

use crate::effects::Effects;
use crate::limits::{INVALID_ABOVE, SUSPECT_ABOVE};
use tokometer_figures::interval::ConfidenceInterval;
use tokometer_figures::observe::Observed;
use tokometer_figures::rows::RequestRow;
use tokometer_figures::sample::Sample;
use tokometer_figures::server::ServerFigures;
use tokometer_figures::steady::LoadClass;
use tokometer_figures::summary::{Counts, Distribution, PercentileValue, Summary};
use tokometer_figures::{Unjudged, testing};

const MILLI: f64 = 1e6;

fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// A run of rows, and what follows from it.
struct Scene {
    rows: Vec<RequestRow>,
    load: RecordedLoad,
    health: Health,
    observed: Observed,
    server: Option<ServerFigures>,
    /// Gaps between tokens, of which the report shows the same values as of TPOT.
    gaps: Option<u64>,
}

impl Scene {
    /// The bound of a cause's effect on a figure; zero without one.
    fn effect(&self, code: NoteCode, figure: &str) -> f64 {
        let effects = self.effects();
        effects.of_figure(figure).filter(|(found, _)| *found == code).map(|(_, share)| share).sum()
    }

    fn effects(&self) -> Effects {
        let info = testing::info(self.load.clone());
        let end = self.rows.iter().map(|row| row.end).max().unwrap();
        let mut summary = Summary {
            duration_s: Some(end.as_secs_f64()),
            load_class: LoadClass::of(&self.load),
            counts: Counts { succeeded: self.rows.len() as u64, ..Counts::default() },
            server: self.server.clone(),
            figures: ["requests_per_s", "concurrency", "total_output_tokens"]
                .map(|key| (key.to_owned(), Some(20.0)))
                .into(),
            ..Summary::default()
        };
        let mut add = |key: &str, value: fn(&RequestRow) -> Option<f64>| {
            let sample: Sample = self.rows.iter().filter_map(value).collect();
            let ordered = sample.into_ordered();
            let percentile = |percent: f64| PercentileValue {
                percent,
                value: ordered.percentile(percent).map(|value| value / MILLI),
                above: None,
                interval: ConfidenceInterval::default(),
                is_supported: true,
            };
            let found = Distribution {
                count: self.rows.len() as u64,
                mean: ordered.mean().map(|mean| mean / MILLI),
                percentiles: [50.0, 90.0, 99.0].map(percentile).into(),
                ..Distribution::default()
            };
            summary.distributions.insert(key.to_owned(), found);
        };
        add("ttft_ms", RequestRow::ttft);
        add("tpot_ms", RequestRow::tpot);
        add("e2e_ms", RequestRow::e2e);
        add("ttft_from_intended_ms", |row| Some(row.ttft()? + (row.start - row.due).0 as f64));
        if let Some(count) = self.gaps {
            let gaps = Distribution { count, ..summary.distributions["tpot_ms"].clone() };
            summary.distributions.insert("gap_ms".to_owned(), gaps);
        }
        Effects::measure(&Unjudged {
            rows: self.rows.clone(),
            observed: self.observed.clone(),
            ..unjudged(&summary, &info, Some(&self.health))
        })
    }
}

fn unjudged(summary: &Summary, info: &RunInfo, health: Option<&Health>) -> Unjudged {
    Unjudged {
        summary: summary.clone(),
        info: info.clone(),
        rows: Vec::new(),
        health: health.cloned(),
        observed: Observed::default(),
        unsteady: None,
        overload: None,
        parts: Vec::new(),
    }
}

/// 400 requests of one second, one every 50 ms, whose first token takes 95 to 105 ms.
fn open_loop() -> Scene {
    let rows = (0..400).map(|index| timed(index, ms(index * 50), ms(1_000))).collect();
    Scene {
        rows,
        load: testing::load(Some(20.0), 400),
        health: Health::default(),
        observed: Observed::default(),
        server: None,
        gaps: None,
    }
}

fn timed(index: u64, start: Nanos, length: Nanos) -> RequestRow {
    let scatter = (index * 7_919 % 11) as f64 - 5.0;
    let mut row = testing::row(index, start, start + length);
    row.ttft = Some((100.0 + scatter) * MILLI).into();
    row.tpot = Some((10.0 + scatter / 10.0) * MILLI).into();
    row.e2e = Some(length.0 as f64).into();
    row
}

/// Sends a request late, with its latencies from the send unchanged.
fn delay(row: &mut RequestRow, late: Nanos) {
    row.start += late;
    row.end += late;
    *row = row.clone().with_lateness(Some(late));
}

fn class(effect: f64) -> &'static str {
    match effect {
        effect if effect > INVALID_ABOVE => "INVALID",
        effect if effect > SUSPECT_ABOVE => "SUSPECT",
        _ => "remark",
    }
}

/// Twenty requests are in flight, each for a second: 10 ms of lateness hold back 1 % of the load, which
/// moves a latency by half as much.
#[test]
fn even_lateness_is_judged_by_the_share_of_the_load_that_it_holds_back() {
    let check = |late: u64, expected: &str| {
        let mut scene = open_loop();
        scene.rows.iter_mut().for_each(|row| delay(row, ms(late)));
        for figure in ["ttft_ms_mean", "ttft_ms_p99", "tpot_ms_mean", "e2e_ms_p90"] {
            let effect = scene.effect(NoteCode::LateSends, figure);
            assert_eq!(class(effect), expected, "{late} ms, {figure}: {effect}");
        }
        // The same number of requests took 0.4 s longer at most.
        assert!(scene.effect(NoteCode::LateSends, "requests_per_s") < 0.02);
    };
    check(2, "remark");
    check(20, "remark");
    check(24, "SUSPECT");
    check(100, "SUSPECT");
    check(112, "INVALID");
    check(400, "INVALID");
}

/// A stall of a second: what waited is sent at once.
fn stalled(first_token_factor: f64) -> Scene {
    let mut scene = open_loop();
    for row in scene.rows.iter_mut().filter(|row| (ms(10_000)..ms(11_000)).contains(&row.start)) {
        delay(row, ms(11_000) - row.start);
        row.ttft = row.ttft().map(|ttft| ttft * first_token_factor).into();
    }
    scene
}

#[test]
fn a_stall_whose_requests_are_as_fast_as_the_others_leaves_the_figures_standing() {
    let scene = stalled(1.0);
    for figure in ["ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p99", "e2e_ms_mean", "requests_per_s"] {
        assert_eq!(class(scene.effect(NoteCode::LateSends, figure)), "remark", "{figure}");
    }
    // From the intended time they were slow, whatever the server did.
    assert_eq!(class(scene.effect(NoteCode::LateSends, "ttft_from_intended_ms_p99")), "INVALID");
}

#[test]
fn a_stall_whose_requests_queue_moves_the_figures_that_they_are_part_of() {
    let check = |factor: f64, figure: &str, expected: &str| {
        let effect = stalled(factor).effect(NoteCode::LateSends, figure);
        assert_eq!(class(effect), expected, "{factor} times, {figure}: {effect}");
    };
    // Twenty of 400 requests: twice as slow, they move the mean by 5 % and the tail by half.
    check(1.15, "ttft_ms_mean", "remark");
    check(1.5, "ttft_ms_mean", "SUSPECT");
    check(3.0, "ttft_ms_mean", "INVALID");
    check(3.0, "ttft_ms_p99", "INVALID");
    check(3.0, "ttft_ms_p50", "remark");
    check(3.0, "tpot_ms_mean", "remark");
}

/// A stop of 300 ms moved the median of TTFT by 4 % and P99 by 89 %; P90, off by 8.7 %, was called VALID,
/// because it moved less than leaving out as many others would move it.
#[test]
fn a_percentile_between_two_that_a_stall_moved_is_moved_too() {
    let mut scene = stalled(1.0);
    for (index, row) in (0_u64..).zip(&mut scene.rows) {
        let is_late = (200..220).contains(&index);
        let millis = match (is_late, index % 4) {
            // Most of them lie between the median and P90, the others beyond P99.
            (true, 0) => 400.0,
            (true, _) => 165.0,
            (false, _) => 100.0 + (index * 7_919 % 400) as f64 / 4.0,
        };
        row.ttft = Some(millis * MILLI).into();
    }
    let [median, p90, p99] = ["p50", "p90", "p99"]
        .map(|one| scene.effect(NoteCode::LateSends, &format!("ttft_ms_{one}")));
    assert_eq!((class(median), class(p99)), ("SUSPECT", "INVALID"), "{median} {p99}");
    assert!((p90 - median).abs() < 1e-12, "{p90} is not {median}");
    assert_eq!(class(scene.effect(NoteCode::LateSends, "tpot_ms_p90")), "remark");
}

#[test]
fn lateness_at_the_end_makes_the_run_longer() {
    let check = |late: u64, expected: &str| {
        let mut scene = open_loop();
        delay(scene.rows.last_mut().unwrap(), ms(late));
        let effect = scene.effect(NoteCode::LateSends, "requests_per_s");
        assert_eq!(class(effect), expected, "{late} ms: {effect}");
    };
    check(100, "remark");
    check(400, "SUSPECT");
    check(2_000, "INVALID");
}

/// 512 requests that took some time to send; their first tokens come over four seconds.
fn burst(millis: u64) -> Scene {
    let row = |index: u64| {
        let start = Nanos(millis * 1_000_000 / 512 * index);
        let ttft = ms(4_000) - start;
        let mut row = timed(index, start, ms(8_000) - start);
        row.ttft = Some(ttft.0 as f64).into();
        row
    };
    Scene {
        rows: (0..512).map(row).collect(),
        load: testing::load(None, 512),
        health: Health::default(),
        observed: Observed::default(),
        server: None,
        gaps: None,
    }
}

#[test]
fn a_burst_is_judged_by_the_time_it_took_to_send() {
    let check = |millis: u64, expected: &str| {
        let scene = burst(millis);
        let effect = scene.effect(NoteCode::LateSends, "ttft_ms_mean");
        assert_eq!(class(effect), expected, "{millis} ms: {effect}");
    };
    check(100, "remark");
    check(500, "SUSPECT");
    check(2_000, "INVALID");
    assert_eq!(class(burst(500).effect(NoteCode::LateSends, "total_output_tokens")), "remark");
    assert_eq!(class(burst(10).effect(NoteCode::LateSends, "requests_per_s")), "remark");
}

/// A burst of 512 with first tokens within 50 ms was INVALID because sending took 3.7 ms: each latency counts
/// from its own send, and nothing but the load of the first milliseconds was another one.
#[test]
fn a_sound_burst_is_valid_whatever_its_size() {
    for (count, micros_each) in [(512, 100), (2_048, 100), (10_000, 400)] {
        let row = |index: u64| {
            let start = Nanos::from_micros(7 * index);
            let first = Nanos::from_micros(5_000 + micros_each * index);
            let mut row = timed(index, start, first + ms(300) - start);
            row.ttft = Some((first - start).0 as f64).into();
            row
        };
        let rows = (0..count).map(row).collect();
        let scene = Scene { rows, load: testing::load(None, count), ..burst(1) };
        let latencies = ["ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p99", "e2e_ms_p50"];
        for figure in latencies.into_iter().chain(["requests_per_s"]) {
            let effect = scene.effect(NoteCode::LateSends, figure);
            assert_eq!(class(effect), "remark", "{count}, {figure}: {effect}");
        }
    }
}

/// Ten slots with back-to-back requests of a second, refilled after a delay.
fn closed_loop(refill: u64) -> Scene {
    let row = |index: u64| {
        let start = (index / 10) * (1_000 + refill) + index % 10;
        timed(index, ms(start), ms(1_000))
    };
    let load = RecordedLoad { max_concurrency: Some(10), ..testing::load(None, 400) };
    Scene {
        rows: (0..400).map(row).collect(),
        load,
        health: Health::default(),
        observed: Observed::default(),
        server: None,
        gaps: None,
    }
}

#[test]
fn a_closed_loop_is_judged_by_its_empty_slots() {
    let check = |refill: u64, expected: &str| {
        let scene = closed_loop(refill);
        let effect = scene.effect(NoteCode::SlowRefill, "requests_per_s");
        assert_eq!(class(effect), expected, "{refill} ms: {effect}");
        for figure in ["ttft_ms_mean", "e2e_ms_p99"] {
            let latency = scene.effect(NoteCode::SlowRefill, figure);
            assert!(latency > 0.4 * effect && latency <= effect + 1e-9, "{figure}: {latency}");
        }
        assert_eq!(scene.effects().of_note(NoteCode::LateSends), None);
    };
    check(1, "remark");
    check(8, "remark");
    check(20, "SUSPECT");
    check(80, "INVALID");
}

/// The next block for a server begins when the other's has ended, which is no fault of the client.
#[test]
fn blocks_of_two_targets_refill_their_own_slots() {
    let scene = closed_loop(500);
    let late = |block| {
        let division = crate::effects::held::Division { block, shards: 1 };
        crate::effects::held::lateness(&scene.rows, &scene.load, division)
    };
    assert!(late(Some(10)).iter().all(|late| *late < ms(10)), "filling the slots takes 9 ms");
    assert!(late(None).iter().any(|late| *late == ms(500)), "within a block it is one");
}

#[test]
fn a_stall_of_the_machine_judges_a_server_on_the_same_host_only() {
    let check = |is_same_host: Option<bool>, factor: f64, expected: &str| {
        let mut scene = open_loop();
        scene.health.is_same_host = is_same_host;
        scene.health.stalls = Some(vec![ThreadStall { begin: ms(5_000), end: ms(5_100) }]);
        for row in
            scene.rows.iter_mut().filter(|row| row.start <= ms(5_100) && row.end >= ms(5_000))
        {
            row.ttft = row.ttft().map(|ttft| ttft * factor).into();
        }
        let effect = scene.effect(NoteCode::Stalls, "ttft_ms_mean");
        assert_eq!(class(effect), expected, "{is_same_host:?}: {effect}");
    };
    check(Some(true), 1.0, "remark");
    check(Some(true), 1.5, "SUSPECT");
    check(Some(true), 3.0, "INVALID");
    check(Some(false), 3.0, "remark");
    check(None, 3.0, "remark");
}

#[test]
fn stolen_time_judges_a_server_on_the_same_host_only() {
    let check = |is_same_host: bool, stolen: u64, expected: &str| {
        let mut scene = open_loop();
        scene.health.is_same_host = Some(is_same_host);
        scene.health.cores = Some(2);
        scene.health.stolen = Some(ms(stolen));
        let effect = scene.effect(NoteCode::StolenTime, "ttft_ms_mean");
        assert_eq!(class(effect), expected, "{stolen} ms: {effect}");
    };
    // The run lasts 21 s on two cores.
    check(true, 400, "remark");
    check(true, 450, "SUSPECT");
    check(true, 2_200, "INVALID");
    check(false, 2_200, "remark");
}

/// The rate of an open loop is the plan's: stolen time marked it as much as the latencies.
#[test]
fn stolen_time_moves_the_rate_of_an_open_loop_by_its_drain_only() {
    let check = |mut scene: Scene, expected: &str| {
        scene.health.is_same_host = Some(true);
        scene.health.stolen = Some(ms(1_000));
        let effect = scene.effect(NoteCode::StolenTime, "requests_per_s");
        assert_eq!(class(effect), expected, "{effect}");
        assert_ne!(class(scene.effect(NoteCode::StolenTime, "ttft_ms_mean")), "remark");
    };
    check(open_loop(), "remark");
    check(closed_loop(0), "SUSPECT");
}

/// As many requests are in flight as come in a mean time in flight: a stall that moved mean E2E left the
/// mean number in flight VALID.
#[test]
fn requests_in_flight_of_an_open_loop_move_with_their_mean_time_in_flight() {
    let mut scene = stalled(1.0);
    for row in scene.rows.iter_mut().filter(|row| row.lateness() > Nanos::ZERO) {
        row.end += ms(1_000);
        row.e2e = row.e2e().map(|e2e| 2.0 * e2e).into();
    }
    let [mean, in_flight, rate] = ["e2e_ms_mean", "concurrency", "requests_per_s"]
        .map(|figure| scene.effect(NoteCode::LateSends, figure));
    assert_eq!((class(mean), class(rate)), ("SUSPECT", "remark"), "{mean} {rate}");
    assert!((in_flight - mean).abs() < 1e-12, "{in_flight} is not {mean}");
}

#[test]
fn late_requests_are_the_machines_where_the_control_thread_was_late_too() {
    let mut scene = stalled(1.0);
    assert_eq!(scene.effects().late_in_stalls(), None, "without a control thread nothing is known");
    scene.health.stalls = Some(Vec::new());
    assert_eq!(scene.effects().late_in_stalls(), Some(0.0));
    scene.health.stalls = Some(vec![ThreadStall { begin: ms(10_010), end: ms(11_000) }]);
    assert_eq!(scene.effects().late_in_stalls(), Some(1.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// More lateness never makes a run look better, and none is no effect.
    #[test]
    fn the_bound_grows_with_the_lateness(
        lates in prop::collection::vec(0_u64..5, 50..200),
        factor in 2_u64..5,
    ) {
        let effect = |factor: u64| {
            let mut scene = open_loop();
            for (row, late) in scene.rows.iter_mut().zip(&lates) {
                delay(row, Nanos::from_micros(late * factor * 200));
            }
            scene.effect(NoteCode::LateSends, "ttft_ms_mean")
        };
        prop_assert!(effect(0) <= 0.0);
        prop_assert!(effect(factor) >= effect(1));
    }

    /// Whatever a record holds, every effect is a number.
    #[test]
    fn effects_are_finite(
        times in prop::collection::vec((0_u64..60_000, 0_u64..60_000, 0_u64..5_000), 1..60),
        cap in prop::option::of(1_u32..20),
        rate in prop::option::of(1.0_f64..50.0),
    ) {
        let mut rows: Vec<RequestRow> = (0..)
            .zip(&times)
            .map(|(index, (start, length, _))| timed(index, ms(*start), ms(*length)))
            .collect();
        for (row, (_, _, late)) in rows.iter_mut().zip(&times) {
            delay(row, ms(*late));
        }
        let load = RecordedLoad { max_concurrency: cap, ..testing::load(rate, times.len() as u64) };
        let stalls = times.iter().map(|(begin, length, _)| ThreadStall { begin: ms(*begin), end: ms(begin + length) });
        let health = Health {
            stalls: Some(stalls.collect()),
            is_same_host: Some(true),
            ..Health::default()
        };
        let scene = Scene { rows, load, health, ..open_loop() };
        for figure in ["ttft_ms_mean", "ttft_ms_p99", "requests_per_s", "e2e_ms_p90"] {
            for code in [NoteCode::LateSends, NoteCode::SlowRefill, NoteCode::Stalls] {
                prop_assert!(scene.effect(code, figure).is_finite());
            }
        }
    }
}

/// The p99 of gaps follows one merged read in a hundred, the median does not.
#[test]
fn merged_segments_concern_the_percentiles_that_they_can_reach() {
    let found = |merged: f64| {
        let percentile = |percent: f64| PercentileValue {
            percent,
            value: Some(10.0),
            above: None,
            interval: ConfidenceInterval::default(),
            is_supported: true,
        };
        let gaps = Distribution {
            count: 4_000,
            mean: Some(10.0),
            percentiles: [50.0, 90.0, 99.0].map(percentile).into(),
            ..Distribution::default()
        };
        let note = tokometer_figures::Note {
            code: NoteCode::MergedSegments.to_string(),
            severity: tokometer_figures::Severity::Suspect,
            figure: "gap_ms".to_owned(),
            found: String::new(),
            why: String::new(),
            action: String::new(),
            effect: None,
        };
        let summary = Summary {
            figures: [("merged_inner_share".to_owned(), Some(merged))].into(),
            distributions: [("gap_ms".to_owned(), gaps)].into(),
            notes: vec![note],
            ..Summary::default()
        };
        let run = unjudged(&summary, &testing::info(testing::load(None, 1)), None);
        let verdicts = super::judge(&run, &Effects::default());
        let doubtful =
            verdicts.iter().filter(|(_, one)| one.verdict > tokometer_figures::Verdict::Valid);
        doubtful.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found(0.004), Vec::<String>::new());
    assert_eq!(found(0.006), ["gap_ms_p99"]);
    assert_eq!(found(0.06), ["gap_ms_p90", "gap_ms_p99"]);
    assert_eq!(found(0.3), ["gap_ms_p50", "gap_ms_p90", "gap_ms_p99"]);
}
