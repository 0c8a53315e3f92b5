//! Every note is provoked once, and a good run gets none.

mod spoil;
mod warm_cache;

use crate::notes::NoteCode;
use tokometer_base::Nanos;
use tokometer_record::health::{ThreadStall, WorkerHealth};
use tokometer_record::{
    ClockFit, FailureKind, Health, MergedRun, MergedShard, RunInfo, Sharding, Stop,
};

use self::spoil::spoil;
use super::rule::{NoteJudgement, explained, find, notes_markdown, rules};
use crate::effects::Effects;
use crate::verdict;
use tokometer_figures::interval::{ConfidenceInterval, NoInterval};
use tokometer_figures::observe::{Observed, Pair};
use tokometer_figures::outside::TpotSums;
use tokometer_figures::quality::{Canaries, CanaryFault};
use tokometer_figures::sends::{LATE, Sends};
use tokometer_figures::server::ServerFigures;
use tokometer_figures::steady::{GrowingBacklog, LoadClass, Steady, Unsteady};
use tokometer_figures::summary::{
    Counts, Distribution, Ended, FailureGroup, PercentileValue, Summary,
};
use tokometer_figures::tail::Tails;
use tokometer_figures::testing;
use tokometer_figures::{Note, Severity, Unjudged, Verdict};

/// The owned input of a check, so that a test can change one value.
struct Scene {
    info: RunInfo,
    summary: Summary,
    health: Health,
    observed: Observed,
    unsteady: Option<Unsteady>,
    overload: Option<GrowingBacklog>,
    effects: Effects,
}

impl Scene {
    fn run(&self) -> Unjudged {
        Unjudged {
            summary: self.summary.clone(),
            info: self.info.clone(),
            rows: Vec::new(),
            health: Some(self.health.clone()),
            observed: self.observed.clone(),
            unsteady: self.unsteady,
            overload: self.overload,
            parts: Vec::new(),
        }
    }

    fn notes(&self) -> Vec<Note> {
        find(&self.run(), &self.effects)
    }

    fn verdict(&self) -> Verdict {
        let mut run = self.run();
        run.summary.notes = self.notes();
        run.summary.figure_verdicts = verdict::judge(&run, &self.effects);
        verdict::of_run(&run.summary)
    }

    fn set_figure(&mut self, key: &str, value: f64) {
        self.summary.figures.insert(key.to_owned(), Some(value));
    }

    fn server(&mut self) -> &mut ServerFigures {
        self.summary.server.as_mut().unwrap()
    }
}

/// A run of 100 s with 1,000 requests on an idle machine, with every value present.
fn sound() -> Scene {
    let pair = |left, right| Pair { requests: 1_000, left, right };
    let observed = Observed {
        sends: Sends { judged: 1_000, late: 2, worst: Nanos::from_millis(6) },
        kernel_stamped: 1_000,
        network_views: 1_000,
        round_trips: (0..1_000).map(|index| (Nanos::from_micros(200), index)).collect(),
        usage_and_events: pair(100_000, 100_000),
        usage_and_text: pair(100_000, 103_000),
        prompt_lengths: pair(1_000_000, 1_000_100),
        least_surplus: Some(0),
        answer_lengths: pair(100_000, 100_000),
        cached: pair(1_000_000, 500),
        count_sources: [("usage".to_owned(), 1_000)].into(),
        first_send: Some(Nanos::from_secs(1)),
        last_send: Some(Nanos::from_secs(91)),
        first_due: Some(Nanos::from_secs(1)),
        last_due: Some(Nanos::from_secs(91)),
        ..Observed::default()
    };
    let percentile = PercentileValue {
        percent: 99.0,
        value: Some(80.0),
        above: None,
        interval: ConfidenceInterval::Known { low: 75.0, high: 90.0 },
        is_supported: true,
    };
    let ttft = Distribution {
        count: 1_000,
        effective: Some(900.0),
        percentiles: vec![percentile],
        ..Distribution::default()
    };
    let figures = [
        ("total_output_tokens", 100_000.0),
        ("peak_in_flight", 20.0),
        ("shared_read_share", 0.01),
        ("merged_inner_share", 0.001),
        ("hidden_tokens", 0.0),
    ];
    let summary = Summary {
        counts: Counts { planned: 1_000, sent: 1_000, succeeded: 1_000, ..Counts::default() },
        duration_s: Some(100.0),
        figures: figures.map(|(key, value)| (key.to_owned(), Some(value))).into(),
        distributions: [("ttft_ms".to_owned(), ttft)].into(),
        load_class: LoadClass::Open,
        server: Some(ServerFigures {
            generation_tokens: Some(100_500.0),
            is_whole: true,
            present_max: Some(20.0),
            prefix_hit_share: Some(0.0),
            preemptions: Some(0.0),
            ..ServerFigures::default()
        }),
        ..Summary::default()
    };
    Scene {
        info: testing::info(testing::load(Some(11.0), 1_000)),
        summary,
        health: sound_health(),
        observed,
        unsteady: None,
        overload: None,
        effects: Effects::default(),
    }
}

