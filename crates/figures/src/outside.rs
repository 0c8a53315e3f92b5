//! Tokens that TPOT divides by though they seem to have come outside of its time.
//!
//! TPOT takes one token for a first event that states none, and every counted token for one that came up to
//! the last content. Servers and gateways join tokens in the first event, go on with tokens without text, and
//! stream a summary of what they thought. The estimates here enter no figure: a note says how far TPOT may be
//! off by them.

use tokometer_record::{Event, EventKind, Timeline};

use crate::measure::{self, Decode};

/// Fewest tokens by which a first event is taken for more than one: a single one may be three times as long as
/// the others are on average.
const OPENING_TOKENS_MIN: f64 = 3.0;

/// Bytes that the tokens of a text may have on average, escapes included: English has about 5, Chinese with
/// escapes about 11. A longer text has something else in it, such as the repeated prompt.
const BYTES_PER_TOKEN_MAX: f64 = 20.0;

/// Sums over the answers that have a TPOT, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TpotSums {
    /// As defined.
    pub defined: f64,
    /// Without the tokens that seem to have come outside of its time.
    pub likely: f64,
    pub answers: u64,
}

impl TpotSums {
    pub(crate) fn add(&mut self, timeline: &Timeline) {
        let Some(Decode { span, tokens }) = measure::decode(timeline) else { return };
        self.answers += 1;
        self.defined += span / tokens;
        self.likely += span / (tokens - outside(timeline, tokens)).max(1.0);
    }

    /// By how much mean TPOT may be too short, as a share of it.
    pub fn effect(&self) -> f64 {
        if self.defined > 0.0 { self.likely / self.defined - 1.0 } else { 0.0 }
    }
}

/// Tokens among `counted` that seem to have come with the first event, without text before it or behind the last
/// content, or never.
fn outside(timeline: &Timeline, counted: f64) -> f64 {
    let is_content = |event: &Event| event.kind.is_content();
    let contents = timeline.events.iter().filter(|event| is_content(event)).count();
    let (Some(first), Some(last)) =
        (timeline.events.iter().position(is_content), timeline.events.iter().rposition(is_content))
    else {
        return 0.0;
    };
    let around = timeline.events[..first].iter().chain(&timeline.events[last + 1..]);
    let empties = around.filter(|event| event.kind == EventKind::Empty);
    let told: Option<u32> = empties.clone().map(Event::tokens).sum();
    // Every later content event has a token.
    let spare = (counted - contents.saturating_sub(1) as f64).max(0.0);
    let unseen = unseen_reasoning(timeline).min(spare);
    // An event with only the finish reason has none.
    let around =
        told.map_or(empties.count().saturating_sub(1) as f64, f64::from).min(spare - unseen);
    let opening = if timeline.events[first].tokens().is_some() {
        0.0
    } else {
        opening_surplus(timeline, counted + 1.0 - unseen - around)
    };
    unseen + around + opening.min(spare - unseen - around)
}

/// Tokens beyond one of a first event, by its share of the text.
fn opening_surplus(timeline: &Timeline, tokens: f64) -> f64 {
    let Some(bytes) = timeline.content_bytes.filter(|bytes| bytes.all > 0) else { return 0.0 };
    let likely = (tokens * (bytes.first as f64 / bytes.all as f64)).round();
    let is_usable = bytes.all as f64 <= tokens * BYTES_PER_TOKEN_MAX;
    if is_usable && likely >= OPENING_TOKENS_MIN { likely - 1.0 } else { 0.0 }
}

/// Reasoning tokens of which only a summary was streamed, by the answer's tokens per byte. Zero unless that is
/// more than half of them.
fn unseen_reasoning(timeline: &Timeline) -> f64 {
    let usage = timeline.usage.unwrap_or_default();
    let (Some(all), Some(reasoning)) = (usage.completion_tokens, usage.reasoning_tokens) else {
        return 0.0;
    };
    let bytes = timeline.content_bytes;
    let Some((thought, text)) = bytes.and_then(|bytes| Some((bytes.reasoning?, bytes.all))) else {
        return 0.0;
    };
    let answered = text.saturating_sub(thought);
    if thought == 0 || answered == 0 {
        return 0.0;
    }
    let per_byte = f64::from(all.saturating_sub(reasoning)) / answered as f64;
    let sent = thought as f64 * per_byte.min(1.0);
    let missing = f64::from(reasoning) - sent;
    if missing > sent { missing } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use EventKind::{Empty, Reasoning, Text};
    use tokometer_record::{ContentBytes, Usage};

    use super::*;

    /// Events every 10 ms; usage with reasoning; bytes of the first event, of all, and of reasoning.
    fn effect(kinds: &[(EventKind, u64)], usage: (u32, u32), bytes: (u64, u64, u64)) -> f64 {
        let kinds = kinds.iter().flat_map(|(kind, count)| (0..*count).map(|_| *kind));
        let events: Vec<_> = (1_u64..).map(|at| at * 10).zip(kinds).collect();
        let mut timeline = crate::testing::answer(0, 0, &events);
        let (tokens, reasoning) = usage;
        timeline.usage =
            Some(Usage { reasoning_tokens: Some(reasoning), ..crate::testing::usage(7, tokens) });
        let (first, all, thought) = bytes;
        timeline.content_bytes = Some(ContentBytes { first, all, reasoning: Some(thought) });
        let mut sums = TpotSums::default();
        sums.add(&timeline);
        sums.effect()
    }

    #[test]
    fn the_note_says_by_how_much_the_time_per_token_may_be_too_short() {
        let check = |kinds: &[(EventKind, u64)], usage, bytes, expected: f64| {
            let found = effect(kinds, usage, bytes);
            assert!((found - expected).abs() < 1e-9, "{found}: {kinds:?} {usage:?} {bytes:?}");
        };
        // One token per event, one of them a long word; three tokens in each event.
        check(&[(Text, 100)], (100, 0), (40, 500, 0), 0.0);
        check(&[(Text, 31)], (91, 0), (7, 455, 0), 0.0);
        // 17 tokens in the first event.
        check(&[(Text, 84)], (100, 0), (85, 500, 0), 99.0 / 83.0 - 1.0);
        // The prompt, repeated before the answer.
        check(&[(Text, 20)], (100, 0), (4_000, 4_475, 0), 0.0);
        // Special tokens behind the text, with an event for the finish reason; that event alone.
        check(&[(Text, 10), (Empty, 11)], (20, 0), (5, 50, 0), 19.0 / 9.0 - 1.0);
        check(&[(Text, 10), (Empty, 1)], (11, 0), (5, 50, 0), 0.0);
        // A summary of 10 tokens instead of 90 of reasoning.
        check(&[(Reasoning, 10), (Text, 10)], (100, 90), (5, 100, 50), 99.0 / 19.0 - 1.0);
    }
}
