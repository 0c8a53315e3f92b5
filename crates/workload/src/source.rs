//! The interface of all datasets: prompts by index, and when they are due.

use serde::Serialize;
use tokometer_base::{Nanos, Prompt};

use crate::Result;
use crate::session::{Given, Piece};

/// The header by which a router recognises the session of a request.
pub(crate) const SESSION_HEADER: &str = "x-session-id";

/// An opened dataset that returns prompts by index.
pub trait Source: Send + Sync {
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The prompt at `index` in its pieces: always the same, whatever was asked before and on
    /// whichever thread. Beyond [`Source::len`] a dataset goes on: generated prompts are new, rows
    /// are repeated.
    fn prompt(&self, index: u64) -> Result<PlannedPrompt>;

    /// When the prompt at `index` is due after the start of the run, known without making it. `None`
    /// where prompts have no times.
    fn due(&self, _index: u64) -> Option<Nanos> {
        None
    }

    /// Sessions; fewer than prompts where some have several turns.
    fn sessions(&self) -> u64 {
        self.len()
    }

    /// The turns of session `number` in the order of their numbers.
    fn session(&self, number: u64) -> Vec<PlannedTurn> {
        PlannedTurn::chain([number], Nanos::ZERO)
    }

    /// Whether making a prompt asks the tokenizer; see [`crate::Workload`] for why it matters.
    fn asks_tokenizer(&self) -> bool {
        false
    }

    fn notes(&self) -> Vec<DatasetNote> {
        Vec::new()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its number in the workload, counted from 0.
    pub index: u64,
    pub prompt: Prompt,
    /// The prompt length that the dataset was requested to make, special tokens of the server included.
    /// `None` for datasets that take their texts as they are.
    pub asked_tokens: Option<u32>,
    /// When to send it, counted from the start of the run. `None` leaves it to the arrivals.
    pub due: Option<Nanos>,
    /// The session it belongs to. `None` for a prompt that stands alone.
    pub after: Option<TurnPosition>,
    /// The dataset's own name for this kind of request, by which a report can split.
    pub class: Option<String>,
}

/// Which turn of a session a prompt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnPosition {
    pub session: u64,
    /// The turn, counted from 0.
    pub turn: u32,
}

/// A prompt before its text is made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlannedPrompt {
    /// History included.
    pub pieces: Vec<Piece>,
    /// Special tokens that the server adds to the pieces.
    pub specials: u32,
    pub output_tokens: Option<u32>,
    /// A JSON object that is merged into the body of the request.
    pub extra_body: Option<String>,
    pub headers: Vec<(String, String)>,
    /// The dataset's own name for this kind of request.
    pub class: Option<String>,
    /// The session that it belongs to. `None` for a prompt that stands alone.
    pub position: Option<TurnPosition>,
}

impl PlannedPrompt {
    pub(crate) fn of(pieces: Vec<Piece>, specials: u32, output_tokens: u32) -> Self {
        Self { pieces, specials, output_tokens: Some(output_tokens), ..Self::default() }
    }

    /// A prompt with given content; `asked` is its requested length.
    pub(crate) fn given(prompt: Prompt, asked: Option<u32>) -> Self {
        let Prompt { content, prompt_tokens: tokens, output_tokens, extra_body, headers } = prompt;
        let pieces = vec![Piece::Given(Box::new(Given { content, tokens, asked }))];
        Self { pieces, output_tokens, extra_body, headers, ..Self::default() }
    }

    /// Planned tokens, special ones included. `None` where text has to be counted.
    pub fn tokens(&self) -> Option<u32> {
        let tokens = self.pieces.iter().map(Piece::tokens).sum::<Option<u32>>();
        tokens.map(|tokens| tokens + self.specials)
    }
}

/// A turn of a session before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlannedTurn {
    /// Of its prompt in the workload.
    pub index: u64,
    /// The turns of the session that must have ended before, each once.
    pub waits_for: Vec<u32>,
    /// From the end of the last of them. `None`: it is due when there is a slot for it, as in any
    /// closed loop.
    pub delay: Option<Nanos>,
    /// The sub-agent whose turn it is.
    pub agent: Option<Box<str>>,
    /// When it was sent in the recording, from the start of the run.
    pub recorded: Option<Nanos>,
    /// How long its session took there.
    pub session_recorded: Option<Nanos>,
}

impl PlannedTurn {
    /// Turns of which each waits for the one before it.
    pub(crate) fn chain(indexes: impl IntoIterator<Item = u64>, think: Nanos) -> Vec<Self> {
        let delay = (think > Nanos::ZERO).then_some(think);
        let turn = |(turn, index): (u32, u64)| Self {
            index,
            waits_for: turn.checked_sub(1).into_iter().collect(),
            delay,
            ..Self::default()
        };
        (0..).zip(indexes).map(turn).collect()
    }
}

/// A remark about the dataset for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatasetNote {
    /// A short fixed name, such as `skipped-rows`.
    pub code: &'static str,
    pub text: String,
}

impl DatasetNote {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}
