//! A model's own tokenizer: a `tokenizer.json`, alone or in a model folder.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::{Error, Result, SafeWords, Specials, Tokenizer, TokenizerConfig, proof};

/// The file that holds a whole tokenizer.
pub const FILE_NAME: &str = "tokenizer.json";

pub struct ModelTokenizer {
    name: String,
    inner: tokenizers::Tokenizer,
    config: Option<TokenizerConfig>,
    /// BOS, where the configuration asks for it and the file's own rules do not add it.
    extra_bos: Option<u32>,
    words: OnceLock<Option<Arc<SafeWords>>>,
}

impl ModelTokenizer {
    /// Opens a `tokenizer.json` or the one in a model folder, and the configuration beside it.
    pub fn open(path: &Path) -> Result<Self> {
        let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        Self::open_as(path.display().to_string(), &file)
    }

    /// Opens a file under another name, such as the hub id it was fetched for.
    pub fn open_as(name: String, file: &Path) -> Result<Self> {
        let bytes =
            std::fs::read(file).map_err(|source| Error::Read { path: file.to_owned(), source })?;
        let mut inner = tokenizers::Tokenizer::from_bytes(&bytes)
            .map_err(|error| malformed(file, &error.to_string()))?;
        // A file may carry the limits of its training: a prompt is never cut or filled here.
        inner.with_padding(None);
        let _without_limit =
            inner.with_truncation(None).map_err(|error| malformed(file, &error.to_string()))?;
        let config = TokenizerConfig::beside(file)?;
        let extra_bos = missing_bos(&inner, config.as_ref());
        Ok(Self { name, inner, config, extra_bos, words: OnceLock::new() })
    }

    fn refused(&self, reason: &tokenizers::Error) -> Error {
        Error::Encode { name: self.name.clone(), reason: reason.to_string() }
    }
}

fn malformed(path: &Path, reason: &str) -> Error {
    Error::Malformed { path: PathBuf::from(path), reason: reason.to_owned() }
}

/// Some models add BOS by `add_bos_token` alone.
fn missing_bos(inner: &tokenizers::Tokenizer, config: Option<&TokenizerConfig>) -> Option<u32> {
    let config = config.filter(|config| config.add_bos_token == Some(true))?;
    let bos = inner.token_to_id(config.bos_token.as_deref()?)?;
    let encoded = inner.encode_fast("a", true).ok()?;
    (encoded.get_ids().first() != Some(&bos)).then_some(bos)
}

impl Tokenizer for ModelTokenizer {
    fn name(&self) -> &str {
        &self.name
    }

    fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>> {
        let is_with_specials = specials == Specials::Add;
        let encoded =
            self.inner.encode_fast(text, is_with_specials).map_err(|error| self.refused(&error))?;
        let bos = self.extra_bos.filter(|_| is_with_specials);
        Ok(bos.into_iter().chain(encoded.get_ids().iter().copied()).collect())
    }

    fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner
            .decode(ids, true)
            .map_err(|error| Error::Decode { name: self.name.clone(), reason: error.to_string() })
    }

    fn count(&self, text: &str) -> Result<usize> {
        let encoded = self.inner.encode_fast(text, false).map_err(|error| self.refused(&error))?;
        Ok(encoded.len())
    }

    fn vocab_size(&self) -> Option<u32> {
        u32::try_from(self.inner.get_vocab_size(true)).ok()
    }

    fn special_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.inner.get_added_tokens_decoder().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn added_specials(&self) -> Result<u32> {
        let with = self.encode("a", Specials::Add)?.len();
        let without = self.encode("a", Specials::Skip)?.len();
        Ok(u32::try_from(with.saturating_sub(without)).unwrap_or(0))
    }

    fn words(&self) -> Result<Option<Arc<SafeWords>>> {
        if let Some(words) = self.words.get() {
            return Ok(words.clone());
        }
        let words = proof::verified(self)?;
        Ok(self.words.get_or_init(|| words).clone())
    }

    fn config(&self) -> Option<&TokenizerConfig> {
        self.config.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word-level tokenizer of three words whose template puts BOS first.
    const TINY: &str = r#"{"version":"1.0","truncation":null,"padding":null,
        "added_tokens":[{"id":0,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,
                         "normalized":false,"special":true}],
        "normalizer":null,"pre_tokenizer":{"type":"Whitespace"},
        "post_processor":{"type":"TemplateProcessing",
            "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
            "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
            "special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}},
        "decoder":null,
        "model":{"type":"WordLevel","vocab":{"<s>":0,"<unk>":1,"one":2,"two":3},"unk_token":"<unk>"}}"#;

    fn tiny(post_processor: &str, config: &str) -> (tempfile::TempDir, ModelTokenizer) {
        let folder = tempfile::tempdir().unwrap();
        let text = if post_processor == "as is" {
            TINY.to_owned()
        } else {
            let start = TINY.find(r#""post_processor""#).unwrap();
            let end = TINY.find(r#""decoder""#).unwrap();
            format!(r#"{}"post_processor":null,{}"#, &TINY[..start], &TINY[end..])
        };
        std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
        let tokenizer = ModelTokenizer::open(folder.path()).unwrap();
        (folder, tokenizer)
    }

    #[test]
    fn special_tokens_are_counted_apart_from_the_text() {
        let (_folder, tokenizer) = tiny("as is", "{}");
        assert_eq!(tokenizer.encode("one two", Specials::Skip).unwrap(), [2, 3]);
        assert_eq!(tokenizer.encode("one two", Specials::Add).unwrap(), [0, 2, 3]);
        assert_eq!(tokenizer.added_specials().unwrap(), 1);
        assert_eq!(tokenizer.special_ids(), [0]);
        assert_eq!(tokenizer.vocab_size(), Some(4));
        assert!(tokenizer.words().unwrap().is_none(), "a vocabulary of two words has no table");
    }

    #[test]
    fn bos_that_only_the_configuration_asks_for_is_added_once() {
        let config = r#"{"add_bos_token":true,"bos_token":"<s>"}"#;
        for post_processor in ["as is", "none"] {
            let (_folder, tokenizer) = tiny(post_processor, config);
            assert_eq!(tokenizer.encode("one", Specials::Add).unwrap(), [0, 2], "{post_processor}");
            assert_eq!(tokenizer.added_specials().unwrap(), 1);
        }
    }

    #[test]
    fn a_file_that_is_missing_or_no_tokenizer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = ModelTokenizer::open(folder.path()).err().unwrap();
        assert!(matches!(missing, Error::Read { .. }), "{missing}");
        let path = folder.path().join(FILE_NAME);
        std::fs::write(&path, "{}").unwrap();
        let broken = ModelTokenizer::open(&path).err().unwrap();
        assert!(matches!(broken, Error::Malformed { .. }), "{broken}");
    }
}
