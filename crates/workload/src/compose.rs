//! Texts of an exact number of tokens.
//!
//! With a table of safe words a text is put together word by word and is right by construction.
//! Without one, random ids are decoded, encoded again and adjusted until the length fits; what does
//! not fit after some tries is returned as it is, with the length it really has.

use std::sync::{Arc, OnceLock};

use rand::RngCore;
use tokometer_base::seed::{Generator, whole_between};
use tokometer_tokenize::{SafeWords, Specials, Tokenizer};

use crate::Result;

/// Adjustments of a text before its length is accepted.
const TRIES: u32 = 10;

/// A text and the number of tokens it has, special tokens not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    pub text: String,
    pub tokens: u32,
}

pub struct Composer {
    tokenizer: Arc<dyn Tokenizer>,
    ordinary: OnceLock<Vec<u32>>,
}

impl Composer {
    /// A composer over a tokenizer. Nothing is loaded yet.
    pub fn new(tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { tokenizer, ordinary: OnceLock::new() }
    }

    pub fn tokenizer(&self) -> &dyn Tokenizer {
        &*self.tokenizer
    }

    pub fn text(&self, tokens: u32, generator: &mut Generator) -> Result<Composed> {
        if let Some(words) = self.tokenizer.words()? {
            return Ok(Composed { text: text_of_words(&words, tokens, generator), tokens });
        }
        let ids = self.ids(tokens, generator)?;
        self.fitted(ids, tokens)
    }

    /// More text of `tokens` tokens, to be put behind an existing one: it starts with a blank.
    /// Exact only with a word table.
    pub fn continuation(&self, tokens: u32, generator: &mut Generator) -> Result<Composed> {
        let Some(words) = self.tokenizer.words()? else {
            let composed = self.text(tokens, generator)?;
            return Ok(Composed { text: format!(" {}", composed.text), ..composed });
        };
        let mut text = String::with_capacity(tokens as usize * 8);
        push_words(&words, tokens, generator, &mut text);
        Ok(Composed { text, tokens })
    }

    pub fn ids(&self, tokens: u32, generator: &mut Generator) -> Result<Vec<u32>> {
        let ordinary = self.ordinary_ids()?;
        let last = (ordinary.len() as u64).saturating_sub(1);
        let draw = |_| {
            let at = whole_between(generator, 0, last);
            usize::try_from(at).ok().and_then(|at| ordinary.get(at).copied()).unwrap_or(0)
        };
        Ok((0..tokens).map(draw).collect())
    }

