//! What `tokenizer_config.json` says beside the vocabulary: the chat template and its tokens.
//!
//! Read leniently: the file has dozens of fields and several historic forms, and a field that is
//! absent or of an unknown form is `None`.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::{Error, Result};

/// The name of the file beside a `tokenizer.json`.
pub const FILE_NAME: &str = "tokenizer_config.json";

/// The file that newer models keep their template in.
pub const TEMPLATE_NAME: &str = "chat_template.jinja";

/// The parts of a `tokenizer_config.json` that prompts depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenizerConfig {
    /// The Jinja text that turns messages into one prompt.
    pub chat_template: Option<String>,
    pub bos_token: Option<String>,
    pub eos_token: Option<String>,
    /// Whether the model's own tokenizer puts BOS first, where the file says so.
    pub add_bos_token: Option<bool>,
}

#[derive(Deserialize)]
struct Raw {
    chat_template: Option<Value>,
    bos_token: Option<Value>,
    eos_token: Option<Value>,
    add_bos_token: Option<Value>,
}

/// A special token is either its text or an object with the text in `content`.
fn token_text(value: Option<&Value>) -> Option<String> {
    let value = value?;
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}

/// A template is either text or a list of named templates, of which `default` is the plain one.
fn template_text(value: Option<&Value>) -> Option<String> {
    let value = value?;
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let is_default = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some("default");
    let named = value.as_array()?.iter().find(is_default)?;
    named.get("template")?.as_str().map(str::to_owned)
}

impl TokenizerConfig {
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        let raw: Raw = serde_json::from_str(text)?;
        Ok(Self {
            chat_template: template_text(raw.chat_template.as_ref()),
            bos_token: token_text(raw.bos_token.as_ref()),
            eos_token: token_text(raw.eos_token.as_ref()),
            add_bos_token: raw.add_bos_token.as_ref().and_then(Value::as_bool),
        })
    }

    /// The configuration beside a `tokenizer.json`. `None` where there is none. One that cannot be read is
    /// an error: it decides about special tokens, and so about every prompt length.
    pub fn beside(tokenizer: &Path) -> Result<Option<Self>> {
        let path = tokenizer.with_file_name(FILE_NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let mut config = Self::parse(&text)
            .map_err(|error| Error::Malformed { path, reason: error.to_string() })?;
        if config.chat_template.is_none() {
            let template = tokenizer.with_file_name(TEMPLATE_NAME);
            config.chat_template = std::fs::read_to_string(template).ok();
        }
        Ok(Some(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_historic_form_of_the_fields_is_read() {
        let check = |text: &str, expected: TokenizerConfig| {
            assert_eq!(TokenizerConfig::parse(text).unwrap(), expected, "{text}");
        };
        check("{}", TokenizerConfig::default());
        check(
            r#"{"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"add_bos_token":true,
               "chat_template":"{{ messages }}"}"#,
            TokenizerConfig {
                chat_template: Some("{{ messages }}".into()),
                bos_token: Some("<s>".into()),
                eos_token: Some("</s>".into()),
                add_bos_token: Some(true),
            },
        );
        check(
            r#"{"bos_token":null,"chat_template":[{"name":"tool","template":"T"},{"name":"default","template":"D"}]}"#,
            TokenizerConfig { chat_template: Some("D".into()), ..TokenizerConfig::default() },
        );
    }

    #[test]
    fn a_template_in_its_own_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE_NAME), "{}").unwrap();
        std::fs::write(folder.path().join(TEMPLATE_NAME), "J").unwrap();
        let config =
            TokenizerConfig::beside(&folder.path().join("tokenizer.json")).unwrap().unwrap();
        assert_eq!(config.chat_template.as_deref(), Some("J"));
    }

    /// It was taken for absent, and prompts of a model with `add_bos_token` were a token short.
    #[test]
    fn a_configuration_that_cannot_be_read_is_an_error_and_an_absent_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = folder.path().join("tokenizer.json");
        assert_eq!(TokenizerConfig::beside(&tokenizer).unwrap(), None);
        std::fs::write(folder.path().join(FILE_NAME), b"{\xff}").unwrap();
        let why = TokenizerConfig::beside(&tokenizer).unwrap_err().to_string();
        assert!(why.contains(FILE_NAME), "{why}");
    }
}
