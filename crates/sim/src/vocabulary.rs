//! Words out, tokens in.
//!
//! Answers are made of words that are one token each after a blank, so an answer has exactly the
//! asked number of tokens in every built-in encoding. Prompts are counted the same way: text of plain
//! words and single blanks is looked up word by word, which is quick enough for the thread that also
//! sends tokens; any other text goes through the encoding as a whole, at about a million tokens per
//! second.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tokenize::{BuiltIn, Encoding, SafeWords, Specials, Tokenizer};
use tokometer_tokenize as tokenize;

/// Pieces whose length in tokens is remembered; beyond that they are encoded each time.
const REMEMBERED_PIECES_MAX: usize = 1 << 16;

/// One round of the splitmix64 finaliser.
pub(crate) fn scramble(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The same 64 bits for the same bytes, on every machine.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let mut hash = bytes.len() as u64;
    for word in words.by_ref() {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight bytes"));
        hash = scramble(hash ^ word);
    }
    words.remainder().iter().fold(hash, |hash, byte| scramble(hash ^ u64::from(*byte)))
}

/// One hash per full block of `tokens`, each covering everything before it.
pub(crate) fn block_hashes(tokens: impl Iterator<Item = u64>, block_tokens: u32) -> Box<[u64]> {
    let mut hashes = Vec::new();
    let (mut hash, mut filled) = (0, 0);
    for token in tokens {
        hash = scramble(hash ^ token);
        filled += 1;
        if filled == block_tokens {
            hashes.push(hash);
            filled = 0;
        }
    }
    hashes.into_boxed_slice()
}

/// The ids of all words, encoded when first asked for or by [`warm_up`].
static WORD_IDS: OnceLock<Vec<u32>> = OnceLock::new();

fn word_ids(words: &SafeWords) -> &'static [u32] {
    WORD_IDS.get_or_init(|| {
        let encode = |index| {
            let text = format!(" {}", words.word(index));
            let ids = encoding().encode(&text, Specials::Skip);
            ids.ok().and_then(|ids| ids.first().copied()).unwrap_or_default()
        };
        (0..words.len()).map(encode).collect()
    })
}

fn encoding() -> BuiltIn {
    BuiltIn::new(Encoding::default())
}

/// Whether [`warm_up`] has been called.
#[cfg(test)]
pub(crate) fn is_warm() -> bool {
    WORD_IDS.get().is_some()
}

/// Loads the encoding, which takes about a tenth of a second, so that no request has to.
pub(crate) fn warm_up() {
    let _ids = word_ids(&SafeWords::embedded());
}

/// The words of the server and what it remembers of texts.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    words: Arc<SafeWords>,
    /// Every word after its blank, as it is sent.
    pieces: Vec<Box<str>>,
    /// Tokens of a piece of text, leading blank included.
    lengths: HashMap<Box<str>, u32>,
}

impl Vocabulary {
    pub(crate) fn new() -> Self {
        let words = SafeWords::embedded();
        let pieces: Vec<Box<str>> =
            (0..words.len()).map(|index| format!(" {}", words.word(index)).into()).collect();
        let lengths = pieces.iter().map(|piece| (piece.clone(), 1)).collect();
        Self { words, pieces, lengths }
    }

    /// The word at `position` of the answer that `seed` stands for.
    fn word_at(&self, seed: u64, position: u32) -> usize {
        let draw = scramble(seed ^ scramble(u64::from(position)));
        usize::try_from(draw % self.pieces.len() as u64).expect("smaller than a length")
    }

    /// The text of the token at `position`: a blank and a word, in need of no escape.
    pub(crate) fn piece(&self, seed: u64, position: u32) -> &str {
        &self.pieces[self.word_at(seed, position)]
    }

    pub(crate) fn id(&self, seed: u64, position: u32) -> u32 {
        word_ids(&self.words)[self.word_at(seed, position)]
    }

