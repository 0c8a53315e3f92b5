//! The interface of all datasets.

use tokometer_base::Nanos;

use crate::{DatasetNote, Item, Result};

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