fn sound_health() -> Health {
    let mut worker = WorkerHealth {
        run_queue_delay: Some(Nanos::from_secs(1)),
        cpu_time: Some(Nanos::from_secs(30)),
        involuntary_switches: Some(100),
        ..WorkerHealth::default()
    };
    worker.kernel_to_user.add(Nanos::from_micros(300));
    let mut health = Health {
        workers: vec![worker],
        cores: Some(2),
        cpu_pressure: Some(Nanos::from_secs(5)),
        throttled: Some(Nanos::ZERO),
        stolen: Some(Nanos::from_millis(10)),
        connections_opened: 20,
        descriptor_limit: Some(20_000),
        port_limit: Some(28_000),
        is_same_host: Some(false),
        ..Health::default()
    };
    health.refill_delay.add(Nanos::from_micros(200));
    health
}

/// A run of `count` shards, of which two are there.
fn merged(count: u32, clock: Option<ClockFit>) -> Sharding {
    let shard = |rank| MergedShard {
        rank,
        host: None,
        stop: Some(Stop::Complete),
        requests: 500,
        unwritten: 0,
        in_flight: 0,
        unreadable: 0,
        never_sent: Some(0),
        clock,
        measured: None,
    };
    let shards = vec![shard(0), shard(1)];
    Sharding::Merged(MergedRun {
        run: "r".to_owned(),
        count,
        sending: None,
        is_cap_shared: false,
        shards,
    })
}

/// Two shards of which each measures for ten seconds, the second later by `seconds`.
fn apart(seconds: u64) -> Sharding {
    let Sharding::Merged(mut run) = merged(2, Some(ClockFit::SAME)) else { unreachable!() };
    for (shard, begin) in run.shards.iter_mut().zip([100, 100 + seconds]) {
        shard.measured = Some((Nanos::from_secs(begin), Nanos::from_secs(begin + 10)));
    }
    Sharding::Merged(run)
}

/// Two shards without a leader that ran one after the other were merged into a VALID run with half of the
/// planned load.
#[test]
fn shards_that_do_not_begin_together_are_named_with_the_time_between_them() {
    let mut scene = sound();
    let mut check = |seconds: u64, expected: &[&str]| {
        scene.info.sharding = Some(apart(seconds));
        let notes = scene.notes();
        let found: Vec<&str> = notes.iter().map(|note| note.found.as_str()).collect();
        assert_eq!(found, expected);
        assert!(notes.iter().all(|note| note.code == NoteCode::ShardStarts), "{notes:?}");
    };
    check(0, &[]);
    check(4, &["shard 1 began 4.00 s after shard 0; all shards sent requests during 6.00 s only"]);
    check(60, &["shard 1 began 60.0 s after shard 0; at no time did all shards send requests"]);
}

#[test]
fn shards_are_named_and_a_loose_clock_is_said_with_its_bound() {
    let mut scene = sound();
    scene.info.sharding = Some(merged(12, Some(ClockFit::SAME)));
    let found = scene.notes().remove(0).found;
    assert!(found.starts_with("no record of shards 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"), "{found}");
    let loose = |bound| Some(merged(2, Some(ClockFit { bound, ..ClockFit::SAME })));
    scene.info.sharding = loose(Nanos::from_micros(900));
    assert_eq!(scene.notes(), []);
    scene.info.sharding = loose(Nanos::from_micros(2_100));
    assert!(scene.notes()[0].found.contains("within ±2.10 ms"), "{:?}", scene.notes());
}

#[test]
fn a_sound_run_on_a_sound_machine_has_no_notes() {
    assert_eq!(sound().notes(), []);
    let unknown = Scene { health: Health::default(), ..sound() };
    assert_eq!(unknown.notes(), [], "what a machine does not tell is not held against it");
}

