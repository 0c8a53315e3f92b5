//! Words that are one token each, wherever they stand after a blank.
//!
//! A text of `n` such words joined by single blanks has exactly `n` tokens, so a random prompt of a
//! given length needs no second pass through the tokenizer. The embedded table holds words for
//! which this is true in all three built-in encodings at once: most vocabularies in use descend
//! from those, and the same words then keep their length on a server whose vocabulary we do not
//! have. For any other tokenizer the table is verified once and what fails is dropped.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use crate::{BuiltIn, Encoding, Reach, Result, Specials, Tokenizer};

/// One word per line, sorted; written by `cargo lab words`.
const EMBEDDED: &str = include_str!("../assets/words.txt");

/// Those of the words that are one token without their blank too, for the front of a text.
const EMBEDDED_STARTERS: &str = include_str!("../assets/starters.txt");

/// Fewer words than this give prompts too much alike; such a tokenizer is treated as having none.
const WORDS_MIN: usize = 256;

/// How many words may begin a text. They are checked one by one, so they are few.
const STARTERS: usize = 64;

/// And so few where each check is a round trip.
const STARTERS_REMOTE: usize = 8;

/// The part of the table that is tried at once when the whole fails.
const BATCH_WORDS: usize = 512;

/// Encodings that a server is asked for at most: what is proven by then is the table. A vocabulary of
/// other words would otherwise be asked twice for each word of the table.
const ENCODINGS_REMOTE: u32 = 1_000;

static SHARED: LazyLock<Arc<SafeWords>> = LazyLock::new(|| {
    let table = |text: &str| text.lines().map(|word| Box::from(word.trim())).collect();
    Arc::new(SafeWords { words: table(EMBEDDED), starters: table(EMBEDDED_STARTERS) })
});

/// A table of words that stay one token each side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeWords {
    /// One token each after a blank.
    words: Vec<Box<str>>,
    /// One token each at the front of a text as well, where no blank precedes them.
    starters: Vec<Box<str>>,
}

impl SafeWords {
    /// The embedded table: true of every built-in encoding, at no cost.
    pub fn embedded() -> Arc<Self> {
        Arc::clone(&SHARED)
    }

    /// The words of the embedded table that are safe in `tokenizer`. `None` when they are too few.
    pub fn verified(tokenizer: &dyn Tokenizer) -> Result<Option<Arc<Self>>> {
        let all = Self::embedded();
        let (starters_max, encodings_max) = match tokenizer.reach() {
            Reach::Local => (STARTERS, u32::MAX),
            Reach::Remote => (STARTERS_REMOTE, ENCODINGS_REMOTE),
        };
        let mut starters = Vec::new();
        for word in &all.starters {
            if starters.len() == starters_max {
                break;
            }
            if tokenizer.count(&format!("{word} {word}"))? == 2 {
                starters.push(word.clone());
            }
        }
        let Some(front) = starters.first() else { return Ok(None) };
        let proof = Proof { tokenizer, front, encodings_left: Cell::new(encodings_max) };
        // As a whole first: for a server's tokenizer that is one round trip instead of many.
        let mut safe = Vec::new();
        let tokens = proof.keep_whole(&all.words, &mut safe)?;
        let is_foreign = tokens > 2 * all.words.len();
        if is_foreign && tokenizer.reach() == Reach::Remote {
            return Ok(None);
        }
        if safe.is_empty() {
            for batch in all.words.chunks(BATCH_WORDS) {
                proof.keep_parts(batch, &mut safe)?;
            }
        }
        let words = with_own_id(safe);
        Ok((words.len() >= WORDS_MIN).then(|| Arc::new(Self { words, starters })))
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

/// Tries words in the only position that matters: behind another word and a blank.
struct Proof<'a> {
    tokenizer: &'a dyn Tokenizer,
    /// A word that is one token at the front of a text.
    front: &'a str,
    encodings_left: Cell<u32>,
}

impl Proof<'_> {
    /// Keeps all words with their ids if each is one token. Returns how many tokens they are.
    fn keep_whole(&self, words: &[Box<str>], safe: &mut Vec<(u32, Box<str>)>) -> Result<usize> {
        self.encodings_left.update(|left| left.saturating_sub(1));
        let text = format!("{} {}", self.front, words.join(" "));
        let ids = self.tokenizer.encode(&text, Specials::Skip)?;
        let tokens = ids.len().saturating_sub(1);
        if tokens == words.len() {
            safe.extend(ids.into_iter().skip(1).zip(words.iter().cloned()));
        }
        Ok(tokens)
    }

    /// Splits a batch until what fails is single words, or no more may be asked.
    fn keep_parts(&self, words: &[Box<str>], safe: &mut Vec<(u32, Box<str>)>) -> Result<()> {
        if self.encodings_left.get() == 0 {
            return Ok(());
        }
        if self.keep_whole(words, safe)? != words.len() && words.len() > 1 {
            let (left, right) = words.split_at(words.len() / 2);
            self.keep_parts(left, safe)?;
            self.keep_parts(right, safe)?;
        }
        Ok(())
    }
}

/// Drops words that share an id: a vocabulary that does not know them gives all of them the id for
/// "unknown".
fn with_own_id(safe: Vec<(u32, Box<str>)>) -> Vec<Box<str>> {
    let mut uses: BTreeMap<u32, u32> = BTreeMap::new();
    for (id, _) in &safe {
        *uses.entry(*id).or_default() += 1;
    }
    safe.into_iter().filter(|(id, _)| uses[id] == 1).map(|(_, word)| word).collect()
}

