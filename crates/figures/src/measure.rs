//! The formulas of [`crate::define`]: values of one timeline.
//!
//! Durations are in nanoseconds as `f64`. A value that a request does not have is `None`.

use tokometer_base::Nanos;
use tokometer_record::{Event, EventKind, Timeline};

use crate::reported;

pub(crate) fn span(from: Option<Nanos>, to: Option<Nanos>) -> Option<f64> {
    Some((to? - from?).0 as f64)
}

pub(crate) fn at(event: Option<&Event>) -> Option<Nanos> {
    event.map(|event| event.at)
}

/// The end of the response, over all choices.
pub(crate) fn last_generated(timeline: &Timeline) -> Option<&Event> {
    let ends = |event: &&Event| event.kind.is_generated() || event.kind == EventKind::Result;
    timeline.events.iter().rfind(ends)
}

pub(crate) fn ttft(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, at(timeline.first_content()))
}

pub(crate) fn e2e(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, at(last_generated(timeline)))
}

pub(crate) fn trace_lag(timeline: &Timeline) -> Option<f64> {
    Some(timeline.times.first_byte_sent?.signed_since(timeline.times.recorded?) as f64)
}

pub(crate) fn items(timeline: &Timeline) -> Option<f64> {
    timeline.requested.items.filter(|items| *items > 0).map(f64::from)
}

/// Connecting and the TLS handshake are subtracted when they happened after the gate: they have their
/// own lines. A request that was written to a dead connection counts as sent then: the time until its
/// second send was caused by the server.
pub(crate) fn send_lateness(timeline: &Timeline) -> Option<f64> {
    let times = &timeline.times;
    let sent = times.lost_send.or(times.first_byte_sent)?;
    let wait = sent - times.admitted;
    let connecting = match (times.connect_begin, times.tls_end.or(times.connect_end)) {
        (Some(begin), Some(end)) if begin >= times.admitted && end <= sent => end - begin,
        _ => Nanos::ZERO,
    };
    Some((wait - connecting).0 as f64)
}

/// Reasoning tokens that the server counted in a response without streamed reasoning, as far as its content
/// events, each of which has a token, leave tokens for them.
pub(crate) fn hidden_tokens(timeline: &Timeline) -> u32 {
    let count = |wanted: fn(EventKind) -> bool| {
        timeline.events.iter().filter(|event| wanted(event.kind)).count()
    };
    match reported::reasoning_tokens(timeline) {
        Some(reasoning @ 1..) if count(|kind| kind == EventKind::Reasoning) == 0 => {
            let all = timeline.usage.and_then(|usage| usage.completion_tokens);
            let events = u32::try_from(count(EventKind::is_generated)).unwrap_or(u32::MAX);
            reasoning.min(all.unwrap_or(u32::MAX).saturating_sub(events))
        }
        _ => 0,
    }
}

pub(crate) fn streamed_tokens(timeline: &Timeline) -> Option<u32> {
    let (tokens, _) = timeline.output_tokens()?;
    Some(tokens.saturating_sub(hidden_tokens(timeline)))
}