fn codes(notes: &[Note]) -> Vec<String> {
    notes.iter().map(|note| note.code.clone()).collect()
}

#[test]
fn every_note_can_be_provoked_and_comes_alone() {
    for rule in rules() {
        let mut scene = sound();
        spoil(&mut scene, rule.code);
        let notes = scene.notes();
        assert_eq!(codes(&notes), [rule.code.to_string()], "{notes:?}");
        let has_effect = notes[0].effect.is_some();
        let least = rule.severity.of_note(Severity::Remark);
        assert!(has_effect || notes[0].severity == least, "{}", rule.code);
    }
}

#[test]
fn a_chat_template_is_not_a_wrong_prompt_length() {
    let mut scene = sound();
    scene.observed.prompt_lengths.right = 1_030_000;
    scene.observed.least_surplus = Some(30);
    assert_eq!(scene.notes(), []);
}

#[test]
fn what_was_found_is_said_with_its_numbers() {
    let mut scene = sound();
    spoil(&mut scene, NoteCode::LateSends);
    spoil(&mut scene, NoteCode::RoundTripOutliers);
    let found: Vec<_> = scene.notes().into_iter().map(|note| note.found).collect();
    assert_eq!(
        found,
        [
            "11 of 1000 requests were sent more than 5 ms late (worst 6.00 ms)",
            "slow round trips: 1; the median is 200 µs (request 7: 90.0 ms)",
        ]
    );
}

/// "0 in flight, 0 never sent", and that the slow ones are missing.
#[test]
fn a_partial_run_says_what_is_missing() {
    let found = |abandoned: u64, never_sent: u64| {
        let mut scene = sound();
        spoil(&mut scene, NoteCode::PartialRun);
        scene.summary.counts.abandoned = abandoned;
        scene.summary.counts.never_sent = never_sent;
        scene.notes().remove(0).found
    };
    assert_eq!(found(0, 0), "interrupted: every request that was sent is counted");
    assert_eq!(
        found(1, 20),
        "interrupted: 1 request was in flight, so the slowest are missing; 20 requests were never sent"
    );
}

/// "About 497 times its length would do", of a run whose backlog grows with its length.
#[test]
fn an_overloaded_run_is_not_told_to_run_longer() {
    let mut scene = sound();
    spoil(&mut scene, NoteCode::FewSamples);
    spoil(&mut scene, NoteCode::Overloaded);
    assert_eq!(codes(&scene.notes()), ["overloaded"]);
}

/// "977.4 % of a core": a worker opens connections before the first request.
#[test]
fn a_share_of_the_run_is_at_most_the_whole() {
    let mut scene = sound();
    scene.health.workers[0].cpu_time = Some(Nanos::from_secs(977));
    assert_eq!(scene.notes()[0].found, "a worker used 100.0 % of a core");
}

/// "a slow network path" between two programs of one machine.
#[test]
fn a_slow_round_trip_within_a_host_is_no_path() {
    let mut scene = sound();
    spoil(&mut scene, NoteCode::RoundTripOutliers);
    scene.health.is_same_host = Some(true);
    assert_eq!(codes(&scene.notes()), ["same-host"]);
}

/// The interval said "too short", and the value had no mark.
#[test]
fn a_percentile_whose_interval_the_run_is_too_short_for_has_its_mark() {
    let mut scene = sound();
    let ttft = scene.summary.distributions.get_mut("ttft_ms").unwrap();
    ttft.percentiles[0].interval = ConfidenceInterval::Unknown(NoInterval::TooShort);
    ttft.effective = Some(100.0);
    let found = scene.notes().remove(0).found;
    assert!(found.starts_with("the run is too short for the interval of P99 TTFT"), "{found}");
    // Twice 368 independent requests.
    assert!(found.ends_with(": about 8 times its length would do"), "{found}");
    assert_eq!(scene.verdict(), Verdict::Valid);
}

#[test]
fn the_worst_note_decides_the_verdict() {
    let check = |codes: &[NoteCode], expected: Verdict| {
        let mut scene = sound();
        for code in codes {
            spoil(&mut scene, *code);
        }
        assert_eq!(scene.verdict(), expected, "{codes:?}");
    };
    check(&[], Verdict::Valid);
    check(&[NoteCode::Burst, NoteCode::SameHost], Verdict::Valid);
    check(&[NoteCode::Burst, NoteCode::FewSamples], Verdict::Valid);
    check(&[NoteCode::FewSamples, NoteCode::OneCore], Verdict::Suspect);
    check(&[NoteCode::FewSamples, NoteCode::ClockFaults], Verdict::Invalid);
}

