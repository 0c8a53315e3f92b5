//! The built-in encodings: vocabularies carried in the binary, loaded when first used.

mod vocabulary;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tiktoken_rs::CoreBPE;

use crate::{Error, Result, SafeWords, Specials, Tokenizer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// About 50,000 tokens, loads in some 30 ms.
    R50k,
    /// About 100,000 tokens: the one that the vocabularies of many open models extend.
    #[default]
    Cl100k,
    /// About 200,000 tokens, loads in some 180 ms.
    O200k,
}

impl Encoding {
    pub const ALL: [Self; 3] = [Self::R50k, Self::Cl100k, Self::O200k];

    pub const fn name(self) -> &'static str {
        match self {
            Self::R50k => "r50k",
            Self::Cl100k => "cl100k",
            Self::O200k => "o200k",
        }
    }

    fn vocabulary(self) -> Result<&'static CoreBPE> {
        static LOADED: [OnceLock<std::result::Result<CoreBPE, String>>; 3] =
            [const { OnceLock::new() }; 3];
        let loaded = LOADED[self as usize].get_or_init(|| vocabulary::load(self));
        loaded
            .as_ref()
            .map_err(|reason| Error::BuiltIn { name: self.name(), reason: reason.clone() })
    }

    /// Ids below this one stand for ordinary text; those from it on are special or unused.
    const fn ordinary_ids(self) -> u32 {
        match self {
            Self::R50k => 50_256,
            Self::Cl100k => 100_256,
            Self::O200k => 199_998,
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Encoding {
    type Err = Error;

    /// Takes `cl100k` and `cl100k_base`.
    fn from_str(text: &str) -> Result<Self> {
        let short = text.strip_suffix("_base").unwrap_or(text);
        let named = Self::ALL.into_iter().find(|encoding| encoding.name() == short);
        named.ok_or_else(|| Error::Unknown(text.to_owned()))
    }
}

/// A tokenizer over a built-in encoding. Creating it loads nothing.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    encoding: Encoding,
}

impl BuiltIn {
    pub const fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }
}

impl Tokenizer for BuiltIn {
    fn name(&self) -> &str {
        self.encoding.name()
    }

    /// No server adds special tokens in these encodings, so both kinds of encoding are the same.
    fn encode(&self, text: &str, _specials: Specials) -> Result<Vec<u32>> {
        Ok(self.encoding.vocabulary()?.encode_ordinary(text))
    }

    fn decode(&self, ids: &[u32]) -> Result<String> {
        let bytes = self.encoding.vocabulary()?.decode_bytes(ids).map_err(|error| {
            Error::Decode { name: self.name().to_owned(), reason: error.to_string() }
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn count(&self, text: &str) -> Result<usize> {
        Ok(self.encoding.vocabulary()?.count_ordinary(text))
    }

    /// Ordinary ids only: the special ones above them have gaps that no server accepts.
    fn vocab_size(&self) -> Option<u32> {
        Some(self.encoding.ordinary_ids())
    }

    fn special_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn added_specials(&self) -> Result<u32> {
        Ok(0)
    }

    /// The embedded table, proved for these encodings by a test: nothing is loaded.
    fn words(&self) -> Result<Option<Arc<SafeWords>>> {
        Ok(Some(SafeWords::embedded()))
    }

    fn has_tested_words(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_gives_back_its_text_and_knows_its_last_ordinary_id() {
        for encoding in Encoding::ALL {
            let tokenizer = BuiltIn::new(encoding);
            let ids = tokenizer.encode("Hello, wörld! 123", Specials::Add).unwrap();
            assert_eq!(tokenizer.decode(&ids).unwrap(), "Hello, wörld! 123");
            assert_eq!(tokenizer.count("Hello, wörld! 123").unwrap(), ids.len());
            let last = tokenizer.vocab_size().unwrap() - 1;
            assert!(tokenizer.decode(&[last]).is_ok(), "{encoding}: {last}");
        }
    }

    #[test]
    fn names_are_read_with_and_without_their_suffix() {
        assert_eq!("cl100k_base".parse::<Encoding>().unwrap(), Encoding::Cl100k);
        assert_eq!("o200k".parse::<Encoding>().unwrap(), Encoding::O200k);
        assert!("p50k".parse::<Encoding>().is_err());
    }
}