/// Tokens of the first choice. Usage covers all choices, so with several choices only token counts of
/// events give it.
fn first_choice_tokens(timeline: &Timeline) -> Option<u32> {
    if !timeline.has_further_choices() {
        return streamed_tokens(timeline);
    }
    let contents = timeline.events.iter().filter(|event| event.kind.is_content());
    contents.map(Event::tokens).sum()
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decode {
    /// Nanoseconds from the first content to the last.
    pub(crate) span: f64,
    /// Tokens without those of the first event, which has as many as the server states, else one.
    pub(crate) tokens: f64,
}

/// `None` for an answer in one piece: nothing passed between its tokens that could be measured.
pub(crate) fn decode(timeline: &Timeline) -> Option<Decode> {
    let (first, last) = (timeline.first_content()?, timeline.last_content()?);
    if std::ptr::eq(first, last) {
        return None;
    }
    let tokens = first_choice_tokens(timeline)?.saturating_sub(first.tokens().unwrap_or(1));
    (tokens > 0).then(|| Decode { span: (last.at - first.at).0 as f64, tokens: f64::from(tokens) })
}

pub(crate) fn tpot(timeline: &Timeline) -> Option<f64> {
    decode(timeline).map(|Decode { span, tokens }| span / tokens)
}

pub(crate) fn tokens_per_s_per_user(timeline: &Timeline) -> Option<f64> {
    let Decode { span, tokens } = decode(timeline)?;
    (span > 0.0).then(|| tokens / span * 1e9)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// When the later event arrived.
    pub(crate) at: Nanos,
    /// Time since the earlier one.
    pub(crate) length: Nanos,
    /// Tokens inside the later event; `None` if unknown.
    pub(crate) tokens: Option<u32>,
}

impl Gap {
    #[expect(clippy::unnecessary_wraps, reason = "as the formula of a metric")]
    pub(crate) fn whole(&self) -> Option<(f64, u32)> {
        Some((self.length.0 as f64, 1))
    }

    /// The gap divided among the tokens of one event, which the engine generated together (never among
    /// events that only shared a read), with their number. `None` if that is unknown or zero.
    pub(crate) fn per_token(&self) -> Option<(f64, u32)> {
        let tokens = self.tokens.filter(|tokens| *tokens > 0)?;
        Some((self.length.0 as f64 / f64::from(tokens), tokens))
    }
}

/// Tokens in each content event: as reported by the event, or one if there are as many events as
/// tokens.
fn tokens_inside(timeline: &Timeline) -> impl Fn(&Event) -> Option<u32> + use<> {
    let contents = timeline.events.iter().filter(|event| event.kind.is_content()).count();
    let is_one_each =
        first_choice_tokens(timeline).is_some_and(|tokens| tokens as usize == contents);
    move |event| event.tokens().or(is_one_each.then_some(1))
}

pub(crate) fn gaps(timeline: &Timeline) -> impl Iterator<Item = Gap> + '_ {
    let inside = tokens_inside(timeline);
    let contents = || timeline.events.iter().filter(|event| event.kind.is_content());
    contents().zip(contents().skip(1)).map(move |(earlier, later)| Gap {
        at: later.at,
        length: later.at - earlier.at,
        tokens: inside(later),
    })
}

/// The same, with equal gaps that follow each other as one with their number: those of one read are zero
/// and end at one time.
pub(crate) fn gap_runs(timeline: &Timeline) -> impl Iterator<Item = (Gap, u32)> + '_ {
    let mut gaps = gaps(timeline).peekable();
    std::iter::from_fn(move || {
        let first = gaps.next()?;
        let mut count = 1;
        while gaps.next_if_eq(&first).is_some() {
            count += 1;
        }
        Some((first, count))
    })
}

