//! The server's own tokenizer, reached through functions that the caller passes in.
//!
//! This crate sends no HTTP. Every call may be a round trip, so the word table is verified in one
//! large encoding where that succeeds.

use std::sync::{Arc, OnceLock};

use crate::{Error, Reach, Result, SafeWords, Specials, Tokenizer, proof};

/// The server's result: the value, or its message.
pub type Answer<T> = std::result::Result<T, String>;

pub type TokenizeCall = Box<dyn Fn(&str, Specials) -> Answer<Vec<u32>> + Send + Sync>;

pub type DetokenizeCall = Box<dyn Fn(&[u32]) -> Answer<String> + Send + Sync>;

pub struct ServerCalls {
    /// How the tokenizer is named in reports: the address, say.
    pub name: String,
    pub tokenize: TokenizeCall,
    pub detokenize: DetokenizeCall,
}

pub struct ServerTokenizer {
    calls: ServerCalls,
    added_specials: u32,
    words: OnceLock<Option<Arc<SafeWords>>>,
}

impl ServerTokenizer {
    /// Sends two requests, with and without special tokens: they show how many of them the server adds.
    pub fn open(calls: ServerCalls) -> Result<Self> {
        let mut opened = Self { calls, added_specials: 0, words: OnceLock::new() };
        let with = opened.encode("a", Specials::Add)?.len();
        let without = opened.encode("a", Specials::Skip)?.len();
        opened.added_specials = u32::try_from(with.saturating_sub(without)).unwrap_or(0);
        Ok(opened)
    }
}

impl Tokenizer for ServerTokenizer {
    fn name(&self) -> &str {
        &self.calls.name
    }

    fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>> {
        (self.calls.tokenize)(text, specials)
            .map_err(|reason| Error::Encode { name: self.calls.name.clone(), reason })
    }

    fn decode(&self, ids: &[u32]) -> Result<String> {
        (self.calls.detokenize)(ids)
            .map_err(|reason| Error::Decode { name: self.calls.name.clone(), reason })
    }

    fn vocab_size(&self) -> Option<u32> {
        None
    }

    fn special_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn added_specials(&self) -> Result<u32> {
        Ok(self.added_specials)
    }

    fn words(&self) -> Result<Option<Arc<SafeWords>>> {
        if let Some(words) = self.words.get() {
            return Ok(words.clone());
        }
        let words = proof::verified(self)?;
        Ok(self.words.get_or_init(|| words).clone())
    }

    fn reach(&self) -> Reach {
        Reach::Remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuiltIn, Encoding};

    fn calls_with_bos() -> ServerCalls {
        let inner = BuiltIn::new(Encoding::R50k);
        ServerCalls {
            name: "server".into(),
            tokenize: Box::new(move |text, specials| {
                let bos = (specials == Specials::Add).then_some(50_256);
                let ids = inner.encode(text, specials).map_err(|error| error.to_string())?;
                Ok(bos.into_iter().chain(ids).collect())
            }),
            detokenize: Box::new(move |ids| inner.decode(ids).map_err(|error| error.to_string())),
        }
    }

    #[test]
    fn a_server_shows_its_special_tokens_and_proves_the_word_table() {
        let tokenizer = ServerTokenizer::open(calls_with_bos()).unwrap();
        assert_eq!(tokenizer.added_specials().unwrap(), 1);
        assert_eq!(tokenizer.words().unwrap().unwrap().len(), SafeWords::embedded().len());
        assert_eq!(tokenizer.decode(&[15_496]).unwrap(), "Hello");
    }

    #[test]
    fn a_server_without_the_route_cannot_be_opened() {
        let refusing = ServerCalls {
            name: "server".into(),
            tokenize: Box::new(|_, _| Err("404 Not Found".into())),
            detokenize: Box::new(|_| Err("404 Not Found".into())),
        };
        let error = ServerTokenizer::open(refusing).err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot encode text with the tokenizer `server`: 404 Not Found"
        );
    }
}
