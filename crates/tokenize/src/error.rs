//! Errors of tokenizers.

use std::path::PathBuf;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a tokenizer could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that is not there or cannot be read.
    #[error("cannot read the tokenizer `{path}`: {source}")]
    Read {
        /// The file as named.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file whose content is no tokenizer.
    #[error(
        "cannot use `{path}` as a tokenizer: {reason}\n  try a `tokenizer.json` or a folder that holds one"
    )]
    Malformed {
        /// The file as named.
        path: PathBuf,
        /// The parser's message.
        reason: String,
    },
    /// The hub did not return the file.
    #[error("cannot fetch `{file}` of `{id}` from the hub: {reason}")]
    Hub {
        /// The model or dataset.
        id: String,
        /// The wanted file.
        file: String,
        /// The message of the hub or the network.
        reason: String,
    },
    /// A name that is neither a file, a hub id nor a built-in encoding.
    #[error(
        "cannot find the tokenizer `{0}`\n  try a path, a hub id such as `org/name`, or one of r50k, cl100k, o200k"
    )]
    Unknown(String),
    /// A vocabulary of the binary itself that does not load.
    #[error(
        "cannot load the built-in tokenizer `{name}`: {reason}\n  try another tokenizer with --tokenizer, and report this as a bug"
    )]
    BuiltIn {
        /// The encoding.
        name: &'static str,
        /// Its library's message.
        reason: String,
    },
    /// Text that the tokenizer refused.
    #[error("cannot encode text with the tokenizer `{name}`: {reason}")]
    Encode {
        /// The tokenizer.
        name: String,
        /// What it said.
        reason: String,
    },
    /// Token ids that the tokenizer refused.
    #[error("cannot decode tokens with the tokenizer `{name}`: {reason}")]
    Decode {
        /// The tokenizer.
        name: String,
        /// What it said.
        reason: String,
    },
}
