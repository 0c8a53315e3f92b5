//! The trait of all tokenizers.

use std::sync::Arc;

use crate::{Result, SafeWords, TokenizerConfig};

/// Whether the special tokens that a server adds to a plain prompt are part of an encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// As the server counts a plain prompt: with BOS where the model has one.
    Add,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In this process: a call costs microseconds.
    Local,
    /// On a server: a call costs a round trip, so callers ask for few, large encodings.
    Remote,
}

pub trait Tokenizer: Send + Sync {
    /// The tokenizer as a report names it: a path, a hub id, or an encoding.
    fn name(&self) -> &str;

    /// The token ids of a text. Text that looks like a special token is encoded as a server would.
    fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>>;

    /// The text of token ids. Ids that end within a character give the replacement character.
    fn decode(&self, ids: &[u32]) -> Result<String>;

    /// The number of tokens of a text, special tokens not counted.
    fn count(&self, text: &str) -> Result<usize> {
        Ok(self.encode(text, Specials::Skip)?.len())
    }

    /// The number of ids, special ones included. `None` where a server does not report them.
    fn vocab_size(&self) -> Option<u32>;

    /// Ids that no ordinary text gives. Random ids avoid them.
    fn special_ids(&self) -> Vec<u32>;

    /// How many special tokens a server adds to a plain prompt: 1 for a model with BOS.
    fn added_specials(&self) -> Result<u32>;

    /// Words that stay one token each side by side. `None` when the vocabulary has too few.
    fn words(&self) -> Result<Option<Arc<SafeWords>>>;

    /// Whether the word table was proved for this very vocabulary before the program was built, so
    /// that no prompt made from it needs to be counted again.
    fn has_tested_words(&self) -> bool {
        false
    }

    /// The chat template and its special tokens. `None` without a `tokenizer_config.json`.
    fn config(&self) -> Option<&TokenizerConfig> {
        None
    }

    fn reach(&self) -> Reach {
        Reach::Local
    }
}