/// A disturbance counts by how far it moved a figure, at the thresholds of the table.
#[test]
fn a_note_judged_by_effect_is_as_severe_as_its_largest_effect() {
    let check = |effect: f64, expected: (Severity, Verdict)| {
        for rule in rules().into_iter().filter(|rule| rule.severity == NoteJudgement::ByEffect) {
            let mut scene = sound();
            spoil(&mut scene, rule.code);
            scene.effects = Effects::default();
            scene.effects.add("ttft_ms_p99", rule.code, effect);
            let notes = scene.notes();
            // What moved the rate by less than its limit has no note.
            let Some(note) = notes.iter().find(|note| note.code == rule.code) else {
                assert_eq!((rule.code, expected.1), (NoteCode::RateMissed, Verdict::Valid));
                continue;
            };
            assert_eq!((note.severity, scene.verdict()), expected, "{} {effect}", rule.code);
            assert_eq!(note.effect, Some(effect));
        }
    };
    check(0.009, (Severity::Remark, Verdict::Valid));
    check(0.011, (Severity::Suspect, Verdict::Suspect));
    check(0.049, (Severity::Suspect, Verdict::Suspect));
    check(0.051, (Severity::Invalid, Verdict::Invalid));
}

#[test]
fn an_effect_alone_is_reason_enough_for_a_note() {
    for code in [NoteCode::LateSends, NoteCode::SlowRefill, NoteCode::SlowReads, NoteCode::Stalls] {
        let mut scene = sound();
        scene.health.stalls = Some(vec![ThreadStall { begin: Nanos(1), end: Nanos(4_000_000) }]);
        scene.summary.load_class =
            if code == NoteCode::SlowRefill { LoadClass::Closed } else { LoadClass::Open };
        scene.effects.add("ttft_ms_p99", code, 0.02);
        let notes = scene.notes();
        assert_eq!(codes(&notes), [code.to_string()]);
        assert!(notes[0].found.ends_with("; it moved p99 TTFT by up to 2.0 %"), "{notes:?}");
    }
}

/// A bound of 4,861 % was printed for answers whose tokens all shared one read.
#[test]
fn an_effect_as_large_as_the_figure_has_no_bound() {
    let mut scene = sound();
    scene.effects.add("tpot_ms_mean", NoteCode::SlowReads, 1.0);
    let found = &scene.notes()[0].found;
    assert!(found.ends_with("; its effect on mean TPOT has no bound"), "{found}");
}

/// 4 of 400 requests waited 200 ms each, which moved a mean TTFT of 19 ms by 13 %: it was VALID.
#[test]
fn a_few_retransmissions_that_may_have_moved_a_figure_are_noted() {
    let noted = |effect: f64| {
        let mut scene = sound();
        (scene.observed.network_views, scene.observed.retransmitting) = (1_000, 10);
        scene.effects.add("ttft_ms_mean", NoteCode::Retransmits, effect);
        scene.notes().iter().any(|note| note.code == NoteCode::Retransmits)
    };
    assert!(!noted(0.009) && noted(0.02));
}

#[test]
fn the_page_of_notes_has_a_part_for_each_with_its_threshold() {
    let page = notes_markdown();
    for rule in rules() {
        let heading = format!("\n### `{}`\n", rule.code);
        assert_eq!(page.matches(&heading).count(), 1, "{}", rule.code);
        let explained = explained(&rule.code.to_string()).unwrap();
        assert!(explained.contains(rule.why) && explained.contains(rule.action), "{explained}");
    }
    assert!(!page.contains("{}"), "a threshold without its number");
    let late =
        format!("more than 1 % of the requests were sent over {} ms late", LATE.as_millis_f64());
    assert!(page.contains(&late), "{page}");
    let codes: std::collections::BTreeSet<_> = rules().into_iter().map(|rule| rule.code).collect();
    assert_eq!(codes.len(), rules().len(), "a code has one meaning");
    assert!(rules().iter().any(|rule| rule.severity == NoteJudgement::Remark));
}

