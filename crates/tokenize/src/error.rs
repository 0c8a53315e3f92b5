//! Errors of tokenizers.

use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the tokenizer `{path}`: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "cannot use `{path}` as a tokenizer: {reason}\n  try a `tokenizer.json` or a folder that holds one"
    )]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot fetch `{file}` of `{id}` from the hub: {reason}")]
    Hub { id: String, file: String, reason: String },
    #[error(
        "cannot find the tokenizer `{0}`\n  try a path, a hub id such as `org/name`, or one of r50k, cl100k, o200k"
    )]
    Unknown(String),
    #[error(
        "cannot load the built-in tokenizer `{name}`: {reason}\n  try another tokenizer with --tokenizer, and report this as a bug"
    )]
    BuiltIn { name: &'static str, reason: String },
    #[error("cannot encode text with the tokenizer `{name}`: {reason}")]
    Encode { name: String, reason: String },
    #[error("cannot decode tokens with the tokenizer `{name}`: {reason}")]
    Decode { name: String, reason: String },
}
