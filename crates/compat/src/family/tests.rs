//! Hand-computed parity: the same timelines, each tool's figures.

use tokometer_base::Nanos;
use tokometer_figures::{Details, Family, Lens, Route, testing};
use tokometer_record::EventKind::{Empty, End, Reasoning, Role, Text, ToolCall, Usage};
use tokometer_record::{
    Event, EventKind, Failure, FailureKind, Outcome, RecordedLoad, TargetInfo, Timeline,
};

use super::{FamilyCollector, ToolView, see};
use tokometer_figures::attempts::LastOfEach;
use tokometer_figures::family::FamilyFigures;
use tokometer_figures::goodput::Objectives;
use tokometer_figures::lens::Frame;

/// Sent at 1,000 ms: headers, role, half a character, three texts, usage, end mark.
const CHAT: [(u64, EventKind); 7] = [
    (1_050, Role),
    (1_060, Empty),
    (1_100, Text),
    (1_120, Text),
    (1_150, Text),
    (1_151, Usage),
    (1_160, End),
];

const COMPLETION: [(u64, EventKind); 6] =
    [(1_060, Empty), (1_100, Text), (1_120, Text), (1_150, Text), (1_151, Usage), (1_160, End)];

fn chat() -> Timeline {
    let mut timeline = testing::answer(0, 1_000, &CHAT);
    timeline.usage = Some(testing::usage(12, 8));
    timeline.requested.prompt_tokens = Some(10);
    timeline.requested.output_tokens = Some(16);
    timeline.retokenized_tokens = Some(9);
    timeline
}

fn completion() -> Timeline {
    Timeline { events: testing::answer(0, 1_000, &COMPLETION).events, ..chat() }
}

/// (ttft, latency) in ms, number of gaps, output tokens, input tokens.
fn facts(seen: &ToolView) -> (u64, u64, usize, u32, u32) {
    let millis = |span: Nanos| span.0 / 1_000_000;
    (
        millis(seen.ttft),
        millis(seen.latency),
        seen.gaps.len(),
        seen.output_tokens,
        seen.input_tokens,
    )
}

#[test]
fn each_tool_sees_the_same_answer_its_own_way() {
    let check = |family: Family, route: Route, timeline: &Timeline, expected| {
        let seen = see(family, timeline, route);
        assert!(seen.is_success);
        assert_eq!(facts(&seen), expected, "{family:?} {route:?}");
    };
    // The role event is vLLM's first token, and the last event with a choice ends the response.
    check(Family::Vllm, Route::Chat, &chat(), (50, 150, 4, 8, 12));
    // An empty completion event is a token.
    check(Family::Vllm, Route::Completions, &completion(), (60, 150, 3, 8, 12));
    check(Family::VllmRust, Route::Chat, &chat(), (50, 150, 4, 8, 10));
    check(Family::VllmRust, Route::Completions, &completion(), (60, 150, 3, 8, 10));
    check(Family::OldVllm, Route::Chat, &chat(), (100, 160, 2, 9, 10));
    check(Family::OldVllm, Route::Completions, &completion(), (100, 160, 2, 9, 10));
    // Text only, up to the end mark; SGLang requests no usage and reports the requested length.
    check(Family::Sglang, Route::Chat, &chat(), (100, 160, 2, 16, 10));
    check(Family::Sglang, Route::Completions, &completion(), (100, 160, 2, 16, 10));
}

#[test]
fn output_lengths_without_a_usage_event() {
    let check = |family: Family, timeline: &Timeline, expected: u32| {
        let found = see(family, timeline, Route::Completions).output_tokens;
        assert_eq!(found, expected, "{family:?}");
    };
    let mut in_choice = completion();
    in_choice.events.retain(|event| event.kind != Usage);
    // The text has 9 tokens by the tokenizer, which only runs with `--save-detailed` count.
    check(Family::Vllm, &in_choice, 8);
    check(Family::VllmRust, &in_choice, 8);
    // Usage beside text wins; beside an empty finish event SGLang's completions do not read it.
    check(Family::Sglang, &in_choice, 8);
    let mut with_finish = in_choice.clone();
    with_finish.events.insert(4, Event::new(Nanos::from_millis(1_155), 4, Empty));
    check(Family::Sglang, &with_finish, 16);
    assert_eq!(see(Family::Sglang, &with_finish, Route::Chat).output_tokens, 8);
    let none = Timeline { usage: None, ..in_choice.clone() };
    check(Family::Vllm, &none, 9);
    check(Family::VllmRust, &none, 4);
    check(Family::Sglang, &none, 16);
    let nothing = Timeline { retokenized_tokens: None, ..none };
    check(Family::Vllm, &nothing, 1);
    check(Family::OldVllm, &nothing, 0);
}

