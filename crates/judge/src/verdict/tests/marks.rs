//! Which figures a note marks, and which marks decide the run's verdict.

use crate::notes::NoteCode;
use tokometer_base::Conventions;
use tokometer_record::{Health, RunInfo};

use super::super::{judge, of_run};
use super::unjudged;
use crate::effects::Effects;
use tokometer_figures::interval::ConfidenceInterval;
use tokometer_figures::steady::LoadClass;
use tokometer_figures::summary::{Distribution, PercentileValue, Summary};
use tokometer_figures::testing;
use tokometer_figures::{Note, Severity, Verdict};

fn note(code: NoteCode, figure: &str) -> Note {
    Note {
        code: code.to_string(),
        severity: Severity::Suspect,
        figure: figure.to_owned(),
        found: String::new(),
        why: String::new(),
        action: String::new(),
        effect: None,
    }
}

fn info() -> RunInfo {
    testing::info(testing::load(None, 400))
}

/// A run with one mean of each latency.
fn summary(load_class: LoadClass, notes: Vec<Note>) -> Summary {
    let of = |(key, mean): (&str, f64)| {
        let one = Distribution { count: 400, mean: Some(mean), ..Distribution::default() };
        (key.to_owned(), one)
    };
    let means = [
        ("ttft_ms", 10.0),
        ("tpot_ms", 10.0),
        ("gap_ms", 10.0),
        ("e2e_ms", 100.0),
        ("ttft_from_intended_ms", 12.0),
        ("e2e_from_intended_ms", 100.5),
    ];
    Summary {
        figures: ["requests_per_s", "output_tokens_per_s", "total_output_tokens"]
            .map(|key| (key.to_owned(), Some(20.0)))
            .into(),
        distributions: means.map(of).into(),
        load_class,
        notes,
        ..Summary::default()
    }
}

/// Of a run that has enough requests for it.
fn percentile(percent: f64) -> PercentileValue {
    let interval = ConfidenceInterval::default();
    PercentileValue { percent, value: Some(120.0), above: None, interval, is_supported: true }
}

/// The figures that are marked, of those that count from the send.
fn marked(summary: &Summary) -> Vec<String> {
    let verdicts = judge(&unjudged(summary, &info(), None), &Effects::default());
    let doubtful = verdicts.into_iter().filter(|(_, one)| one.verdict > Verdict::Valid);
    doubtful.map(|(key, _)| key).filter(|key| !key.contains("intended")).collect()
}

/// A growing backlog marked TTFT and left E2E, which contains it, VALID. Answers that are longer than
/// requested were said to change E2E, which was VALID too.
#[test]
fn a_note_concerns_every_figure_that_contains_what_it_speaks_of() {
    let check = |class: LoadClass, code: NoteCode, figure: &str, expected: &[&str]| {
        assert_eq!(marked(&summary(class, vec![note(code, figure)])), expected, "{code} {class:?}");
    };
    let open = LoadClass::Open;
    check(open, NoteCode::Overloaded, "ttft_ms", &["e2e_ms_mean", "ttft_ms_mean"]);
    let tokens = ["output_tokens_per_s", "total_output_tokens", "tpot_ms_mean"];
    check(open, NoteCode::MissingUsage, "output_tokens", &tokens);
    check(open, NoteCode::LongAnswers, "output_tokens", &[&["e2e_ms_mean"], &tokens[..]].concat());
    check(open, NoteCode::WarmCache, "ttft_ms", &["ttft_ms_mean"]);
    let latencies = ["e2e_ms_mean", "gap_ms_mean"];
    let rates = ["output_tokens_per_s", "requests_per_s"];
    let speeds = ["tpot_ms_mean", "ttft_ms_mean"];
    let steady = "output_tokens_per_s";
    check(LoadClass::Closed, NoteCode::NoSteadyState, steady, &rates);
    // The load is the plan's: what has a trend is the latencies.
    check(open, NoteCode::NoSteadyState, steady, &[latencies, rates, speeds].concat());
    // Nor does another client change that load.
    check(
        open,
        NoteCode::OtherClients,
        "all",
        &[&latencies[..], &["total_output_tokens"], &speeds].concat(),
    );
    let all = [&latencies[..], &rates, &["total_output_tokens"], &speeds].concat();
    check(LoadClass::Closed, NoteCode::OtherClients, "all", &all);
}

