//! The formulas of [`crate::define`]: values of one timeline.
//!
//! Durations are in nanoseconds as `f64`. A value that a request does not have is `None`.

use tokometer_base::Nanos;
use tokometer_record::{ContentBytes, CountSource, Event, EventKind, Timeline};

use crate::hidden::{BYTES_PER_TOKEN_MAX, hidden_tokens};

fn span(from: Option<Nanos>, to: Option<Nanos>) -> Option<f64> {
    Some((to? - from?).0 as f64)
}

fn at(event: Option<&Event>) -> Option<Nanos> {
    event.map(|event| event.at)
}

/// The end of the response, over all choices.
fn last_generated(timeline: &Timeline) -> Option<&Event> {
    let ends = |event: &&Event| event.kind.is_generated() || event.kind == EventKind::Result;
    timeline.events.iter().rfind(ends)
}

pub(crate) fn ttft(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, at(timeline.first_content()))
}

pub(crate) fn first_event(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, at(timeline.first_event()))
}

pub(crate) fn first_answer(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, at(timeline.first_answer()))
}

pub(crate) fn ttft_from_intended(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.intended, at(timeline.first_content()))
}

pub(crate) fn e2e(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, at(last_generated(timeline)))
}

pub(crate) fn items(timeline: &Timeline) -> Option<f64> {
    timeline.requested.items.filter(|items| *items > 0).map(f64::from)
}

pub(crate) fn e2e_per_item(timeline: &Timeline) -> Option<f64> {
    Some(e2e(timeline)? / items(timeline)?)
}

pub(crate) fn e2e_from_intended(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.intended, at(last_generated(timeline)))
}

pub(crate) fn end_of_stream(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, timeline.times.end)
}

pub(crate) fn client_queue(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.intended, Some(timeline.times.admitted))
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

pub(crate) fn connect(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.connect_begin, timeline.times.connect_end)
}

pub(crate) fn tls(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.connect_end, timeline.times.tls_end)
}

pub(crate) fn upload(timeline: &Timeline) -> Option<f64> {
    span(timeline.times.first_byte_sent, timeline.times.last_byte_sent)
}

/// Output tokens that were streamed.
pub(crate) fn streamed_tokens(timeline: &Timeline) -> Option<u32> {
    let (tokens, _) = timeline.output_tokens()?;
    Some(tokens.saturating_sub(hidden_tokens(timeline)))
}

