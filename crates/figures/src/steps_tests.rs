//! Steps in constructed streams: together, delayed, separate, merged, and too many.

use tokometer_record::EventKind::Text;

use tokometer_record::{ClockFit, MergedRun, MergedShard, Sharding, Stop};

use super::*;
use crate::testing::{answer, info, load, usage};

/// Streams that all get a token at the given milliseconds.
fn in_step(streams: u64, times: &[u64]) -> Vec<Timeline> {
    let events: Vec<_> = times.iter().map(|at| (*at, Text)).collect();
    (0..streams).map(|index| answer(index, times[0] - 10, &events)).collect()
}

fn steps(timelines: &[Timeline]) -> Steps {
    let mut collector = StepCollector::default();
    for timeline in timelines {
        collector.push(timeline);
    }
    collector.finish().unwrap()
}

fn seen(timelines: &[Timeline]) -> StepFigures {
    match steps(timelines) {
        Steps::Seen(figures) => figures,
        Steps::Refused { why } => panic!("{why}"),
    }
}

fn refused(timelines: &[Timeline]) -> String {
    match steps(timelines) {
        Steps::Refused { why } => why,
        Steps::Seen(figures) => panic!("{figures:?}"),
    }
}

#[test]
fn tokens_that_arrive_together_are_one_step() {
    let times: Vec<u64> = (1..=50).map(|step| step * 20).collect();
    let figures = seen(&in_step(8, &times));
    assert_eq!((figures.steps, figures.batch_max, figures.batch_p50), (50, 8, Some(8.0)));
    assert_eq!((figures.span_ms_p50, figures.span_ms_p99), (Some(20.0), Some(20.0)));
    assert_eq!(figures.together, Some(1.0));
    assert_eq!(figures.stalls, Some(Stalls::default()));
}

#[test]
fn a_long_step_while_a_prompt_is_waited_for_is_a_stall() {
    let mut times: Vec<u64> = (1..=40).map(|step| step * 20).collect();
    times.extend((1..=40).map(|step| 900 + step * 20));
    let mut timelines = in_step(4, &times);
    timelines.push(answer(9, 810, &[(920, Text), (940, Text)]));
    let stalls = seen(&timelines).stalls.unwrap();
    assert_eq!((stalls.count, stalls.longest_ms), (1, 120.0));
    assert!((stalls.time_share - 100.0 / 1_680.0).abs() < 1e-9, "{stalls:?}");
}

#[test]
fn streams_that_do_not_move_together_are_refused_with_the_reason() {
    let stream = |index: u64| {
        let events: Vec<_> = (1..=60).map(|token| (token * 20 + index * 5, Text)).collect();
        answer(index, 1, &events)
    };
    let why = refused(&(0..4).map(stream).collect::<Vec<_>>());
    assert!(why.contains("reached only 25 % of the active streams"), "{why}");
    // So dense that groups merge and serve a stream several times.
    let stream = |index: u64| {
        let events: Vec<_> = (1..=600).map(|token| (token * 20 + index, Text)).collect();
        answer(index, 1, &events)
    };
    let why = refused(&(0..20).map(stream).collect::<Vec<_>>());
    assert!(why.contains("follow the one before without a pause"), "{why}");
}

/// These streams, with the pause of vLLM between parts of 128 streams.
fn in_parts(streams: u64, part: u64) -> Vec<Timeline> {
    let stream = |index: u64| {
        let pause = |step: u64| if step > 1 { index / part * 10 } else { 0 };
        let events: Vec<_> = (1..=50).map(|step| (step * 40 + pause(step), Text)).collect();
        answer(index, 30, &events)
    };
    (0..streams).map(stream).collect()
}

/// vLLM hands out the results of a step in parts of 128 streams. Each part was a step of its own: 3,026
/// steps for the 2,389 of the server's counter.
#[test]
fn the_parts_of_a_step_are_one_step() {
    for streams in [127, 128, 129, 200, 256, 300, 384] {
        let figures = seen(&in_parts(streams, 128));
        assert_eq!((figures.steps, u64::from(figures.batch_max)), (50, streams), "{streams}");
        assert_eq!((figures.span_ms_p50, figures.together), (Some(40.0), Some(1.0)), "{streams}");
    }
    // Two engines serve any number of streams.
    let why = refused(&in_parts(200, 100));
    assert!(why.contains("reached only 51 % of the active streams"), "{why}");
}

/// A part has 128 results, and some of them are half a letter, of which nothing is sent yet.
#[test]
fn a_part_of_which_some_results_have_no_text_is_still_a_part() {
    let mut timelines = in_parts(256, 128);
    for (number, timeline) in
        timelines.iter_mut().enumerate().filter(|(number, _)| number % 16 == 3)
    {
        let step = 20 + number / 16;
        timeline.events.remove(step);
    }
    let figures = seen(&timelines);
    assert_eq!((figures.steps, figures.batch_max), (50, 256));
}

/// At 256 in flight a server that sends one event after the other is never done before the next step:
/// 26 % of the steps of a real one followed without a pause, and each of them was one of its counter's.
#[test]
fn steps_of_a_busy_server_follow_without_a_pause() {
    let stream = |index: u64| {
        let at = |step: u64| step * 20 + step % 2 * 4 + index;
        let events: Vec<_> = (1..=50).map(|step| (at(step), Text)).collect();
        answer(index, 1, &events)
    };
    let figures = seen(&(0..16).map(stream).collect::<Vec<_>>());
    assert_eq!((figures.steps, figures.batch_max), (50, 16));
}