/// Calls `visit` with the time and the tokens of each content event, those of one time together. Where
/// an event does not report its tokens, those of the response are spread evenly over its events.
pub(crate) fn each_token_arrival(timeline: &Timeline, mut visit: impl FnMut(Nanos, f64)) {
    let inside = tokens_inside(timeline);
    let contents = || timeline.events.iter().filter(|event| event.kind.is_content());
    let all = streamed_tokens(timeline).map_or(0.0, f64::from);
    let share = all / (contents().count().max(1)) as f64;
    let is_known = contents().all(|event| inside(event).is_some());
    // Those of one read are visited together.
    let mut waiting: Option<(Nanos, f64)> = None;
    for event in contents() {
        let tokens = inside(event).filter(|_| is_known).map_or(share, f64::from);
        match &mut waiting {
            Some((at, sum)) if *at == event.at => *sum += tokens,
            _ => {
                if let Some((at, sum)) = waiting.replace((event.at, tokens)) {
                    visit(at, sum);
                }
            }
        }
    }
    if let Some((at, sum)) = waiting {
        visit(at, sum);
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, CountSource, Phase, RequestedLengths, Usage};

    use super::*;

    /// A whole answer, or a stream whose server sends everything at once.
    #[test]
    fn an_answer_in_one_piece_has_no_time_per_token() {
        let mut timeline = crate::testing::answer(0, 1_000, &[(1_100, EventKind::Text)]);
        timeline.retokenized_tokens = Some(20);
        assert_eq!((tpot(&timeline), tokens_per_s_per_user(&timeline)), (None, None));
        timeline.usage = Some(crate::testing::usage(7, 20));
        assert_eq!((tpot(&timeline), ttft(&timeline)), (None, Some(1e8)));
    }

    /// Two choices of three tokens each, a token of each every 10 ms. Usage counts all six, and the
    /// time per token was computed as 4 ms.
    #[test]
    fn the_tokens_of_further_choices_do_not_shorten_the_time_per_token() {
        let answer = |tokens: Option<u32>| {
            let identity = AttemptId::new(0, Phase::Measure);
            let mut timeline = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
            timeline.times.first_byte_sent = Some(Nanos::ZERO);
            for step in 1..=3 {
                let at = Nanos::from_millis(10 * step);
                for kind in [EventKind::Text, EventKind::FurtherChoice] {
                    timeline.push(Event::new(at, 0, kind).with_tokens(tokens));
                }
            }
            let usage = Usage { completion_tokens: Some(6), ..Usage::default() };
            timeline.usage = Some(usage);
            timeline
        };
        assert_eq!(tpot(&answer(None)), None, "usage does not tell the first choice's tokens");
        assert_eq!(tpot(&answer(Some(1))), Some(1e7));
        let lengths: Vec<Nanos> = gaps(&answer(None)).map(|gap| gap.length).collect();
        assert_eq!(lengths, [Nanos::from_millis(10); 2]);
        assert_eq!(answer(None).output_tokens(), Some((6, CountSource::Usage)));
        let mut uncounted = answer(None);
        (uncounted.usage, uncounted.retokenized_tokens) = (None, Some(3));
        assert_eq!(uncounted.output_tokens(), None, "the text is that of the first choice");
    }

    /// One sentence, whatever a stream looks like: what tokens outside of the time do to it is a note.
    #[test]
    fn the_time_per_token_divides_by_the_tokens_without_those_of_the_first_event() {
        use EventKind::{Empty, Reasoning, Text, Usage};
        let check = |kinds: &[(EventKind, u64)], first: Option<u32>, usage, expected_ms: f64| {
            let kinds = kinds.iter().flat_map(|(kind, count)| (0..*count).map(|_| *kind));
            let events: Vec<_> = (1_u64..).map(|at| at * 10).zip(kinds).collect();
            let mut timeline = crate::testing::answer(0, 0, &events);
            timeline.usage = Some(usage);
            timeline.events[0] = timeline.events[0].with_tokens(first);
            let found = tpot(&timeline).unwrap() / 1e6;
            assert!((found - expected_ms).abs() < 1e-9, "{found} ms: {events:?}, {usage:?}");
        };
        let tokens = |tokens: u32| crate::testing::usage(7, tokens);
        check(&[(Text, 10), (Usage, 1)], None, tokens(10), 10.0);
        check(&[(Text, 11)], None, tokens(41), 2.5);
        check(&[(Text, 84)], Some(17), tokens(100), 10.0);
        check(&[(Text, 10), (Empty, 10), (Usage, 1)], None, tokens(20), 90.0 / 19.0);
        // Reasoning that was counted and not streamed; as a text of its own; inside of the text.
        let thought = |tokens, reasoning| tokometer_record::Usage {
            reasoning_tokens: Some(reasoning),
            ..crate::testing::usage(7, tokens)
        };
        check(&[(Text, 10)], None, thought(110, 100), 10.0);
        check(&[(Reasoning, 5), (Text, 5)], None, thought(10, 5), 10.0);
        check(&[(Text, 10)], None, thought(10, 7), 10.0);
    }
}