#[test]
fn the_page_of_notes_is_what_the_rules_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/notes.md");
    if std::env::var_os("TOKOMETER_WRITE_PAGES").is_some() {
        std::fs::write(path, notes_markdown()).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == notes_markdown(), "{path} is out of date: run with TOKOMETER_WRITE_PAGES=1");
}

/// A rule about one load says nothing about another, and what one note has said no other one repeats.
#[test]
fn notes_know_which_load_and_which_machine_they_speak_of() {
    let codes = |scene: &Scene| -> Vec<String> {
        scene.notes().into_iter().map(|note| note.code).collect()
    };
    // Failed and retried requests generated tokens too, which this client did not count.
    let mut retried = sound();
    retried.server().generation_tokens = Some(120_000.0);
    assert_eq!(codes(&retried), [NoteCode::OtherClients.to_string()]);
    retried.summary.counts.retries = 5;
    assert_eq!(codes(&retried), [NoteCode::Retries.to_string()]);
    // Requests that leave and come between two looks are no other client's.
    let mut present = sound();
    present.server().present_max = Some(22.5);
    assert_eq!(codes(&present), Vec::<String>::new());
    present.server().present_max = Some(23.5);
    assert_eq!(codes(&present), [NoteCode::OtherClients.to_string()]);
    // Two cores lost 1.5 s of 100 s between them.
    let mut stolen = sound();
    stolen.health.stolen = Some(Nanos::from_millis(1_500));
    assert_eq!(codes(&stolen), Vec::<String>::new());
    stolen.health.cores = Some(1);
    assert_eq!(codes(&stolen), [NoteCode::StolenTime.to_string()]);
    // Slots are refilled in a closed loop, and requests are late in an open one.
    let mut open = sound();
    open.health.refill_delay.add(Nanos::from_millis(40));
    assert_eq!(codes(&open), Vec::<String>::new());
    let mut closed = sound();
    closed.summary.load_class = LoadClass::Closed;
    spoil(&mut closed, NoteCode::LateSends);
    assert_eq!(codes(&closed), Vec::<String>::new());
    let mut overloaded = sound();
    spoil(&mut overloaded, NoteCode::Overloaded);
    spoil(&mut overloaded, NoteCode::NoSteadyState);
    assert_eq!(codes(&overloaded), [NoteCode::Overloaded.to_string()]);
}

/// Answers that were asked for whole come in one event.
#[test]
fn whole_answers_are_noted_only_where_a_stream_was_asked_for() {
    let mut scene = sound();
    spoil(&mut scene, NoteCode::UnstreamedAnswers);
    scene.observed.unstreamed = 500;
    assert_eq!(scene.notes(), []);
    spoil(&mut scene, NoteCode::UnstreamedAnswers);
    scene.info.plan = serde_json::json!({ "request": { "delivery": "whole" } });
    assert_eq!(scene.notes(), []);
}

/// A run with canaries said that another client used the server.
#[test]
fn tokens_of_canaries_and_probes_are_no_other_clients() {
    let mut scene = sound();
    let has_note =
        |scene: &Scene| scene.notes().iter().any(|note| note.code == NoteCode::OtherClients);
    scene.server().generation_tokens = Some(110_000.0);
    assert!(has_note(&scene));
    let canary = |output_tokens: Option<u32>| {
        let lengths = tokometer_record::RequestedLengths { output_tokens, ..Default::default() };
        let identity = tokometer_record::AttemptId::new(0, tokometer_record::Phase::Canary);
        tokometer_record::Timeline::new(identity, lengths, Nanos::ZERO)
    };
    scene.observed.add_side_request(&canary(Some(9_500)));
    assert!(!has_note(&scene));
    scene.server().generation_tokens = Some(120_000.0);
    assert!(has_note(&scene));
    // Older records do not say how long a canary's answer may be.
    scene.observed.add_side_request(&canary(None));
    assert!(!has_note(&scene));
}

/// The last scrape of a server that died was before the end of the run: its counter was then lower
/// than the client's count, without an error in either.
#[test]
fn a_server_that_was_not_read_to_the_end_is_not_said_to_have_counted_less() {
    let mut scene = sound();
    scene.server().generation_tokens = Some(50_000.0);
    let has_note =
        |scene: &Scene| scene.notes().iter().any(|note| note.code == NoteCode::ServerCountedLess);
    assert!(has_note(&scene));
    scene.server().is_whole = false;
    assert!(!has_note(&scene));
}
