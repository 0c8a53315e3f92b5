//! Which words of the embedded table stay one token each in a tokenizer that it was not made for.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Reach, Result, SafeWords, Specials, Tokenizer};

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

/// The words of the embedded table that are safe in `tokenizer`. `None` when they are too few.
pub(crate) fn verified(tokenizer: &dyn Tokenizer) -> Result<Option<Arc<SafeWords>>> {
    let all = SafeWords::embedded();
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
    Ok((words.len() >= WORDS_MIN).then(|| Arc::new(SafeWords { words, starters })))
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{BuiltIn, Encoding};

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
            verified(self)
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
            verified(self)
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
        for tokenizer in Encoding::ALL.map(BuiltIn::new) {
            let check = |text: &str| assert_eq!(tokenizer.count(text).unwrap(), 1, "{text:?}");
            table.words.iter().for_each(|word| check(&format!(" {word}")));
            table.starters.iter().for_each(|word| check(word));
        }
    }

    #[test]
    fn words_that_a_tokenizer_splits_are_dropped_and_the_rest_kept() {
        let picky = ByWord(|word| if word.starts_with('b') { 2 } else { 1 + word_id(word) });
        let kept = verified(&picky).unwrap().unwrap();
        let expected = SafeWords::embedded().words.iter().filter(|w| !w.starts_with('b')).count();
        assert_eq!(kept.len(), expected);
        assert!(kept.words.iter().all(|word| !word.starts_with('b')));
    }

    #[test]
    fn the_table_survives_its_own_proof_in_a_real_encoding() {
        let default = BuiltIn::new(Encoding::default());
        assert_eq!(verified(&default).unwrap().unwrap(), SafeWords::embedded());
    }

    #[test]
    fn a_vocabulary_that_knows_none_of_the_words_has_no_table() {
        let one_id = |_: &str| 1;
        assert_eq!(verified(&ByWord(one_id)).unwrap(), None);
    }
}
