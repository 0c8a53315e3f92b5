//! A request on its way, and what its client saw.

use sim::engine::Job;
use tokometer_base::{CancelAfter, Nanos};
use tokometer_sim as sim;

#[derive(Debug, Clone)]
pub(crate) struct Active {
    pub(crate) index: u64,
    /// Just before its first byte, by the client's clock.
    pub(crate) sent: Nanos,
    /// When the engine's queue got it.
    pub(crate) arrived: Nanos,
    /// Start of the step that admitted it.
    pub(crate) begun: Option<Nanos>,
    pub(crate) first: Option<Nanos>,
    pub(crate) last: Nanos,
    pub(crate) prompt_tokens: u32,
    /// Answer tokens that carry text.
    pub(crate) output_tokens: u32,
    /// Since when it is out of the engine's running requests, though it has begun.
    pub(crate) out_since: Option<Nanos>,
    /// Tokens that wait to travel in one event with the next one.
    pub(crate) held: u32,
    /// Tokens that the client has got so far.
    pub(crate) delivered: u32,
    /// What another engine is to do after the first token.
    pub(crate) rest: Option<Box<Job>>,
    /// Prompt tokens that the prefix cache had; `None` without one.
    pub(crate) cached_tokens: Option<u32>,
    /// The engine that has it.
    pub(crate) engine: usize,
    /// When its user cancels it; `None`: never.
    pub(crate) cancel: Option<CancelAfter>,
    /// Answered or cancelled.
    pub(crate) is_over: bool,
}

impl Active {
    /// Whether its user has got the tokens behind which it is cancelled, and more would come.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.cancel, Some(CancelAfter::Tokens(wanted)) if self.delivered >= wanted)
            && self.delivered < self.output_tokens
    }
}

/// One event as the client saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenEvent {
    pub(crate) at: Nanos,
    /// Tokens with text; zero for the event that only says that the answer is over.
    pub(crate) tokens: u32,
}
