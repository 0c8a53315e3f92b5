//! Prompts of several datasets in one workload, each for a class of requests.

use std::sync::Arc;

use tokometer_base::Nanos;

use crate::{DatasetNote, PlannedPrompt, Result, Source};

/// Which of the datasets the prompt at an index comes from.
pub type Choice = Arc<dyn Fn(u64) -> usize + Send + Sync>;

pub(crate) struct Mix {
    pub(crate) sources: Vec<Box<dyn Source>>,
    pub(crate) choice: Choice,
}

impl Mix {
    fn of(&self, index: u64) -> &dyn Source {
        &*self.sources[(self.choice)(index)]
    }
}

impl Source for Mix {
    /// The longest: the others go on.
    fn len(&self) -> u64 {
        self.sources.iter().map(|source| source.len()).max().unwrap_or(0)
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        self.of(index).prompt(index)
    }

    fn due(&self, index: u64) -> Option<Nanos> {
        self.of(index).due(index)
    }

    fn asks_tokenizer(&self) -> bool {
        self.sources.iter().any(|source| source.asks_tokenizer())
    }

    fn notes(&self) -> Vec<DatasetNote> {
        self.sources.iter().flat_map(|source| source.notes()).collect()
    }
}
