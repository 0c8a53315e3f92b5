//! Tokens that a server counted as reasoning and did not send.

use tokometer_base::units::nearest_count;
use tokometer_record::{ContentBytes, EventKind, Timeline};

use crate::reported;

/// Answer events that show how many tokens an event of this response holds.
const FEWEST_ANSWER_EVENTS: usize = 10;

/// Tokens of an answer that show how many bytes one has.
const FEWEST_ANSWER_TOKENS: u32 = 10;

/// Tokens per byte that a shorter answer is taken to have at least: its only word may be a long one.
const TOKENS_PER_BYTE: f64 = 0.25;

/// Bytes that the tokens of a text may have on average, escapes included. English has about 5, Chinese with escapes
/// about 11.
pub(crate) const BYTES_PER_TOKEN_MAX: f64 = 20.0;

/// The numbers of a response that show what was streamed.
struct Streamed {
    /// Output tokens that the server does not count as reasoning.
    answer_tokens: u32,
    /// Content events with reasoning.
    thoughts: usize,
    /// Content events without.
    answers: usize,
    bytes: Option<ContentBytes>,
}

/// Tokens that the server counted as reasoning and did not send: all of them in a response whose content is only
/// the answer, most of them where it sends a summary instead.
pub(crate) fn hidden_tokens(timeline: &Timeline) -> u32 {
    // Asked several times per response, and most have none.
    let Some(reasoning @ 1..) = reported::reasoning_tokens(timeline) else { return 0 };
    let count = |wanted: fn(EventKind) -> bool| {
        timeline.events.iter().filter(|event| wanted(event.kind)).count()
    };
    let thoughts = count(|kind| kind == EventKind::Reasoning);
    let Some(all) = timeline.usage.and_then(|usage| usage.completion_tokens) else {
        return if thoughts == 0 { reasoning } else { 0 };
    };
    let mut streamed = Streamed {
        answer_tokens: all.saturating_sub(reasoning),
        thoughts,
        answers: count(EventKind::is_generated) - thoughts,
        bytes: timeline.content_bytes,
    };
    if thoughts == 0 {
        let events = u32::try_from(streamed.answers).unwrap_or(u32::MAX);
        let is_inside = streamed.has_reasoning_inside();
        return if is_inside { 0 } else { reasoning.min(all.saturating_sub(events)) };
    }
    if timeline.has_further_choices() {
        return 0;
    }
    streamed.answers = count(EventKind::is_answer);
    let Some(sent) = streamed.reasoning_tokens() else { return 0 };
    let missing = f64::from(reasoning) - sent;
    // An estimate: more than half must be missing.
    if missing > sent { u32::try_from(nearest_count(missing)).unwrap_or(reasoning) } else { 0 }
}

impl Streamed {
    /// Whether the content has reasoning in it, as between `<think>` and `</think>`: it has more events, or more
    /// text, than the answer has tokens for.
    fn has_reasoning_inside(&self) -> bool {
        let tokens = u64::from(self.answer_tokens);
        let has_long_text = self.bytes.is_some_and(|bytes| {
            bytes.all as f64 > f64::from(self.answer_tokens.max(1)) * BYTES_PER_TOKEN_MAX
        });
        has_long_text || self.answers as u64 > tokens + reported::tolerated_events(tokens)
    }

