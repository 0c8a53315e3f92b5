//! What can be wrong with a row of a trace, and how often it was.

use std::path::PathBuf;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlawKind {
    /// The row is not valid, or lacks what its form needs.
    Malformed,
    NoTime,
    NegativeTime,
    ZeroLength,
    BlockSize,
    UnknownParent,
    CyclicParent,
    RepeatedId,
    /// Earlier than what was given out before.
    OutOfOrder,
    /// A call of a session that was given out before.
    LateTurn,
}

impl FlawKind {
    pub(super) fn with(self, text: impl Into<String>) -> Flaw {
        Flaw { kind: self, text: text.into() }
    }

    /// What rows with this flaw are.
    pub fn words(self) -> &'static str {
        match self {
            Self::Malformed => "cannot be read",
            Self::NoTime => "have no time",
            Self::NegativeTime => "have a time below zero",
            Self::ZeroLength => "have a length of zero",
            Self::BlockSize => "have a length that their blocks contradict",
            Self::UnknownParent => "follow a call that is not there",
            Self::CyclicParent => "follow themselves",
            Self::RepeatedId => "have an id that another row has",
            Self::OutOfOrder => "are out of order beyond the read-ahead",
            Self::LateTurn => "belong to a session that ended before the read-ahead",
        }
    }
}

/// What is wrong with one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    pub(super) kind: FlawKind,
    pub(super) text: String,
}

impl From<String> for Flaw {
    fn from(text: String) -> Self {
        FlawKind::Malformed.with(text)
    }
}

impl From<serde_json::Error> for Flaw {
    fn from(why: serde_json::Error) -> Self {
        // The line and column are those of one row, not of the file.
        let text = why.to_string();
        let end = text.rfind(" at line ").unwrap_or(text.len());
        FlawKind::Malformed.with(&text[..end])
    }
}

/// Rows with the same flaw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlawCount {
    pub kind: FlawKind,
    pub rows: u64,
    /// The first of them.
    pub path: PathBuf,
    pub line: u64,
    pub text: String,
}