/// The content of the two embedded files, which `cargo lab words` writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Words that are one token after a blank in every built-in encoding, sorted.
    pub words: Vec<String>,
    /// Some of them, evenly spread, that are one token at the front of a text too.
    pub starters: Vec<String>,
}

/// The tables for the words of `text`: lower-case ASCII, three to ten letters.
pub fn tables(text: &str) -> Result<Tables> {
    let candidates: BTreeSet<&str> = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| (3..=10).contains(&word.len()))
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))
        .collect();
    let is_one_token = |text: &str| -> Result<bool> {
        for encoding in Encoding::ALL {
            if BuiltIn::new(encoding).count(text)? != 1 {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let (mut words, mut starters) = (Vec::new(), Vec::new());
    for word in candidates {
        if is_one_token(&format!(" {word}"))? {
            words.push(word.to_owned());
            if is_one_token(word)? {
                starters.push(word.to_owned());
            }
        }
    }
    let step = (starters.len() / STARTERS).max(1);
    let starters = starters.into_iter().step_by(step).take(STARTERS).collect();
    Ok(Tables { words, starters })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Gives each word its id, or two tokens where the function says 2.
    struct ByWord(fn(&str) -> u32);

    fn word_id(word: &str) -> u32 {
        let table = &SafeWords::embedded().words;
        2 + u32::try_from(table.partition_point(|entry| &**entry < word)).unwrap()
    }

    impl Tokenizer for ByWord {
        fn name(&self) -> &'static str {
            "by word"
        }
        fn encode(&self, text: &str, _: Specials) -> Result<Vec<u32>> {
            let ids = text.split(' ').map(|word| self.0(word));
            Ok(ids.flat_map(|id| if id == 2 { vec![0, 0] } else { vec![id] }).collect())
        }
        fn decode(&self, _: &[u32]) -> Result<String> {
            Ok(String::new())
        }
        fn vocab_size(&self) -> Option<u32> {
            None
        }
        fn special_ids(&self) -> Vec<u32> {
            Vec::new()
        }
        fn added_specials(&self) -> Result<u32> {
            Ok(0)
        }
        fn words(&self) -> Result<Option<Arc<SafeWords>>> {
            SafeWords::verified(self)
        }
    }

    /// The same at the other end of a network, which counts how often it is asked.
    struct Far(ByWord, AtomicU32);

    impl Tokenizer for Far {
        fn name(&self) -> &'static str {
            "far"
        }
        fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.encode(text, specials)
        }
        fn decode(&self, ids: &[u32]) -> Result<String> {
            self.0.decode(ids)
        }
        fn vocab_size(&self) -> Option<u32> {
            None
        }
        fn special_ids(&self) -> Vec<u32> {
            Vec::new()
        }
        fn added_specials(&self) -> Result<u32> {
            Ok(0)
        }
        fn words(&self) -> Result<Option<Arc<SafeWords>>> {
            SafeWords::verified(self)
        }
        fn reach(&self) -> Reach {
            Reach::Remote
        }
    }

    /// A server with another vocabulary was asked some 20,000 times before a run of twelve requests.
    #[test]
    fn a_server_is_not_asked_for_every_word() {
        let check = |id: fn(&str) -> u32, expected_words: std::ops::Range<usize>| {
            let far = Far(ByWord(id), AtomicU32::new(0));
            let words = far.words().unwrap().map_or(0, |table| table.len());
            assert!(expected_words.contains(&words), "{words} words");
            let asked = far.1.into_inner();
            assert!(asked <= ENCODINGS_REMOTE + 64, "asked {asked} times");
        };
        let all = SafeWords::embedded().len();
        check(|word| 1 + word_id(word), all..all + 1);
        check(|word| if word.ends_with('e') { 2 } else { 1 + word_id(word) }, WORDS_MIN..all);
        check(|_| 2, 0..1);
    }

    #[test]
    fn every_embedded_word_is_one_token_in_every_encoding() {
        let table = SafeWords::embedded();
        assert!(table.len() > 3_000, "{} words", table.len());
        let proved = tables(&table.words.join("\n")).unwrap();
        assert_eq!(proved.words, EMBEDDED.lines().collect::<Vec<_>>());
        assert_eq!(proved.starters, EMBEDDED_STARTERS.lines().collect::<Vec<_>>());
    }

    #[test]
    fn words_that_a_tokenizer_splits_are_dropped_and_the_rest_kept() {
        let picky = ByWord(|word| if word.starts_with('b') { 2 } else { 1 + word_id(word) });
        let kept = SafeWords::verified(&picky).unwrap().unwrap();
        let expected = SafeWords::embedded().words.iter().filter(|w| !w.starts_with('b')).count();
        assert_eq!(kept.len(), expected);
        assert!(kept.words.iter().all(|word| !word.starts_with('b')));
    }

    #[test]
    fn the_table_survives_its_own_proof_in_a_real_encoding() {
        let default = BuiltIn::new(Encoding::default());
        assert_eq!(SafeWords::verified(&default).unwrap().unwrap(), SafeWords::embedded());
    }

    #[test]
    fn a_vocabulary_that_knows_none_of_the_words_has_no_table() {
        let one_id = |_: &str| 1;
        assert_eq!(SafeWords::verified(&ByWord(one_id)).unwrap(), None);
    }
}