#[test]
fn success_is_a_matter_of_opinion() {
    let check = |family: Family, route: Route, timeline: &Timeline, expected: bool| {
        assert_eq!(see(family, timeline, route).is_success, expected, "{family:?} {route:?}");
    };
    let no_content = Outcome::Failed(Failure::new(FailureKind::NoContent, "no content"));
    let empty = Timeline { events: Vec::new(), outcome: no_content.clone(), ..chat() };
    check(Family::Vllm, Route::Completions, &empty, false);
    check(Family::Vllm, Route::Chat, &empty, false);
    check(Family::VllmRust, Route::Completions, &empty, false);
    check(Family::VllmRust, Route::Chat, &empty, true);
    check(Family::OldVllm, Route::Completions, &empty, false);
    check(Family::OldVllm, Route::Chat, &empty, true);
    check(Family::Sglang, Route::Completions, &empty, true);
    assert_eq!(see(Family::VllmRust, &empty, Route::Chat).ttft, Nanos::ZERO);
    let only_empty =
        Timeline { outcome: no_content, ..testing::answer(0, 1_000, &[(1_010, Empty)]) };
    check(Family::Vllm, Route::Completions, &only_empty, true);
    let cut = Outcome::Failed(Failure::new(FailureKind::Cut, "cut"));
    check(Family::Vllm, Route::Chat, &Timeline { outcome: cut, ..chat() }, false);
}

#[test]
fn reasoning_is_text_for_sglang_and_a_token_for_vllm() {
    let timeline = testing::answer(0, 1_000, &[(1_010, Role), (1_020, Reasoning), (1_040, Text)]);
    assert_eq!(see(Family::Sglang, &timeline, Route::Chat).ttft, Nanos::from_millis(20));
    assert_eq!(see(Family::Vllm, &timeline, Route::Chat).ttft, Nanos::from_millis(10));
}

#[test]
fn the_native_route_divides_a_gap_among_its_tokens_and_passes_over_empty_ones() {
    let mut timeline = testing::answer(0, 1_000, &[]);
    for (at, tokens) in [(1_100, 1), (1_130, 3), (1_140, 0), (1_160, 2)] {
        let event = Event::new(Nanos::from_millis(at), 0, Text).with_tokens(Some(tokens));
        timeline.push(event);
    }
    let seen = see(Family::Sglang, &timeline, Route::Native);
    let gaps: Vec<_> = seen.gaps.iter().map(|gap| (gap.nanos, gap.repeats)).collect();
    assert_eq!(gaps, [(10e6, 3), (15e6, 2)]);
    assert_eq!(seen.output_tokens, 6);
}

