//! One event of a response in sixteen bytes.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

/// What an event of the stream contains, as far as a metric distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EventKind {
    /// The opening event of a chat response: a role and no content.
    Role = 0,
    /// A choice with empty text: a special token, half a character, or only a finish reason.
    Empty = 1,
    Text = 2,
    /// Reasoning text, where the server separates it from the response.
    Reasoning = 3,
    ToolCall = 4,
    /// Token counts without a choice.
    Usage = 5,
    Error = 6,
    /// The end mark of the protocol, such as `[DONE]`.
    End = 7,
    /// Anything else: keep-alive events, timing reports, progress.
    Other = 8,
    /// Content of a choice other than the first, where several were asked for (`n`).
    FurtherChoice = 9,
    /// The answer of a route that generates nothing: vectors, scores or classes.
    Result = 10,
}

impl EventKind {
    /// All kinds, each at the index of its number.
    pub const ALL: [Self; 11] = [
        Self::Role,
        Self::Empty,
        Self::Text,
        Self::Reasoning,
        Self::ToolCall,
        Self::Usage,
        Self::Error,
        Self::End,
        Self::Other,
        Self::FurtherChoice,
        Self::Result,
    ];

    /// [`EventKind::Other`] for numbers of a later version.
    pub fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Other)
    }

    /// Text, reasoning or a tool call: what a reader of the stream would see.
    pub fn is_content(self) -> bool {
        matches!(self, Self::Text | Self::Reasoning | Self::ToolCall)
    }

    pub fn is_generated(self) -> bool {
        self.is_content() || self == Self::FurtherChoice
    }

    pub fn is_answer(self) -> bool {
        matches!(self, Self::Text | Self::ToolCall)
    }

    /// Whether the event had a choice, which is what vLLM's client counts as a token.
    pub fn has_choice(self) -> bool {
        matches!(self, Self::Role | Self::Empty | Self::FurtherChoice) || self.is_content()
    }
}

const UNKNOWN_TOKENS: u16 = u16::MAX;
const UPPER_BOUND: u8 = 1;

/// One event: the stamp and number of the read that completed it, and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub at: Nanos,
    /// Number of that read within the request, from zero. Events of one read share it.
    pub read: u32,
    tokens: u16,
    /// Decides which metrics use this event.
    pub kind: EventKind,
    flags: u8,
}

// This size is documented: a run of a hundred million tokens must fit in memory.
const _: () = assert!(size_of::<Event>() == 16);

impl Event {
    pub fn new(at: Nanos, read: u32, kind: EventKind) -> Self {
        Self { at, read, tokens: UNKNOWN_TOKENS, kind, flags: 0 }
    }

    /// Sets the token count; `None` where neither server nor protocol reports it.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Option<u32>) -> Self {
        self.tokens = tokens.map_or(UNKNOWN_TOKENS, |tokens| {
            u16::try_from(tokens).unwrap_or(UNKNOWN_TOKENS - 1).min(UNKNOWN_TOKENS - 1)
        });
        self
    }

    /// Marks the event as having arrived at `at` or earlier: its read merged segments.
    #[must_use]
    #[expect(clippy::fn_params_excessive_bools, reason = "the flag of the read is passed through")]
    pub fn with_upper_bound(mut self, is_upper_bound: bool) -> Self {
        self.flags = if is_upper_bound { UPPER_BOUND } else { 0 };
        self
    }

    /// Tokens in this event; `None` where nothing reports them.
    pub fn tokens(&self) -> Option<u32> {
        (self.tokens != UNKNOWN_TOKENS).then_some(u32::from(self.tokens))
    }

    /// Whether the read that completed this event merged several segments: the event arrived at `at`
    /// or earlier.
    pub fn is_upper_bound(&self) -> bool {
        self.flags & UPPER_BOUND != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_count_is_not_a_count_of_zero() {
        let event = Event::new(Nanos(5), 0, EventKind::Text);
        assert_eq!(event.tokens(), None);
        assert_eq!(event.with_tokens(Some(0)).tokens(), Some(0));
        assert_eq!(event.with_tokens(Some(1_000_000)).tokens(), Some(65_534));
        assert!(event.with_upper_bound(true).is_upper_bound());
    }

    #[test]
    fn kinds_keep_their_numbers() {
        for (number, kind) in EventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(EventKind::from_number(u8::try_from(number).unwrap()), kind);
        }
        assert_eq!(EventKind::from_number(200), EventKind::Other);
    }
}
