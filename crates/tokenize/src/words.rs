//! Words that are one token each, wherever they stand after a blank.
//!
//! A text of `n` such words joined by single blanks has exactly `n` tokens, so a random prompt of a
//! given length needs no second pass through the tokenizer. The embedded table holds words for
//! which this is true in all three built-in encodings at once: most vocabularies in use descend
//! from those, and the same words then keep their length on a server whose vocabulary we do not
//! have. For any other tokenizer the table is verified once (`proof`), and what fails is dropped.

use std::sync::{Arc, LazyLock};

/// One word per line, sorted: `cargo lab words` of commit 2029ad25 chose them.
const EMBEDDED: &str = include_str!("../assets/words.txt");

/// Those of the words that are one token without their blank too, for the front of a text.
const EMBEDDED_STARTERS: &str = include_str!("../assets/starters.txt");

static SHARED: LazyLock<Arc<SafeWords>> = LazyLock::new(|| {
    let table = |text: &str| text.lines().map(|word| Box::from(word.trim())).collect();
    Arc::new(SafeWords { words: table(EMBEDDED), starters: table(EMBEDDED_STARTERS) })
});

/// A table of words that stay one token each side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeWords {
    /// One token each after a blank.
    pub(crate) words: Vec<Box<str>>,
    /// One token each at the front of a text as well, where no blank precedes them.
    pub(crate) starters: Vec<Box<str>>,
}

impl SafeWords {
    /// The embedded table: true of every built-in encoding, at no cost.
    pub fn embedded() -> Arc<Self> {
        Arc::clone(&SHARED)
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The word at `index`, counted round and round: one token after a blank.
    pub fn word(&self, index: usize) -> &str {
        &self.words[index % self.words.len()]
    }

    /// A word that is one token at the front of a text, counted round and round.
    pub fn starter(&self, index: usize) -> &str {
        &self.starters[index % self.starters.len()]
    }
}