#[test]
fn a_cause_that_no_note_reports_marks_nothing() {
    let mut effects = Effects::default();
    effects.add("ttft_ms_mean", NoteCode::LateSends, 0.2);
    let verdict = |notes: Vec<Note>| {
        let summary = summary(LoadClass::Open, notes);
        let run = unjudged(&summary, &info(), None);
        let found = judge(&run, &effects).remove("ttft_ms_mean").unwrap();
        (found.verdict, found.effect)
    };
    assert_eq!(verdict(Vec::new()), (Verdict::Valid, Some(0.2)));
    assert_eq!(verdict(vec![note(NoteCode::LateSends, "all")]), (Verdict::Invalid, Some(0.2)));
}

/// Without a wait for the cap, latencies from the intended time repeat the client's own lateness.
#[test]
fn latencies_from_the_intended_time_are_results_where_requests_waited_for_the_cap() {
    let mut effects = Effects::default();
    effects.add("ttft_from_intended_ms_mean", NoteCode::LateSends, 0.2);
    let run = |cap_waits: u64| {
        let mut run = summary(LoadClass::Open, vec![note(NoteCode::LateSends, "all")]);
        let health = Health { cap_waits, ..Health::default() };
        run.figure_verdicts = judge(&unjudged(&run, &info(), Some(&health)), &effects);
        run
    };
    assert_eq!((of_run(&run(0)), of_run(&run(1))), (Verdict::Valid, Verdict::Invalid));
    let keys: Vec<String> = run(1).figure_verdicts.into_keys().collect();
    assert!(keys.contains(&"ttft_from_intended_ms_mean".to_owned()), "{keys:?}");
    assert!(!keys.contains(&"e2e_from_intended_ms_mean".to_owned()), "the same as from the send");
}

/// The JSON of a run has P95, which only SGLang's block prints: a run was INVALID for a figure that nobody saw.
#[test]
fn a_percentile_that_no_report_prints_is_no_result() {
    let mut run = summary(LoadClass::Open, vec![note(NoteCode::LateSends, "all")]);
    run.distributions.get_mut("e2e_ms").unwrap().percentiles = vec![percentile(95.0)];
    let mut effects = Effects::default();
    effects.add("e2e_ms_p95", NoteCode::LateSends, 0.2);
    let verdict = |info: &RunInfo| {
        let mut run = run.clone();
        run.figure_verdicts = judge(&unjudged(&run, info, None), &effects);
        of_run(&run)
    };
    assert_eq!(verdict(&info()), Verdict::Valid);
    let asked = serde_json::json!({ "metrics": { "percentiles": [95.0] } });
    assert_eq!(verdict(&RunInfo { plan: asked, ..info() }), Verdict::Invalid);
    assert_eq!(verdict(&RunInfo { family: Conventions::Sglang, ..info() }), Verdict::Invalid);
}

/// A run of 200 requests was SUSPECT because its P99 is, as almost every run is: people learned to ignore the
/// word. A disturbance still counts by what it moved elsewhere.
#[test]
fn a_percentile_with_too_few_samples_is_suspect_alone() {
    let judged = |effects: &Effects| {
        let notes = [NoteCode::FewSamples, NoteCode::LateSends].map(|code| note(code, "ttft_ms"));
        let mut run = summary(LoadClass::Open, notes.into());
        let ttft = run.distributions.get_mut("ttft_ms").unwrap();
        ttft.percentiles =
            vec![percentile(50.0), PercentileValue { is_supported: false, ..percentile(99.0) }];
        run.figure_verdicts = judge(&unjudged(&run, &info(), None), effects);
        run
    };
    let run = judged(&Effects::default());
    assert_eq!(of_run(&run), Verdict::Valid);
    let [median, p99] = ["ttft_ms_p50", "ttft_ms_p99"].map(|key| &run.figure_verdicts[key]);
    assert_eq!((median.verdict, median.is_result), (Verdict::Valid, true));
    assert_eq!((p99.verdict, p99.is_result), (Verdict::Suspect, false));
    assert_eq!(p99.notes, ["few-samples"]);
    let with = |figure: &str| {
        let mut effects = Effects::default();
        effects.add(figure, NoteCode::LateSends, 0.2);
        of_run(&judged(&effects))
    };
    assert_eq!((with("ttft_ms_p99"), with("ttft_ms_p50")), (Verdict::Valid, Verdict::Invalid));
}