/// SGLang tokenizes the text of each event; a record has counts per event, or only of the response.
#[test]
fn sglang_divides_gaps_among_tokens_where_its_own_server_speculates() {
    let mut reported = testing::answer(0, 1_000, &[]);
    for (at, tokens) in [(1_100, 1), (1_130, 3), (1_150, 2)] {
        reported.push(Event::new(Nanos::from_millis(at), 0, Text).with_tokens(Some(tokens)));
    }
    let mut untold = testing::answer(0, 1_000, &[(1_100, Text), (1_130, Text), (1_150, Text)]);
    untold.retokenized_tokens = Some(6);
    let mean = |timeline: &Timeline, backend: &str, accept_length: Option<f64>| {
        let mut collector = collector(Family::Sglang, Details::Drop);
        collector.push(timeline, Route::Chat);
        let mut info = testing::info(testing::load(None, 1));
        info.targets[0].backend = backend.to_owned();
        let found = collector.finish(&Frame {
            begin: Nanos::ZERO,
            duration: Nanos::from_secs(1),
            info: &info,
            percentiles: &[],
            objectives: Objectives::default(),
            accept_length,
            last: &last_of([(0, 0)]),
        });
        // Peaks count events in both cases.
        assert_eq!(found.chunks, 3);
        found.itl.mean
    };
    near(mean(&reported, "sglang-oai-chat", Some(2.5)), 10.0);
    near(mean(&untold, "sglang-oai", Some(2.5)), 12.5);
    for (backend, accept_length) in
        [("sglang-oai-chat", None), ("sglang-oai", Some(0.0)), ("vllm-chat", Some(2.5))]
    {
        near(mean(&reported, backend, accept_length), 25.0);
    }
}

/// At an infinite rate all requests are due when the run begins: those that a limit holds back have
/// waited since then. They were reported without a wait.
#[test]
fn at_an_infinite_rate_the_client_s_queue_counts_from_the_begin_of_the_run() {
    let mut collector = collector(Family::Vllm, Details::Keep);
    for (index, start) in [(0, 1_000), (1, 1_600)] {
        collector.push(&testing::answer(index, start, &[(start + 500, Text)]), Route::Completions);
    }
    let load = RecordedLoad { max_concurrency: Some(1), ..testing::load(None, 2) };
    let found = collector.finish(&Frame {
        begin: Nanos::from_millis(1_000),
        duration: Nanos::from_secs(1),
        info: &testing::info(load),
        percentiles: &[],
        objectives: Objectives::default(),
        accept_length: None,
        last: &last_of([(0, 0), (1, 0)]),
    });
    near(found.client_queue.mean, 300.0);
    assert_eq!(found.detail.unwrap().queue_times, [0.0, 0.6]);
}

#[test]
fn a_connection_made_on_demand_belongs_to_the_latency_and_one_made_before_does_not() {
    let mut timeline = chat();
    timeline.times.admitted = Nanos::from_millis(990);
    timeline.times.connect_begin = Some(Nanos::from_millis(991));
    assert_eq!(see(Family::Vllm, &timeline, Route::Chat).start, Nanos::from_millis(991));
    timeline.times.connect_begin = Some(Nanos::from_millis(500));
    assert_eq!(see(Family::Vllm, &timeline, Route::Chat).start, Nanos::from_millis(1_000));
}

#[test]
fn routes_are_read_from_the_target() {
    let check = |endpoint: &str, backend: &str, expected: Route| {
        let target = TargetInfo {
            endpoint: endpoint.into(),
            backend: backend.into(),
            ..testing::info(testing::load(None, 1)).targets[0].clone()
        };
        assert_eq!(Route::of(&target), expected, "{endpoint}");
    };
    check("/v1/completions", "vllm", Route::Completions);
    check("/v1/chat/completions", "openai", Route::Chat);
    check("/generate", "sglang", Route::Native);
    check("/generate_stream", "tgi", Route::Completions);
}