    /// Ids that stand for ordinary text: the vocabulary without its special ids or, where a
    /// server does not report its vocabulary, the ids of the safe words.
    pub fn ordinary_ids(&self) -> Result<&[u32]> {
        if let Some(ids) = self.ordinary.get() {
            return Ok(ids);
        }
        let ids = if let Some(size) = self.tokenizer.vocab_size() {
            let specials = self.tokenizer.special_ids();
            (0..size).filter(|id| specials.binary_search(id).is_err()).collect()
        } else {
            let text = match self.tokenizer.words()? {
                Some(words) => {
                    (0..words.len()).map(|at| words.word(at)).collect::<Vec<_>>().join(" ")
                }
                // Some text that has many different tokens in any vocabulary.
                None => ('!'..='~').flat_map(|c| [c, ' ']).collect(),
            };
            let mut ids = self.tokenizer.encode(&text, Specials::Skip)?;
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        Ok(self.ordinary.get_or_init(|| ids))
    }

    /// The text of `ids`, adjusted until it has `tokens` tokens when encoded again.
    pub fn fitted(&self, mut ids: Vec<u32>, tokens: u32) -> Result<Composed> {
        let wanted = tokens as usize;
        let mut text = self.tokenizer.decode(&ids)?;
        for attempt in 0..TRIES {
            let again = self.tokenizer.encode(&text, Specials::Skip)?;
            if again.len() == wanted {
                return Ok(Composed { text, tokens });
            }
            if again.len() < wanted {
                ids = again;
                self.pad(&mut ids, &mut text, wanted)?;
            } else {
                // Each failed cut leaves one token more to be filled: the end of the text moves
                // to another position, until the tokens there survive.
                ids = again;
                ids.truncate(wanted.saturating_sub(attempt as usize));
                text = self.tokenizer.decode(&ids)?;
            }
        }
        let tokens = u32::try_from(self.tokenizer.count(&text)?).unwrap_or(u32::MAX);
        Ok(Composed { text, tokens })
    }

    /// Fills a text that is too short: by safe words where there are some, else by its own start.
    fn pad(&self, ids: &mut Vec<u32>, text: &mut String, wanted: usize) -> Result<()> {
        let missing = wanted - ids.len();
        if let Some(words) = self.tokenizer.words()? {
            for at in 0..missing {
                text.push(' ');
                text.push_str(words.word(at * 31 + ids.len()));
            }
            return Ok(());
        }
        let filler = self.ordinary_ids()?;
        for at in 0..missing {
            ids.push(filler[(at * 31 + ids.len()) % filler.len()]);
        }
        *text = self.tokenizer.decode(ids)?;
        Ok(())
    }
}

fn text_of_words(words: &SafeWords, tokens: u32, generator: &mut Generator) -> String {
    let Some(rest) = tokens.checked_sub(1) else { return String::new() };
    let mut text = String::with_capacity(tokens as usize * 9);
    text.push_str(words.starter((generator.next_u32() >> 8) as usize));
    push_words(words, rest, generator, &mut text);
    text
}

fn push_words(words: &SafeWords, count: u32, generator: &mut Generator, text: &mut String) {
    let table_len = words.len() as u64;
    for _ in 0..count {
        // The upper half of the product is uniform over the table.
        let at = (u64::from(generator.next_u32()) * table_len) >> 32;
        text.push(' ');
        text.push_str(words.word(usize::try_from(at).unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_base::Seed;
    use tokometer_tokenize::{BuiltIn, Encoding};

    /// A vocabulary like any other, of which no safe words are known.
    struct Wordless(BuiltIn);

    impl Tokenizer for Wordless {
        fn name(&self) -> &'static str {
            "wordless"
        }
        fn encode(&self, text: &str, specials: Specials) -> tokometer_tokenize::Result<Vec<u32>> {
            self.0.encode(text, specials)
        }
        fn decode(&self, ids: &[u32]) -> tokometer_tokenize::Result<String> {
            self.0.decode(ids)
        }
        fn vocab_size(&self) -> Option<u32> {
            self.0.vocab_size()
        }
        fn special_ids(&self) -> Vec<u32> {
            Vec::new()
        }
        fn added_specials(&self) -> tokometer_tokenize::Result<u32> {
            Ok(0)
        }
        fn words(&self) -> tokometer_tokenize::Result<Option<Arc<SafeWords>>> {
            Ok(None)
        }
    }

    #[test]
    fn without_safe_words_texts_are_adjusted_and_their_true_length_is_returned() {
        let tokenizer = Arc::new(Wordless(BuiltIn::new(Encoding::R50k)));
        let composer = Composer::new(Arc::clone(&tokenizer) as Arc<dyn Tokenizer>);
        let mut exact = 0;
        for index in 0..100 {
            let mut generator = Seed(1).stream("test").at(index);
            let Composed { text, tokens } = composer.text(128, &mut generator).unwrap();
            assert_eq!(tokenizer.count(&text).unwrap(), tokens as usize);
            exact += u32::from(tokens == 128);
        }
        assert!(exact >= 95, "{exact} of 100");
    }

    #[test]
    fn a_continuation_adds_its_own_length_and_nothing_more() {
        let tokenizer = Arc::new(BuiltIn::new(Encoding::R50k));
        let composer = Composer::new(Arc::clone(&tokenizer) as Arc<dyn Tokenizer>);
        let mut generator = Seed(1).stream("test").at(0);
        let text = composer.text(10, &mut generator).unwrap().text;
        let more = composer.continuation(7, &mut generator).unwrap().text;
        assert_eq!(tokenizer.count(&(text + &more)).unwrap(), 17);
        assert_eq!(composer.text(0, &mut generator).unwrap().text, "");
    }
}
