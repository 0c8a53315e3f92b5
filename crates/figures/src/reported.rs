//! What a server reports about its own responses, without impossible values.
//!
//! The record holds whatever was sent. Figures read it through this module: an impossible value is
//! treated as absent, and a note counts how often that happened.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_record::{EventKind, ServerTimings, Timeline};

/// Tolerated difference between the server's clock and the client's over one response.
const CLOCK_SLACK: Nanos = Nanos::from_millis(10);

/// Content events that a response may have beyond its usage count: real servers send one or two more.
const EVENTS_BEYOND: u64 = 2;

/// The same as a fraction of the tokens: one in this many.
const EVENTS_BEYOND_PART: u64 = 20;

/// Content events that a response may have beyond this many tokens.
fn tolerated_events(tokens: u64) -> u64 {
    EVENTS_BEYOND.max(tokens / EVENTS_BEYOND_PART)
}

/// `None` if they exceed the output tokens.
pub(crate) fn reasoning_tokens(timeline: &Timeline) -> Option<u32> {
    let usage = timeline.usage?;
    let all = usage.completion_tokens;
    usage.reasoning_tokens.filter(|tokens| all.is_none_or(|all| *tokens <= all))
}

/// Prefix-cache hits; `None` if they exceed the prompt.
pub fn cached_tokens(timeline: &Timeline) -> Option<u32> {
    let usage = timeline.usage?;
    let all = usage.prompt_tokens;
    usage.cached_tokens.filter(|tokens| all.is_none_or(|all| *tokens <= all))
}

/// The server's own durations, without those longer than the whole request.
pub(crate) fn timings(timeline: &Timeline) -> ServerTimings {
    let reported = timeline.server_timings.unwrap_or_default();
    let times = &timeline.times;
    let end = times.end.or(timeline.events.last().map(|event| event.at));
    let limit = times.first_byte_sent.zip(end).map(|(sent, end)| (end - sent) + CLOCK_SLACK);
    let possible = |span: &Nanos| limit.is_none_or(|limit| *span <= limit);
    ServerTimings {
        queue: reported.queue.filter(possible),
        prefill: reported.prefill.filter(possible),
        decode: reported.decode.filter(possible),
    }
}

/// Whether usage counts fewer tokens than the stream has content events, or came before the content
/// and was not corrected. More tokens than events are possible: speculative decoding sends several in
/// one.
pub(crate) fn contradicts_stream(timeline: &Timeline) -> bool {
    let Some(reported) = timeline.usage.and_then(|usage| usage.completion_tokens) else {
        return false;
    };
    let contents = |events: &[tokometer_record::Event]| {
        events.iter().filter(|event| event.kind.is_generated()).count() as u64
    };
    let all = contents(&timeline.events);
    let reported = u64::from(reported);
    let tolerated = tolerated_events(reported);
    let last_usage = timeline.events.iter().rposition(|event| event.kind == EventKind::Usage);
    let uncounted = last_usage.map_or(0, |at| contents(&timeline.events[at..]));
    (reported == 0 && all > 0) || all > reported + tolerated || uncounted > tolerated
}

/// Ignored values: number of responses by kind of value.
pub type Ignored = BTreeMap<&'static str, u64>;

pub(crate) fn count_ignored(timeline: &Timeline, ignored: &mut Ignored) {
    let usage = timeline.usage.unwrap_or_default();
    let reported = timeline.server_timings.unwrap_or_default();
    let kept = timings(timeline);
    let found = [
        (
            "reasoning tokens",
            usage.reasoning_tokens.is_some(),
            reasoning_tokens(timeline).is_some(),
        ),
        ("cached tokens", usage.cached_tokens.is_some(), cached_tokens(timeline).is_some()),
        ("queue time", reported.queue.is_some(), kept.queue.is_some()),
        ("prefill time", reported.prefill.is_some(), kept.prefill.is_some()),
        ("decode time", reported.decode.is_some(), kept.decode.is_some()),
    ];
    for (name, _, _) in found.into_iter().filter(|(_, is_reported, is_kept)| is_reported != is_kept)
    {
        *ignored.entry(name).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::EventKind::{Text, Usage as UsageEvent};
    use tokometer_record::Usage;

    use super::*;
    use crate::testing::{answer, usage};

    fn texts(count: u64) -> Vec<(u64, EventKind)> {
        (0..count).map(|at| (10 + at, Text)).collect()
    }

    #[test]
    fn usage_below_the_content_events_contradicts_them_beyond_a_tolerance() {
        let check = |events: u64, reported: u32, expected: bool| {
            let mut timeline = answer(0, 0, &texts(events));
            timeline.usage = Some(usage(5, reported));
            assert_eq!(
                contradicts_stream(&timeline),
                expected,
                "{events} events, usage {reported}"
            );
        };
        check(8, 8, false);
        check(8, 4, true);
        check(8, 0, true);
        check(1, 0, true);
        check(10, 8, false);
        check(11, 8, true);
        check(105, 100, false);
        check(106, 100, true);
        // Speculative decoding: several tokens in one event.
        check(20, 100, false);
        assert!(!contradicts_stream(&answer(0, 0, &texts(8))), "no usage says nothing");
    }

    #[test]
    fn usage_that_comes_first_and_never_again_contradicts_the_content_behind_it() {
        let mut events = vec![(5, UsageEvent)];
        events.extend(texts(8));
        let mut timeline = answer(0, 0, &events);
        timeline.usage = Some(usage(5, 8));
        assert!(contradicts_stream(&timeline));
        events.push((30, UsageEvent));
        let mut timeline = answer(0, 0, &events);
        timeline.usage = Some(usage(5, 8));
        assert!(!contradicts_stream(&timeline));
    }

    #[test]
    fn numbers_that_cannot_be_true_are_ignored_and_counted() {
        let mut timeline = answer(0, 0, &texts(8));
        timeline.usage =
            Some(Usage { cached_tokens: Some(6), reasoning_tokens: Some(9), ..usage(5, 8) });
        timeline.server_timings = Some(ServerTimings {
            queue: Some(Nanos(u64::MAX)),
            prefill: Some(Nanos::from_millis(3)),
            decode: None,
        });
        assert_eq!((reasoning_tokens(&timeline), cached_tokens(&timeline)), (None, None));
        let kept = ServerTimings { queue: None, ..timeline.server_timings.unwrap() };
        assert_eq!(timings(&timeline), kept);
        let mut ignored = Ignored::default();
        count_ignored(&timeline, &mut ignored);
        let expected = [("cached tokens", 1), ("queue time", 1), ("reasoning tokens", 1)];
        assert_eq!(ignored, expected.into());
    }
}