/// Start in ms, events, tokens.
type Answer = (u64, &'static [(u64, EventKind)], u32);

/// Three requests: 1.0 to 1.4 s, 1.5 to 1.9 s and 1.8 to 3.1 s, of 4, 1 and 3 tokens; one failure.
fn run(family: Family, load: &RecordedLoad) -> FamilyFigures {
    let mut collector = collector(family, Details::Keep);
    let answers: [Answer; 3] = [
        (1_000, &[(1_100, Text), (1_200, Text), (1_300, Text), (1_400, Text), (1_400, Usage)], 4),
        (1_500, &[(1_900, Text), (1_900, Usage)], 1),
        (1_800, &[(2_100, Text), (2_600, Text), (3_100, Text), (3_100, Usage)], 3),
    ];
    for (index, (start, events, tokens)) in (0..).zip(answers) {
        let mut timeline = testing::answer(index, start, events);
        timeline.usage = Some(testing::usage(10, tokens));
        timeline.requested.prompt_tokens = Some(10);
        timeline.times.intended = Some(Nanos::from_millis(start - 100));
        collector.push(&timeline, Route::Completions);
    }
    let mut failed = testing::answer(3, 1_200, &[]);
    failed.outcome = Outcome::Failed(Failure::new(FailureKind::Status, "overloaded"));
    collector.push(&failed, Route::Completions);
    let objectives = Objectives { ttft_ms: Some(300.0), tpot_ms: Some(100.0), e2el_ms: None };
    collector.finish(&Frame {
        begin: Nanos::ZERO,
        accept_length: None,
        duration: Nanos::from_secs(4),
        info: &testing::info(load.clone()),
        percentiles: &[99.0, 50.0],
        objectives,
        last: &last_of([(0, 0), (1, 0), (2, 0), (3, 0)]),
    })
}

fn collector(family: Family, details: Details) -> Box<FamilyCollector> {
    Box::new(FamilyCollector::new(family, Nanos::ZERO, details))
}

/// For attempts that were pushed in this order, as (request, attempt).
fn last_of<const N: usize>(attempts: [(u64, u32); N]) -> LastOfEach {
    LastOfEach::among(&attempts, |attempt| *attempt)
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn sums_and_statistics_are_those_of_successful_requests() {
    let found = run(Family::Vllm, &testing::load(None, 4));
    assert_eq!((found.completed, found.failed), (3, 1));
    assert_eq!((found.total_input, found.total_output), (30, 8));
    near(found.request_throughput, 0.75);
    near(found.output_throughput, 2.0);
    near(found.total_throughput, 9.5);
    // TTFT 100, 400, 300; E2E 400, 400, 1300; TPOT 100 and 500, the one-token answer left out.
    near(found.ttft.mean, 800.0 / 3.0);
    near(found.ttft.median, 300.0);
    near(found.ttft.percentiles[0].1, 398.0);
    assert_eq!(found.ttft.percentiles[1], (50.0, 300.0));
    assert_eq!(found.tpot.count, 2);
    near(found.tpot.mean, 300.0);
    near(found.tpot.std, 200.0);
    // Pooled gaps: three of 100 ms and two of 500 ms.
    near(found.itl.mean, 260.0);
    near(found.itl.max, 500.0);
    near(found.e2el.mean, 700.0);
    near(found.concurrency, 2.1 / 4.0);
    // 100 ms, 100 ms is good; 400 ms TTFT and 500 ms TPOT are not; a missing TPOT would be.
    assert_eq!(found.goodput, Some(0.25));
    near(found.client_queue.mean, 100.0);
    near(found.e2el_with_queue.mean, 800.0);
    assert_eq!(found.retokenized, None);
}

/// Seconds from 1.0: chunks at .1 .2 .3 .4 .9 | 1.1 1.6 | 2.1, and two requests touch each of the
/// first two seconds although never more than two are in flight.
#[test]
fn peaks_count_chunks_and_touched_seconds() {
    let found = run(Family::Vllm, &testing::load(None, 4));
    near(found.peak_output_throughput, 5.0);
    assert_eq!(found.peak_concurrent_requests, 3);
}

#[test]
fn detail_arrays_follow_the_plan_and_hold_zeros_for_failures() {
    let detail = run(Family::Vllm, &testing::load(None, 4)).detail.unwrap();
    assert_eq!(detail.output_lens, [4, 1, 3, 0]);
    assert_eq!(detail.ttfts, [0.1, 0.4, 0.3, 0.0]);
    assert_eq!(detail.itls, [vec![0.1; 3], vec![], vec![0.5; 2], vec![]]);
    assert_eq!(detail.start_times, [1.0, 1.5, 1.8, 1.2]);
    assert_eq!(detail.errors, ["", "", "", "overloaded"]);
}

#[test]
fn empty_lists_are_zero_in_another_tools_figures() {
    let collector = collector(Family::Vllm, Details::Drop);
    let load = testing::load(None, 0);
    let found = collector.finish(&Frame {
        begin: Nanos::ZERO,
        accept_length: None,
        duration: Nanos::ZERO,
        info: &testing::info(load),
        percentiles: &[99.0],
        objectives: Objectives::default(),
        last: &last_of([]),
    });
    assert_eq!((found.completed, found.goodput), (0, None));
    assert_eq!((found.ttft.mean, found.itl.percentile(99.0)), (0.0, Some(0.0)));
    assert_eq!((found.request_throughput, found.peak_output_throughput), (0.0, 0.0));
}

#[test]
fn a_retried_request_counts_once_by_its_last_attempt() {
    let mut collector = collector(Family::Vllm, Details::Keep);
    let mut failed = testing::answer(0, 1_000, &[]);
    failed.outcome = Outcome::Failed(Failure::new(FailureKind::Status, "busy"));
    let mut again = testing::answer(0, 2_000, &[(2_100, Text)]);
    again.identity.attempt = 1;
    collector.push(&failed, Route::Completions);
    collector.push(&again, Route::Completions);
    let load = testing::load(None, 1);
    let found = collector.finish(&Frame {
        begin: Nanos::ZERO,
        accept_length: None,
        duration: Nanos::from_secs(1),
        info: &testing::info(load),
        percentiles: &[],
        objectives: Objectives::default(),
        last: &last_of([(0, 0), (0, 1)]),
    });
    assert_eq!((found.completed, found.failed), (1, 0));
    assert_eq!(found.detail.unwrap().errors, [""]);
}

#[test]
fn the_rust_clients_window_runs_from_the_first_full_instant_to_the_last() {
    let load = RecordedLoad { max_concurrency: Some(2), ..testing::load(None, 4) };
    let found = run(Family::VllmRust, &load).steady.unwrap();
    // Two in flight from 1.8 to 1.9 s: one start, one end, and the end itself is outside.
    assert_eq!((found.threshold_requests, found.observed_peak), (2, 2));
    near(found.begin_s, 0.8);
    near(found.end_s, 0.9);
    assert_eq!((found.started, found.completed, found.total), (1, 0, 3));
    near(found.input_throughput, 100.0);
    assert!(found.is_short);
    near(found.ttft.mean, 300.0);
    assert!(run(Family::VllmRust, &testing::load(Some(1.0), 4)).steady.is_none());
}

/// vLLM's client of the Responses API counts no pieces of a tool call, and fails an answer without text.
#[test]
fn pieces_of_a_tool_call_are_no_tokens_to_vllm_s_responses_client() {
    let mut timeline = chat();
    timeline.events.clear();
    let start = timeline.times.first_byte_sent.unwrap();
    let at = |millis: u64| start + Nanos::from_millis(millis);
    for (read, (millis, kind)) in (0..).zip([
        (40, ToolCall),
        (60, Text),
        (70, ToolCall),
        (90, Text),
        (95, ToolCall),
        (99, Usage),
    ]) {
        timeline.push(tokometer_record::Event::new(at(millis), read, kind));
    }
    let seen = see(Family::Vllm, &timeline, Route::Responses);
    assert_eq!((seen.ttft, seen.latency), (Nanos::from_millis(60), Nanos::from_millis(90)));
    assert_eq!((seen.gaps.len(), seen.is_success), (1, true));
    let other = see(Family::Vllm, &timeline, Route::Chat);
    assert_eq!((other.ttft, other.gaps.len()), (Nanos::from_millis(40), 4));
    timeline.events.retain(|event| event.kind != Text);
    assert!(!see(Family::Vllm, &timeline, Route::Responses).is_success);
}

/// vLLM's clients stop their timer before they read the body; its E2EL was that of the body's end.
#[test]
fn the_latency_of_an_embedding_ends_with_the_header_for_vllm() {
    let mut timeline = testing::answer(0, 1_000, &[(1_100, EventKind::Result)]);
    timeline.times.headers = Some(Nanos::from_millis(1_050));
    timeline.times.end = Some(Nanos::from_millis(1_140));
    let latency = |family: Family| see(family, &timeline, Route::Pooling).latency.0 / 1_000_000;
    assert_eq!([Family::Vllm, Family::VllmRust, Family::Sglang].map(latency), [50, 50, 140]);
}