/// Whether all of an answer's tokens came in one event. Events without text may hold tokens too.
pub(crate) fn is_in_one_event(timeline: &Timeline) -> bool {
    let count = |wanted: fn(EventKind) -> bool| {
        timeline.events.iter().filter(|event| wanted(event.kind)).count()
    };
    let (contents, empties) =
        (count(EventKind::is_content), count(|kind| kind == EventKind::Empty));
    let tokens = streamed_tokens(timeline).unwrap_or(0) as usize;
    contents == 1 && contents + empties < tokens
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

/// Nanoseconds from the first to the last content, and the tokens that arrived in that time after the
/// first event. `None` for an answer in one piece: nothing passed between its tokens that could be
/// measured.
fn decode(timeline: &Timeline) -> Option<(f64, f64)> {
    let is_content = |event: &Event| event.kind.is_content();
    let first = timeline.events.iter().position(is_content)?;
    let last = timeline.events.iter().rposition(is_content).filter(|last| *last != first)?;
    let later = if let Some(counted) = counted_between(timeline, first, last) {
        f64::from(counted)
    } else {
        let inside =
            f64::from(first_choice_tokens(timeline)?) - tokens_outside(timeline, first, last)?;
        let in_first = timeline.events[first].tokens().map(f64::from);
        inside - in_first.unwrap_or_else(|| opening_tokens(timeline, inside))
    };
    let span = timeline.events[last].at - timeline.events[first].at;
    (later > 0.0).then_some((span.0 as f64, later))
}

/// Fewest tokens by which a first event is taken for more than one token. A single one may be three times
/// as long as the others are on average.
const OPENING_TOKENS_MIN: f64 = 3.0;

/// Tokens of a first content event that does not report them, of `inside` tokens from there to the last content.
/// Engines begin with one token, also those that send several later on. Gateways and servers that join tokens do
/// not: there the event has its share of the text, as far as the other events leave tokens for it.
fn opening_tokens(timeline: &Timeline, inside: f64) -> f64 {
    // A text that is far too long for its tokens holds something else, such as the repeated prompt.
    let is_usable =
        |bytes: &ContentBytes| bytes.all > 0 && bytes.all as f64 <= inside * BYTES_PER_TOKEN_MAX;
    let Some(bytes) = timeline.content_bytes.filter(is_usable) else { return 1.0 };
    let likely = (inside * (bytes.first as f64 / bytes.all as f64)).round();
    let contents = timeline.events.iter().filter(|event| event.kind.is_content()).count();
    let most = inside - contents.saturating_sub(1) as f64;
    if likely >= OPENING_TOKENS_MIN && most >= OPENING_TOKENS_MIN { likely.min(most) } else { 1.0 }
}

/// Tokens that the events behind `first` report up to `last`; `None` unless each content event reports
/// its own.
fn counted_between(timeline: &Timeline, first: usize, last: usize) -> Option<u32> {
    timeline.events[first].tokens()?;
    let has_several = timeline.has_further_choices();
    timeline.events[first + 1..=last].iter().try_fold(0, |sum: u32, event| match event.kind {
        kind if kind.is_content() => Some(sum.saturating_add(event.tokens()?)),
        // Half a character, or a special token between two texts.
        EventKind::Empty if !has_several => Some(sum.saturating_add(event.tokens().unwrap_or(0))),
        _ => Some(sum),
    })
}

/// Events without text behind the last content that may hold a token or none where content events hold several:
/// the end token, and one more.
const UNSURE_EMPTIES: usize = 2;

/// The same as a share of the tokens.
const UNSURE_EMPTIES_SHARE: f64 = 0.05;

/// Tokens of usage that came before the first content or after the last, in events without text: the
/// end token, and special tokens, which models generate in long rows behind an ignored end. Such an
/// event counts as one token, as far as the content events leave tokens for it. `None` where content events hold
/// several tokens, so that the events behind them may be special tokens or only keep the connection open.
fn tokens_outside(timeline: &Timeline, first: usize, last: usize) -> Option<f64> {
    let Some((_, CountSource::Usage)) = timeline.output_tokens() else { return Some(0.0) };
    let tokens = streamed_tokens(timeline).unwrap_or(0) as usize;
    let empties =
        |events: &[Event]| events.iter().filter(|event| event.kind == EventKind::Empty).count();
    let (before, after) = (empties(&timeline.events[..first]), empties(&timeline.events[last..]));
    if before + after == 0 {
        return Some(0.0);
    }
    let all_empty = before + after + empties(&timeline.events[first..last]);
    let is_generated = |event: &&Event| event.kind.is_generated();
    let contents = timeline.events[first..=last].iter().filter(is_generated).count();
    // The last one has only the finish reason, unless the tokens need every event.
    let has_bare_finish = after > 0 && contents + all_empty != tokens;
    let bare = usize::from(has_bare_finish);
    let (empty, after) = (all_empty - bare, after - bare);
    let left = tokens.saturating_sub(contents);
    if empty == 0 {
        Some(0.0)
    } else if left <= empty {
        Some(left as f64 * (before + after) as f64 / empty as f64)
    } else {
        // Before the first content they keep the connection open: an engine begins with one token per event.
        let is_small =
            after <= UNSURE_EMPTIES || after as f64 <= UNSURE_EMPTIES_SHARE * tokens as f64;
        is_small.then_some(after as f64)
    }
}

pub(crate) fn tpot(timeline: &Timeline) -> Option<f64> {
    let (span, tokens) = decode(timeline)?;
    Some(span / tokens)
}

pub(crate) fn tokens_per_s_per_user(timeline: &Timeline) -> Option<f64> {
    let (span, tokens) = decode(timeline)?;
    (span > 0.0).then(|| tokens / span * 1e9)
}

pub(crate) fn prompt_tokens(timeline: &Timeline) -> Option<f64> {
    timeline.prompt_tokens().map(f64::from)
}

pub(crate) fn output_tokens(timeline: &Timeline) -> Option<f64> {
    timeline.output_tokens().map(|(tokens, _)| f64::from(tokens))
}

/// A gap between two content events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gap {
    /// When the later event arrived.
    pub(crate) at: Nanos,
    /// Time since the earlier one.
    pub(crate) length: Nanos,
    /// Tokens inside the later event; `None` if unknown.
    pub(crate) tokens: Option<u32>,
}

