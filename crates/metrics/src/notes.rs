//! Doubts about a run, and the verdict.

use serde::{Deserialize, Serialize};

/// What a note does to the verdict. Ordered from harmless to fatal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing; spoils nothing.
    Remark,
    /// The figures are right but do not support the conclusion a reader would draw.
    Suspect,
    /// The instrument failed.
    Invalid,
}

/// One doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its name, such as `late-sends`.
    pub code: String,
    /// What it does to the verdict.
    pub severity: Severity,
    /// Key of the figure it spoils, or a group of figures such as `all`.
    pub figure: String,
    /// What was found, in one sentence with its numbers.
    pub found: String,
    /// What it means for the reader.
    pub why: String,
    /// What to do about it.
    pub action: String,
}

/// What the notes of a run amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Nothing spoils the figures.
    #[default]
    Valid,
    /// Some figure does not support its obvious reading.
    Suspect,
    /// The instrument failed.
    Invalid,
}
