//! Errors of datasets.

use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the dataset `{0}`: no file was named\n  try `--dataset-path FILE`")]
    NoFile(&'static str),
    #[error("cannot read the dataset file `{path}`: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot use the dataset file `{0}`: it is empty")]
    Empty(PathBuf),
    #[error("cannot use the dataset file `{path}`, line {line}: {reason}")]
    Malformed { path: PathBuf, line: u64, reason: String },
    #[error("cannot use the dataset file `{path}`: {reason}")]
    TooShort { path: PathBuf, reason: String },
    #[error("cannot make the dataset `{dataset}`: {reason}")]
    Options { dataset: &'static str, reason: String },
    #[error("cannot use `--batch-size` with these prompts: {reason}")]
    Batch { reason: String },
    #[error("cannot put these prompts into a conversation: {reason}")]
    Turns { reason: &'static str },
    #[error("cannot apply the chat template of `{tokenizer}`: {reason}")]
    Template { tokenizer: String, reason: String },
    #[error("cannot start threads that make prompts: {reason}")]
    Threads { reason: String },
    #[error(transparent)]
    Tokenizer(#[from] tokometer_tokenize::Error),
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        // The dataset's name is filled in by whoever opened it.
        let is_named = !path.as_os_str().is_empty();
        move |source| if is_named { Self::Read { path, source } } else { Self::NoFile("") }
    }
}