impl Gap {
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

/// All gaps of a response.
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

pub(crate) fn each_gap(timeline: &Timeline, add: &mut dyn FnMut(f64, u32)) {
    gap_runs(timeline).for_each(|(gap, count)| add(gap.length.0 as f64, count));
}

pub(crate) fn each_token_gap(timeline: &Timeline, add: &mut dyn FnMut(f64, u32)) {
    for (length, tokens) in gaps(timeline).filter_map(|gap| gap.per_token()) {
        add(length, tokens);
    }
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
    use tokometer_record::{AttemptId, Phase, RequestedLengths, Usage};

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

    #[test]
    fn an_answer_in_one_event_has_others_only_without_tokens() {
        use EventKind::{Empty, Role, Text, Usage};
        let check = |kinds: &[EventKind], tokens: u32, expected: bool| {
            let events: Vec<_> = (1_u64..).zip(kinds.iter().copied()).collect();
            let mut timeline = crate::testing::answer(0, 0, &events);
            timeline.usage = Some(crate::testing::usage(7, tokens));
            assert_eq!(is_in_one_event(&timeline), expected, "{kinds:?}, {tokens} tokens");
        };
        check(&[Text], 20, true);
        check(&[Role, Text, Empty, Usage], 20, true);
        check(&[Text, Text], 20, false);
        check(&[Text], 1, false);
        // A model that goes on with special tokens behind its first word.
        check(&[Text, Empty, Empty, Empty, Usage], 4, false);
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
        assert_eq!(output_tokens(&answer(None)), Some(6.0));
        let mut uncounted = answer(None);
        (uncounted.usage, uncounted.retokenized_tokens) = (None, Some(3));
        assert_eq!(output_tokens(&uncounted), None, "the text is that of the first choice");
    }

    /// A text event every 10 ms, then events without text, as a model streams that goes on behind its
    /// end token. The time per token was computed as if all tokens had come with the text.
    #[test]
    fn tokens_without_text_outside_of_the_text_do_not_shorten_the_time_per_token() {
        use EventKind::{Empty, End, Role, Text, Usage};
        let check = |kinds: &[(EventKind, u64)], tokens: u32, expected_ms: f64| {
            let kinds = kinds.iter().flat_map(|(kind, count)| (0..*count).map(|_| *kind));
            let events: Vec<_> = (1_u64..).map(|at| at * 10).zip(kinds.clone()).collect();
            let mut timeline = crate::testing::answer(0, 0, &events);
            timeline.usage = Some(crate::testing::usage(7, tokens));
            let found = tpot(&timeline).unwrap() / 1e6;
            assert!((found - expected_ms).abs() < 1e-9, "{found} ms: {events:?}, {tokens} tokens");
        };
        check(&[(Text, 10), (Usage, 1), (End, 1)], 10, 10.0);
        // The end token with the finish reason, and the finish reason alone.
        check(&[(Role, 1), (Text, 9), (Empty, 1), (Usage, 1)], 10, 10.0);
        check(&[(Text, 10), (Empty, 1), (Usage, 1), (End, 1)], 10, 10.0);
        // Special tokens behind the text and before it.
        check(&[(Text, 10), (Empty, 10), (Usage, 1)], 20, 10.0);
        check(&[(Text, 10), (Empty, 11), (Usage, 1)], 20, 10.0);
        check(&[(Empty, 10), (Text, 10), (Empty, 1)], 20, 10.0);
        // Halves of characters between two texts are part of the span.
        check(&[(Text, 5), (Empty, 10), (Text, 5), (Empty, 1)], 20, 10.0);
        // Events without text that hold no token: all tokens came with the text.
        check(&[(Empty, 3), (Text, 10), (Empty, 3)], 10, 10.0);
        // Several tokens per event, with and without a finish reason alone.
        check(&[(Text, 11)], 41, 2.5);
        // What keeps the connection open before the first of them holds no token: it counted as one each.
        check(&[(Empty, 9), (Text, 11), (Empty, 1)], 41, 2.5);
        check(&[(Text, 11), (Empty, 1)], 41, 2.5);
        assert_eq!(
            tpot(&{
                let mut text = crate::testing::answer(0, 0, &[(10, Text), (20, Text), (30, Empty)]);
                text.retokenized_tokens = Some(3);
                text
            }),
            Some(5e6),
            "a count of the text has no token without text"
        );
    }

    /// Five events of four tokens and five without text, which may be special tokens or keep the connection open.
    #[test]
    fn events_without_text_behind_those_of_several_tokens_leave_the_time_per_token_unknown() {
        let found = |empties: u64| {
            let text = (1..=5).map(|at| (at * 10, EventKind::Text));
            let rest = (6..=5 + empties).map(|at| (at * 10, EventKind::Empty));
            let mut timeline = crate::testing::answer(0, 0, &text.chain(rest).collect::<Vec<_>>());
            timeline.usage = Some(crate::testing::usage(7, 20));
            tpot(&timeline)
        };
        assert_eq!(found(1), Some(40e6 / 19.0));
        assert_eq!(found(6), None);
    }

    /// A first event of 17 tokens and 83 of one token every 10 ms, which took 830 ms: the first counted as one
    /// token, so the time per token was 8.4 ms.
    #[test]
    fn a_first_event_of_several_tokens_has_its_share_of_the_text() {
        let check = |events: u64, tokens: u32, bytes: Option<(u64, u64)>, expected_ms: f64| {
            let events: Vec<_> = (1..=events).map(|at| (at * 10, EventKind::Text)).collect();
            let mut timeline = crate::testing::answer(0, 0, &events);
            timeline.usage = Some(crate::testing::usage(7, tokens));
            timeline.content_bytes =
                bytes.map(|(first, all)| ContentBytes { first, all, reasoning: None });
            let found = tpot(&timeline).unwrap() / 1e6;
            assert!((found - expected_ms).abs() < 1e-9, "{found} ms: {tokens} tokens, {bytes:?}");
        };
        check(84, 100, Some((85, 500)), 10.0);
        check(84, 100, None, 830.0 / 99.0);
        // Even groups of five tokens.
        check(20, 100, Some((25, 500)), 2.0);
        // Speculative decoding: one token, then three in each event.
        check(31, 91, Some((7, 455)), 300.0 / 90.0);
        // One token per event: a long word is one token, whatever its share.
        check(100, 100, Some((40, 500)), 10.0);
        check(100, 101, Some((40, 500)), 9.9);
        // The prompt, repeated before the answer: its share would be all tokens.
        check(20, 100, Some((4_000, 4_475)), 190.0 / 99.0);
        // The other events leave no more than four.
        check(97, 100, Some((85, 500)), 10.0);
    }

    #[test]
    fn counts_of_events_give_the_tokens_of_the_span_exactly() {
        let events = [(0, Some(3)), (2, Some(4)), (2, Some(2)), (1, Some(1)), (2, Some(4))];
        let mut timeline = crate::testing::answer(0, 0, &[]);
        for ((kind, tokens), at) in events.into_iter().chain([(1, Some(9))]).zip(1_u64..) {
            let event = Event::new(Nanos::from_millis(at * 70), 0, EventKind::from_number(kind));
            timeline.push(event.with_tokens(tokens));
        }
        timeline.usage = Some(crate::testing::usage(7, 23));
        // 2 + 1 + 4 tokens in the 210 ms behind the first text.
        assert_eq!(tpot(&timeline), Some(3e7));
    }
}