    /// Tokens of the reasoning that was sent, by the tokens that the answer has per byte, or else per event. `None`
    /// where the answer is too short to show it.
    fn reasoning_tokens(&self) -> Option<f64> {
        let answer_tokens = f64::from(self.answer_tokens);
        let bytes = self.bytes.and_then(|bytes| Some((bytes.reasoning?, bytes.all)));
        let estimate = match bytes {
            Some((reasoning, all)) if reasoning < all && self.answer_tokens > 0 => {
                let per_byte = answer_tokens / (all - reasoning) as f64;
                let is_short = self.answer_tokens < FEWEST_ANSWER_TOKENS;
                let least = if is_short { TOKENS_PER_BYTE } else { 0.0 };
                reasoning as f64 * per_byte.max(least).min(1.0)
            }
            _ if self.answers < FEWEST_ANSWER_EVENTS => return None,
            _ => answer_tokens / self.answers as f64 * self.thoughts as f64,
        };
        Some(estimate.max(self.thoughts as f64))
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::Usage;

    use super::*;

    /// OpenAI streams a summary of the reasoning and counts the reasoning itself.
    #[test]
    fn reasoning_beyond_its_events_was_not_streamed() {
        use EventKind::{Reasoning, Text};
        let check = |(thoughts, texts): (u64, u64), output: u32, reasoning: u32, expected: u32| {
            let kinds = (0..thoughts).map(|_| Reasoning).chain((0..texts).map(|_| Text));
            let events: Vec<_> = (1..).zip(kinds).collect();
            let mut timeline = crate::testing::answer(0, 0, &events);
            let usage =
                Usage { reasoning_tokens: Some(reasoning), ..crate::testing::usage(7, output) };
            timeline.usage = Some(usage);
            let case = (thoughts, texts, output, reasoning);
            assert_eq!(hidden_tokens(&timeline), expected, "{case:?}");
        };
        check((0, 100), 1_100, 1_000, 1_000);
        check((60, 100), 1_100, 1_000, 940);
        check((1, 100), 400, 300, 299);
        check((1_000, 100), 1_100, 1_000, 0);
        // Several tokens per event, of both kinds.
        check((250, 25), 1_100, 1_000, 0);
        check((600, 100), 1_100, 1_000, 0);
        // Too short an answer to tell.
        check((60, 5), 1_005, 1_000, 0);
    }

    /// Reasoning between `<think>` and `</think>` of the content was called hidden, and TPOT was six times too long.
    #[test]
    fn reasoning_inside_the_content_is_not_hidden() {
        let check = |texts: u64, (output, reasoning): (u32, u32), bytes: u64, expected: u32| {
            let events: Vec<_> = (1..=texts).map(|at| (at, EventKind::Text)).collect();
            let mut timeline = crate::testing::answer(0, 0, &events);
            let usage =
                Usage { reasoning_tokens: Some(reasoning), ..crate::testing::usage(7, output) };
            timeline.usage = Some(usage);
            timeline.content_bytes =
                Some(ContentBytes { first: 5, all: bytes, reasoning: Some(0) });
            assert_eq!(hidden_tokens(&timeline), expected, "{texts} {output} {reasoning} {bytes}");
        };
        check(20, (20, 16), 100, 0);
        // Two tokens per event.
        check(10, (20, 16), 100, 0);
        // Four tokens per event: as many events as the answer has tokens, and more text.
        check(20, (80, 60), 420, 0);
        // Only the answer was sent.
        check(20, (80, 60), 110, 60);
        check(21, (80, 60), 110, 59);
    }

    /// One event with a summary before eight of the answer: TPOT was 1.1 ms instead of 20.
    #[test]
    fn the_bytes_of_reasoning_show_what_of_it_was_sent() {
        let check = |(thoughts, texts): (u64, u64),
                     (output, reasoning): (u32, u32),
                     (thought_bytes, all): (u64, u64),
                     expected: u32| {
            let kinds = (0..thoughts + texts)
                .map(|at| if at < thoughts { EventKind::Reasoning } else { EventKind::Text });
            let events: Vec<_> = (1..).zip(kinds).collect();
            let mut timeline = crate::testing::answer(0, 0, &events);
            let usage =
                Usage { reasoning_tokens: Some(reasoning), ..crate::testing::usage(7, output) };
            timeline.usage = Some(usage);
            let reasoning = Some(thought_bytes);
            timeline.content_bytes = Some(ContentBytes { first: 7, all, reasoning });
            assert_eq!(hidden_tokens(&timeline), expected, "{thoughts} {texts} {output}");
        };
        check((1, 8), (208, 200), (8, 24), 196);
        // Four tokens per event of reasoning, one per event of the answer: all was sent.
        check((4, 12), (28, 16), (32, 56), 0);
        // One long word is the answer.
        check((100, 1), (101, 100), (450, 470), 0);
    }
}
