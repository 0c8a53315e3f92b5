//! The interface of all datasets: prompts by index, and when they are due.

use serde::Serialize;
use tokometer_base::{Nanos, Prompt};

use crate::Result;

/// An opened dataset that returns prompts by index.
pub trait Source: Send + Sync {
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The prompt at `index`: always the same, whatever was asked before and on whichever thread.
    /// Beyond [`Source::len`] a dataset goes on: generated prompts are new, rows are repeated.
    fn item(&self, index: u64) -> Result<Item>;

    /// When the prompt at `index` is due after the start of the run, known without making it. `None`
    /// where prompts have no times.
    fn due(&self, _index: u64) -> Option<Nanos> {
        None
    }

    /// The index of the turn that follows the prompt at `index`; `None` after the last one, and for
    /// prompts that stand alone.
    fn next_turn(&self, _index: u64) -> Option<u64> {
        None
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
    /// The conversation it belongs to. `None` for a prompt that stands alone.
    pub after: Option<TurnPosition>,
    /// The dataset's own name for this kind of request, by which a report can split.
    pub class: Option<String>,
}

/// The turn of a conversation that a prompt is. A turn above 0 is sent once the answer to the turn
/// before it has ended; its prompt holds only what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnPosition {
    pub session: u64,
    /// The turn, counted from 0.
    pub turn: u32,
    pub think: Nanos,
}

impl Item {
    pub fn new(index: u64, prompt: Prompt) -> Self {
        Self { index, prompt, asked_tokens: None, due: None, after: None, class: None }
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
