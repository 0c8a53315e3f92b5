//! One prompt of a workload, and when it is due.

use serde::Serialize;
use tokometer_base::{Nanos, Prompt};

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