/// A server that falls behind sends the tokens of several steps in one event: 12 % of the steps of a real
/// server at 128 in flight were missing.
#[test]
fn steps_whose_tokens_came_with_a_later_one_are_counted() {
    let of = |tokens: &[u32]| {
        let times: Vec<u64> = (1..=50).map(|step| step * 20).collect();
        let mut timelines = in_step(6, &times[..40]);
        timelines.extend(in_step(6, &times));
        for (timeline, tokens) in timelines.iter_mut().zip(tokens.iter().cycle()) {
            timeline.usage = Some(usage(8, *tokens));
        }
        let figures = seen(&timelines);
        (figures.steps, figures.joined)
    };
    let plain = [[40; 6], [50; 6]].concat();
    assert_eq!(of(&plain), (50, 0));
    let behind = [[40; 6], [55; 6]].concat();
    assert_eq!(of(&behind), (55, 5), "the last ten steps have five more");
    let twice = [[80; 6], [100; 6]].concat();
    assert_eq!(of(&twice), (50, 0), "speculative decoding");
}

#[test]
fn shared_reads_and_short_runs_are_refused_with_the_reason() {
    let times: Vec<u64> = (1..=50).map(|step| step * 20).collect();
    let mut timelines = in_step(2, &times);
    for event in &mut timelines[0].events {
        event.read = 0;
    }
    assert!(refused(&timelines).contains("49 % of the events arrived in the same read"));
    assert!(
        refused(&in_step(2, &[20, 40]))
            .contains("only 2 groups of tokens were found, at least 30 are needed")
    );
    assert_eq!(StepCollector::default().finish(), None);
}

/// With clocks that are 8 ms apart the tokens of a step looked like those of two engines, or like steps of
/// half the length.
#[test]
fn clocks_that_are_less_exact_than_a_step_are_named() {
    let shard = |rank, bound: Option<u64>| MergedShard {
        rank,
        host: None,
        stop: Some(Stop::Complete),
        requests: 4,
        unwritten: 0,
        in_flight: 0,
        unreadable: 0,
        never_sent: Some(0),
        clock: bound.map(|bound| ClockFit { bound: Nanos(bound), ..ClockFit::SAME }),
        measured: None,
    };
    let times: Vec<u64> = (1..=50).map(|step| step * 20).collect();
    let steps = |bound: Option<u64>| {
        let shards = vec![shard(0, Some(0)), shard(1, bound)];
        let merged = MergedRun {
            run: "r".to_owned(),
            count: 2,
            sending: None,
            is_cap_shared: false,
            shards,
        };
        let mut info = info(load(None, 8));
        info.sharding = Some(Sharding::Merged(merged));
        let mut collector = StepCollector::of(&info);
        for timeline in &in_step(8, &times) {
            collector.push(timeline);
        }
        collector.finish().unwrap()
    };
    // Groups are as wide as a fifth of 20 ms.
    assert!(matches!(steps(Some(2_000_000)), Steps::Seen(_)));
    let Steps::Refused { why } = steps(Some(2_000_001)) else { panic!("2 ms and more") };
    let said = "the times of different shards agree within ±4.00 ms, and tokens of one step within 4.00 ms";
    assert_eq!(why, said);
    let Steps::Refused { why } = steps(None) else { panic!("unknown clocks") };
    assert!(why.contains("within an unknown error"), "{why}");
}

#[test]
fn long_runs_are_seen_in_stretches_and_no_duration_spans_a_hole() {
    let times: Vec<u64> = (1..=2_000).map(|step| step * 20).collect();
    let mut collector =
        StepCollector { tokens: Stretches::of_at_most(2_000), ..StepCollector::default() };
    for timeline in in_step(4, &times) {
        collector.push(&timeline);
    }
    let stride = collector.tokens.stride();
    assert!(stride > 1);
    let Some(Steps::Seen(figures)) = collector.finish() else { panic!("refused") };
    assert_eq!((figures.span_ms_p50, figures.span_ms_p99), (Some(20.0), Some(20.0)));
    assert!((figures.kept_share * stride as f64 - 1.0).abs() < 1e-9);
}

/// A stream between two kept stretches takes no memory, and no figure shows that it is missing.
#[test]
fn streams_outside_of_the_kept_stretches_are_dropped_without_a_trace() {
    let timelines: Vec<Timeline> = (0..4_000)
        .map(|index| {
            let start = index * 25 + index % 7;
            let events: Vec<_> = (1..=6).map(|step| ((start / 20 + step) * 20, Text)).collect();
            answer(index, start, &events)
        })
        .collect();
    let mut bounded =
        StepCollector { tokens: Stretches::of_at_most(3_000), ..StepCollector::default() };
    let mut all = StepCollector::unbounded();
    for timeline in &timelines {
        bounded.push(timeline);
        all.push(timeline);
    }
    assert!(bounded.tokens.stride() >= 8 && bounded.streams.len() * 4 < all.streams.len());
    let with_all_streams = StepCollector { streams: all.streams, ..bounded.clone() };
    assert_eq!(bounded.seen().unwrap(), with_all_streams.seen().unwrap());
}

/// One request at a time: the next one's first token may follow the previous one's last token within
/// the width of a step, and short responses may follow each other like that.
#[test]
fn a_step_serves_no_more_streams_than_were_in_flight() {
    let mut timelines = in_step(1, &(1..=60).map(|step| step * 100).collect::<Vec<_>>());
    timelines.push(answer(1, 6_001, &[(6_005, Text)]));
    timelines.push(answer(2, 6_006, &[(6_010, Text)]));
    let figures = seen(&timelines);
    assert_eq!((figures.batch_max, figures.steps), (1, 62));
}