    /// Hashes of the tokens of an answer, equal to those of its text in a later prompt.
    pub(crate) fn answer_hashes(&self, seed: u64, tokens: u32) -> impl Iterator<Item = u64> {
        (0..tokens).map(move |position| fingerprint(self.piece(seed, position).as_bytes()))
    }

    /// Appends one hash per token of `text`.
    pub(crate) fn hash_text(&mut self, text: &str, hashes: &mut Vec<u64>) {
        if !is_plain(text) {
            hashes.extend(encode(text).into_iter().map(|id| scramble(u64::from(id))));
            return;
        }
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest[1..].find(' ').map_or(rest.len(), |at| at + 1);
            let (piece, tail) = rest.split_at(end);
            let hash = fingerprint(piece.as_bytes());
            hashes.push(hash);
            for extra in 1..self.length(piece) {
                hashes.push(scramble(hash ^ u64::from(extra)));
            }
            rest = tail;
        }
    }

    /// Tokens of a word with or without its blank.
    fn length(&mut self, piece: &str) -> u32 {
        if let Some(length) = self.lengths.get(piece) {
            return *length;
        }
        let length = encoding().count(piece).map_or(1, |count| u32::try_from(count).unwrap_or(1));
        if self.lengths.len() < REMEMBERED_PIECES_MAX {
            self.lengths.insert(piece.into(), length);
        }
        length
    }
}

pub(crate) fn encode(text: &str) -> Vec<u32> {
    encoding().encode(text, Specials::Skip).unwrap_or_default()
}

/// The text of token ids; empty when one of them is unknown.
pub(crate) fn decode(ids: &[u32]) -> String {
    encoding().decode(ids).unwrap_or_default()
}

/// Whether a text is words of ASCII letters with one blank between them and perhaps one before: the
/// encodings then split it exactly before each blank.
fn is_plain(text: &str) -> bool {
    let mut was_letter = false;
    for (at, byte) in text.bytes().enumerate() {
        let is_letter = byte.is_ascii_alphabetic();
        let is_separator = byte == b' ' && (was_letter || at == 0);
        if !is_letter && !is_separator {
            return false;
        }
        was_letter = is_letter;
    }
    was_letter || text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_as_many_hashes_as_the_encoding_has_tokens() {
        let mut vocabulary = Vocabulary::new();
        let mut check = |text: &str| {
            let mut hashes = Vec::new();
            vocabulary.hash_text(text, &mut hashes);
            assert_eq!(hashes.len(), encoding().count(text).unwrap(), "{text:?}");
        };
        check("");
        check("Hello");
        check(" Hello there");
        check("antidisestablishmentarianism is a longish word");
        check("two  blanks");
        check("trailing blank ");
        check("Punctuation, numbers 123 and ünïcödé!");
    }

    #[test]
    fn an_answer_has_the_asked_tokens_and_is_found_again_in_a_later_prompt() {
        let mut vocabulary = Vocabulary::new();
        let answer: String = (0..50).map(|position| vocabulary.piece(7, position)).collect();
        assert_eq!(encoding().count(&answer).unwrap(), 50);
        assert!(!answer.contains(['"', '\\']));
        let ids: Vec<u32> = (0..50).map(|position| vocabulary.id(7, position)).collect();
        assert_eq!(decode(&ids), answer);
        let mut hashes = Vec::new();
        vocabulary.hash_text(&answer, &mut hashes);
        assert_eq!(vocabulary.answer_hashes(7, 50).collect::<Vec<_>>(), hashes);
    }

    #[test]
    fn equal_beginnings_have_equal_blocks_and_only_full_ones_count() {
        let one = block_hashes([1, 2, 3, 4, 5].into_iter(), 2);
        let other = block_hashes([1, 2, 3, 9].into_iter(), 2);
        assert_eq!((one.len(), other.len()), (2, 2));
        assert_eq!(one[0], other[0]);
        assert_ne!(one[1], other[1]);
    }
}
