//! Tokens without text behind the last text of an answer.
//!
//! E2E and TPOT end at the last text. A model that goes on behind its end token, or a server that strips a row of
//! special tokens, works on until the end of the stream, and its tokens count in the throughput.

use tokometer_base::Nanos;
use tokometer_record::{CountSource, Event, EventKind, Timeline};

use crate::measure;

/// Tokens behind the text that are no tail: the one that ends the answer.
const END_TOKENS: u32 = 1;

/// Answers that went on behind their text, with the times of all answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tails {
    pub answers: u64,
    /// From their last text to their last token.
    pub after_text: Nanos,
    /// From the first byte of a request to the last text of its answer, over all answers.
    pub until_text: Nanos,
}

impl Tails {
    pub fn add(&mut self, timeline: &Timeline) {
        let Some(text) = last_text(timeline) else { return };
        let text = timeline.events[text].at;
        self.until_text += text - timeline.times.first_byte_sent.unwrap_or(text);
        if let Some(end) = end_of_tail(timeline) {
            self.answers += 1;
            self.after_text += end - text;
        }
    }

    /// Time behind the text as a share of the time until it, over all answers.
    pub fn share(&self) -> f64 {
        let until = self.until_text.as_secs_f64();
        if until > 0.0 { self.after_text.as_secs_f64() / until } else { 0.0 }
    }
}

fn last_text(timeline: &Timeline) -> Option<usize> {
    timeline.events.iter().rposition(|event| event.kind.is_generated())
}

/// When the last token behind the text came. `None` where at most the end token came there.
fn end_of_tail(timeline: &Timeline) -> Option<Nanos> {
    let behind = &timeline.events[last_text(timeline)? + 1..];
    let empties = || behind.iter().filter(|event| event.kind == EventKind::Empty);
    if empties().any(|event| event.tokens().is_some()) {
        let counted = |event: &&Event| event.tokens() > Some(0);
        let tokens: u32 = empties().filter_map(Event::tokens).sum();
        return empties().rfind(counted).map(|event| event.at).filter(|_| tokens > END_TOKENS);
    }
    let Some((_, CountSource::Usage)) = timeline.output_tokens() else { return None };
    let contents = timeline.events.iter().filter(|event| event.kind.is_generated()).count();
    let left = (measure::streamed_tokens(timeline)? as usize).saturating_sub(contents);
    // One of the events may have only the finish reason.
    let tokens = empties().count().saturating_sub(1).min(left);
    empties().next_back().map(|event| event.at).filter(|_| tokens > END_TOKENS as usize)
}

#[cfg(test)]
mod tests {
    use EventKind::{Empty, End, Text, Usage};

    use super::*;
    use crate::testing;

    /// Events every 10 ms from 10 ms on, the answer's count, and what each event without text reports.
    fn tails(kinds: &[(EventKind, usize)], tokens: u32, reported: Option<u32>) -> Tails {
        let kinds = kinds.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
        let events: Vec<_> = (1_u64..).map(|at| at * 10).zip(kinds).collect();
        let mut timeline = testing::answer(0, 0, &events);
        timeline.usage = Some(testing::usage(7, tokens));
        for event in timeline.events.iter_mut().filter(|event| event.kind == Empty) {
            *event = event.with_tokens(reported);
        }
        let mut tails = Tails::default();
        tails.add(&timeline);
        tails
    }

    #[test]
    fn tokens_behind_the_text_are_a_tail_and_an_end_token_is_none() {
        let check =
            |kinds: &[(EventKind, usize)], tokens, reported, answers, after_ms, until_ms| {
                let expected = Tails {
                    answers,
                    after_text: Nanos::from_millis(after_ms),
                    until_text: Nanos::from_millis(until_ms),
                };
                assert_eq!(tails(kinds, tokens, reported), expected, "{kinds:?}, {tokens} tokens");
            };
        // Counted by the server in each event, or by its sum.
        check(&[(Text, 10), (Empty, 20), (Usage, 1), (End, 1)], 30, Some(1), 1, 200, 100);
        check(&[(Text, 10), (Empty, 20), (Usage, 1), (End, 1)], 30, None, 1, 200, 100);
        check(&[(Text, 10), (Empty, 3)], 12, None, 1, 30, 100);
        // An end token, with and without a finish reason behind it; events that hold no token.
        check(&[(Text, 10), (Empty, 1), (Usage, 1)], 11, None, 0, 0, 100);
        check(&[(Text, 10), (Empty, 2), (Usage, 1)], 11, None, 0, 0, 100);
        check(&[(Text, 10), (Empty, 1)], 11, Some(1), 0, 0, 100);
        check(&[(Text, 10), (Empty, 9)], 10, None, 0, 0, 100);
        check(&[(Text, 10), (Empty, 9)], 10, Some(0), 0, 0, 100);
        // Halves of characters between two texts.
        check(&[(Text, 5), (Empty, 5), (Text, 1), (Empty, 1)], 11, None, 0, 0, 110);
    }
}
