//! Errors of datasets.

use std::path::{Path, PathBuf};

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a dataset cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A dataset that lives in a file, without the file.
    #[error("cannot open the dataset `{0}`: no file was named\n  try `--dataset-path FILE`")]
    NoFile(&'static str),
    /// A file that is not there or cannot be read.
    #[error("cannot read the dataset file `{path}`: {source}")]
    Read {
        /// The file as named.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file without content.
    #[error("cannot use the dataset file `{0}`: it is empty")]
    Empty(PathBuf),
    /// A file that is not in the dataset's format.
    #[error("cannot use the dataset file `{path}`, line {line}: {reason}")]
    Malformed {
        /// The file as named.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What was expected.
        reason: String,
    },
    /// A file of which nothing, or too little, can be used.
    #[error("cannot use the dataset file `{path}`: {reason}")]
    TooShort {
        /// The file as named.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// Options that contradict each other or the dataset.
    #[error("cannot make the dataset `{dataset}`: {reason}")]
    Options {
        /// The dataset.
        dataset: &'static str,
        /// Which option, and why not.
        reason: String,
    },
    /// Prompts that cannot share a request.
    #[error("cannot use `--batch-size` with these prompts: {reason}")]
    Batch {
        /// Why not.
        reason: String,
    },
    /// A chat template that does not work.
    #[error("cannot apply the chat template of `{tokenizer}`: {reason}")]
    Template {
        /// Whose template.
        tokenizer: String,
        /// The template engine's message.
        reason: String,
    },
    /// A tokenizer that does not work.
    #[error(transparent)]
    Tokenizer(#[from] tokometer_tokenize::Error),
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }
}
