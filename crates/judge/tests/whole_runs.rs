//! Whole summaries of small records, worked out by hand.

use tokometer_base::Nanos;
use tokometer_compat::family::lenses;
use tokometer_figures::goodput::Objectives;
use tokometer_figures::{
    Collector, Details, Distribution, Family, Summary, SummaryOptions, Verdict, testing,
};
use tokometer_judge::judge;
use tokometer_record::EventKind::{Empty, End, Reasoning, Role, Text, Usage};
use tokometer_record::{
    AttemptId, Event, EventKind, Failure, FailureKind, Outcome, Phase, RecordedLoad, RunState,
    Timeline,
};

fn at(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn collect(load: RecordedLoad, timelines: &[Timeline]) -> Summary {
    let lenses = lenses([Family::Vllm], Details::Drop);
    let options = SummaryOptions { lenses, ..SummaryOptions::default() };
    let mut collector = Collector::new(&testing::info(load), options);
    for timeline in timelines {
        collector.push(timeline);
    }
    judge(collector.finish(&testing::ended(at(1_000), at(5_000))))
}

fn median(summary: &Summary, key: &str) -> Option<f64> {
    summary.distribution(key)?.percentile(50.0)?.value
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.unwrap_or(f64::NAN);
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

/// Due at 1,000 ms, admitted 20 ms later, connected until 1,035, sent at 1,040; a role, reasoning
/// at 1,100, text at 1,140 and 1,200, counts, end mark at 1,215.
fn reasoning_answer() -> Timeline {
    let events: [(u64, EventKind); 6] = [
        (1_060, Role),
        (1_100, Reasoning),
        (1_140, Text),
        (1_200, Text),
        (1_210, Usage),
        (1_215, End),
    ];
    let mut timeline = testing::answer(0, 1_040, &events);
    timeline.times.intended = Some(at(1_000));
    timeline.times.admitted = at(1_020);
    timeline.times.connect_begin = Some(at(1_021));
    timeline.times.connect_end = Some(at(1_030));
    timeline.times.tls_end = Some(at(1_035));
    timeline.times.last_byte_sent = Some(at(1_042));
    timeline.usage = Some(testing::usage(7, 3));
    timeline
}

#[test]
fn every_latency_of_one_request_follows_its_definition() {
    let summary = collect(testing::load(Some(1.0), 1), &[reasoning_answer()]);
    let check = |key: &str, expected: f64| near(median(&summary, key), expected);
    check("first_event_ms", 20.0);
    check("ttft_ms", 60.0);
    check("first_answer_ms", 100.0);
    check("ttft_from_intended_ms", 100.0);
    check("e2e_ms", 160.0);
    check("e2e_from_intended_ms", 200.0);
    check("end_of_stream_ms", 175.0);
    check("client_queue_ms", 20.0);
    check("send_lateness_ms", 6.0);
    check("connect_ms", 9.0);
    check("tls_ms", 5.0);
    check("upload_ms", 2.0);
    check("tpot_ms", 50.0);
    check("gap_ms", 50.0);
    check("token_gap_ms", 50.0);
    check("tokens_per_s_per_user", 20.0);
    check("prompt_tokens", 7.0);
    check("output_tokens", 3.0);
    near(summary.figure("token_gap_ms_mean"), 50.0);
    near(summary.figure("output_tokens_per_s"), 0.75);
    near(summary.figure("concurrency"), 0.175 / 4.0);
    assert_eq!(summary.count_sources.get("usage"), Some(&1));
}

#[test]
fn without_a_schedule_there_is_no_latency_from_intention() {
    let mut timeline = reasoning_answer();
    timeline.times.intended = None;
    let summary = collect(testing::load(None, 1), &[timeline]);
    for key in ["ttft_from_intended_ms", "e2e_from_intended_ms", "client_queue_ms"] {
        assert_eq!(summary.distribution(key), None, "{key}");
    }
    assert_eq!(summary.figure("requested_rate_per_s"), None);
}

#[test]
fn a_gap_is_divided_by_the_tokens_of_its_event_and_never_by_the_read() {
    let mut timeline = testing::answer(0, 1_000, &[]);
    for (millis, read, tokens) in [(1_100, 0, 2), (1_140, 1, 4), (1_140, 1, 1), (1_150, 2, 1)] {
        timeline.push(Event::new(at(millis), read, Text).with_tokens(Some(tokens)));
    }
    timeline.usage = Some(testing::usage(5, 8));
    let summary = collect(testing::load(None, 1), &[timeline]);
    let gaps = summary.distribution("gap_ms").unwrap();
    assert_eq!((gaps.count, gaps.max), (3, Some(40.0)));
    let token_gaps = summary.distribution("token_gap_ms").unwrap();
    assert_eq!(token_gaps.count, 6, "four tokens of 10 ms, one of 0 ms, one of 10 ms");
    near(token_gaps.mean, 50.0 / 6.0);
    // 50 ms for the six tokens that came after the first event.
    near(median(&summary, "tpot_ms"), 50.0 / 6.0);
    near(summary.figure("token_gap_ms_mean"), 50.0 / 6.0);
    near(summary.figure("shared_read_share"), 0.25);
    assert!(gaps.is_withheld && token_gaps.is_withheld);
    assert!(summary.notes.iter().any(|note| note.code == "shared-reads"));
}

/// Ten seconds of events with four tokens each: a gap per token is a quarter of a gap, and so is its
/// interval. It had the interval of the whole gap.
#[test]
fn an_interval_of_gaps_per_token_is_that_of_gaps_per_token() {
    let mut timeline = testing::answer(0, 1_000, &[]);
    let mut now = 1_000;
    for event in 0..240_u32 {
        now += 36 + u64::from(event * event % 23 % 5) * 2;
        timeline.push(Event::new(at(now), event, Text).with_tokens(Some(4)));
    }
    let summary = collect(testing::load(None, 1), &[timeline]);
    let [gaps, token_gaps] =
        ["gap_ms", "token_gap_ms"].map(|key| summary.distribution(key).unwrap());
    let margin = gaps.mean_margin.unwrap();
    assert!(margin > 0.1, "{margin}");
    let quarter = |part: f64, whole: f64| (0.1..0.5).contains(&(part / whole));
    assert!(quarter(token_gaps.mean_margin.unwrap(), margin));
    let median = |values: &Distribution| *values.percentile(50.0).unwrap();
    let width = |values: &Distribution| 2.0 * median(values).interval.margin().unwrap();
    assert!(width(gaps) > 0.1 && quarter(width(token_gaps), width(gaps)));
}

#[test]
fn hidden_reasoning_is_in_the_throughput_and_not_in_tpot() {
    let mut timeline = testing::answer(0, 1_000, &[(2_000, Text), (2_100, Text), (2_200, Text)]);
    timeline.usage = Some(testing::usage(5, 103));
    timeline.usage.as_mut().unwrap().reasoning_tokens = Some(100);
    let summary = collect(testing::load(None, 1), &[timeline]);
    near(median(&summary, "tpot_ms"), 100.0);
    near(summary.figure("total_output_tokens"), 103.0);
    assert!(summary.notes.iter().any(|note| note.code == "hidden-reasoning"));
}

#[test]
fn answers_without_a_second_token_have_no_tpot_and_unknown_counts_no_total() {
    let mut one = testing::answer(0, 1_000, &[(1_100, Text), (1_101, Usage)]);
    one.usage = Some(testing::usage(5, 1));
    let summary = collect(testing::load(None, 1), &[one.clone()]);
    assert_eq!(summary.distribution("tpot_ms"), None);
    assert_eq!(summary.distribution("gap_ms"), None);
    near(summary.figure("total_output_tokens"), 1.0);
    let uncounted = testing::answer(1, 1_000, &[(1_100, Text)]);
    let summary = collect(testing::load(None, 2), &[one, uncounted]);
    assert_eq!(summary.figure("total_output_tokens"), None);
    assert_eq!(summary.figure("output_tokens_per_s"), None);
}

fn failed(index: u64, start: u64, end: u64) -> Timeline {
    let mut timeline = testing::answer(index, start, &[]);
    timeline.times.end = Some(at(end));
    let mut failure = Failure::new(FailureKind::Status, "busy");
    failure.status = Some(503);
    timeline.outcome = Outcome::Failed(failure);
    timeline
}

#[test]
fn failed_requests_are_infinitely_slow_grouped_and_below_the_line_of_goodput() {
    let mut collector = Collector::new(
        &testing::info(testing::load(None, 5)),
        SummaryOptions {
            objectives: Objectives { ttft_ms: Some(100.0), ..Objectives::default() },
            ..SummaryOptions::default()
        },
    );
    collector.push(&testing::answer(0, 1_000, &[(1_100, Text), (1_200, Text)]));
    collector.push(&testing::answer(1, 1_000, &[(1_300, Text)]));
    collector.push(&failed(2, 1_000, 4_000));
    collector.push(&failed(3, 1_000, 1_010));
    let summary = judge(collector.finish(&testing::ended(at(1_000), at(5_000))));
    let ttft = summary.distribution("ttft_ms").unwrap();
    assert_eq!((ttft.count, ttft.infinite, ttft.mean), (4, 2, Some(200.0)));
    let p99 = ttft.percentile(99.0).unwrap();
    assert_eq!((p99.value, p99.above), (None, Some(3_000.0)));
    let group = &summary.failures[0];
    assert_eq!((group.status, group.count, group.example.as_str()), (Some(503), 2, "busy"));
    let goodput = summary.goodput.unwrap();
    assert_eq!((goodput.good, goodput.share, goodput.requests_per_s), (1, Some(0.2), Some(0.25)));
    assert_eq!(summary.figure("goodput_share"), Some(0.2));
    near(summary.figure("concurrency"), (0.2 + 0.3 + 3.0 + 0.01) / 4.0);
}

#[test]
fn a_request_that_was_tried_again_counts_by_its_last_attempt() {
    let mut again = testing::answer(0, 2_000, &[(2_100, Text)]);
    again.identity.attempt = 1;
    let summary = collect(testing::load(None, 1), &[failed(0, 1_000, 1_010), again]);
    let counts = summary.counts;
    assert_eq!((counts.sent, counts.succeeded, counts.failed, counts.retries), (1, 1, 0, 1));
    assert_eq!(summary.distribution("ttft_ms").unwrap().infinite, 0);
    assert!(summary.failures.is_empty());
}

#[test]
fn only_the_measured_phase_enters_and_probes_have_their_own_line() {
    let mut warm = testing::answer(0, 10, &[(20, Text)]);
    warm.identity = AttemptId::new(0, Phase::Warmup);
    let mut probe = testing::answer(0, 1_000, &[(1_030, Text)]);
    probe.identity = AttemptId::new(0, Phase::Probe);
    let summary = collect(
        testing::load(None, 1),
        &[warm, probe, testing::answer(0, 1_000, &[(1_500, Text)])],
    );
    assert_eq!((summary.counts.sent, summary.counts.warmups), (1, 1));
    near(median(&summary, "ttft_ms"), 500.0);
    let probe = summary.families[&Family::Vllm].probe.clone().unwrap();
    assert_eq!((probe.completed, probe.failed, probe.median), (1, 0, 30.0));
}

#[test]
fn a_killed_run_is_reported_from_its_rows_and_marked() {
    let mut collector =
        Collector::new(&testing::info(testing::load(None, 10)), SummaryOptions::default());
    collector.push(&testing::answer(0, 1_000, &[(1_500, Text)]));
    collector.push(&testing::answer(1, 1_000, &[(3_000, Text)]));
    let summary = judge(collector.finish(&RunState::Killed { in_flight: 3, retrying: 0 }));
    assert_eq!(summary.duration_s, Some(2.0));
    assert_eq!((summary.counts.abandoned, summary.counts.never_sent), (3, 5));
    assert!(summary.notes.iter().any(|note| note.code == "partial-run"));
}

/// The report said "184 of 1,000,000 succeeded": a million was the number of prompts, not of due
/// requests.
#[test]
fn a_run_that_ends_by_time_counts_what_was_due() {
    let load =
        RecordedLoad { duration: Some(Nanos::from_secs(4)), ..testing::load(Some(1.0), 1_000_000) };
    let mut collector = Collector::new(&testing::info(load), SummaryOptions::default());
    collector.push(&testing::answer(0, 1_000, &[(1_500, Text)]));
    let RunState::Ended(mut end) = testing::ended(at(1_000), at(5_000)) else { unreachable!() };
    end.never_sent = 3;
    let counts = judge(collector.finish(&RunState::Ended(end))).counts;
    assert_eq!((counts.planned, counts.sent, counts.never_sent), (4, 1, 3));
}

/// A request whose second attempt was in flight is one request, and not a failed one.
#[test]
fn a_request_that_was_being_tried_again_when_the_run_was_killed_counts_once() {
    let mut collector =
        Collector::new(&testing::info(testing::load(None, 5)), SummaryOptions::default());
    collector.push(&testing::answer(0, 1_000, &[(1_500, Text)]));
    let mut failed = testing::answer(1, 1_000, &[]);
    failed.outcome =
        Outcome::Failed(Failure { status: Some(503), ..Failure::new(FailureKind::Status, "busy") });
    collector.push(&failed);
    let counts = judge(collector.finish(&RunState::Killed { in_flight: 2, retrying: 1 })).counts;
    assert_eq!((counts.sent, counts.succeeded, counts.failed, counts.abandoned), (3, 1, 0, 2));
    assert_eq!((counts.planned, counts.never_sent), (5, 2));
}

#[test]
fn a_run_without_any_request_has_no_numbers_and_is_invalid() {
    let summary = collect(testing::load(None, 3), &[]);
    assert_eq!((summary.duration_s, summary.figure("requests_per_s")), (None, None));
    assert!(summary.distributions.is_empty() && summary.windows.is_empty());
    assert_eq!(summary.verdict, Verdict::Invalid);
    let text = serde_json::to_string(&summary).unwrap();
    let back: Summary = serde_json::from_str(&text).unwrap();
    assert_eq!(back, summary);
}

/// A steady open loop: 20 requests per second for 30 s, half a second each, 10 tokens.
#[test]
fn an_even_run_is_steady_and_its_figures_are_the_plans() {
    let timelines: Vec<Timeline> = (0..600)
        .map(|index| {
            let start = 1_000 + index * 50;
            let events: Vec<(u64, EventKind)> =
                (1..=10).map(|token| (start + token * 50, Text)).collect();
            let mut timeline = testing::answer(index, start, &events);
            timeline.times.intended = Some(at(start));
            timeline.stamp_source = tokometer_record::StampSource::Kernel;
            timeline.usage = Some(testing::usage(100, 10));
            timeline
        })
        .collect();
    let mut collector =
        Collector::new(&testing::info(testing::load(Some(20.0), 600)), SummaryOptions::default());
    for timeline in &timelines {
        collector.push(timeline);
    }
    let summary = judge(collector.finish(&testing::ended(at(1_000), at(31_450))));
    assert_eq!((summary.verdict, summary.notes.len()), (Verdict::Valid, 0), "{:?}", summary.notes);
    let steady = summary.steady.clone().unwrap();
    // The last request starts at 30.95 s of the clock, which is 29.95 s after the run began. Counted
    // from the clock's origin, the steady part would end after the run, which lasts 30.45 s.
    near(Some(steady.end_s), 29.95);
    assert!(steady.end_s <= summary.duration_s.unwrap());
    assert!((steady.requests_per_s - 20.0).abs() < 0.1 && (steady.concurrency - 10.0).abs() < 0.1);
    assert!((steady.output_tokens_per_s - 200.0).abs() < 2.0);
    near(summary.figure("peak_in_flight"), 10.0);
    near(summary.figure("achieved_rate_per_s"), 20.0);
    let gaps = summary.distribution("gap_ms").unwrap();
    near(gaps.mean_margin, 0.0);
    assert!(summary.distribution("ttft_ms").unwrap().percentile(99.0).unwrap().is_supported);
}

#[test]
fn an_empty_text_event_is_no_first_token_of_ours() {
    let summary = collect(
        testing::load(None, 1),
        &[testing::answer(0, 1_000, &[(1_010, Empty), (1_050, Text)])],
    );
    near(median(&summary, "ttft_ms"), 50.0);
    near(Some(summary.families[&Family::Vllm].ttft.mean), 10.0);
}

/// Answers take a twelfth of the run, so that few end in its first and last blocks. That the server
/// fills and drains is no variation of the rate, of which the arrivals are.
#[test]
fn filling_and_draining_do_not_widen_the_interval_of_a_rate() {
    let mut generator = tokometer_base::Seed(7).stream("arrivals").at(0);
    let mut now = 0.0;
    let timelines: Vec<Timeline> = (0..600)
        .map(|index| {
            now += -100.0 * tokometer_base::seed::unit_float(&mut generator).max(1e-12).ln();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a minute")]
            let start = now as u64;
            testing::answer(index, start, &[(start + 2_000, Text), (start + 5_000, Text)])
        })
        .collect();
    let end = timelines.iter().filter_map(|one| one.times.end).max().unwrap();
    let mut collector =
        Collector::new(&testing::info(testing::load(Some(10.0), 600)), SummaryOptions::default());
    for timeline in &timelines {
        collector.push(timeline);
    }
    let summary = judge(collector.finish(&testing::ended(at(0), end)));
    let rate = summary.figure("requests_per_s").unwrap();
    let margin = summary.intervals["requests_per_s"].margin();
    assert!(margin.is_some_and(|margin| margin / rate < 0.12), "{margin:?} of {rate}");
}
