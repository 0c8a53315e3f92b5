//! One note, what it is judged from, and what all notes amount to.

use serde::{Deserialize, Serialize};
use tokometer_record::{Health, RunInfo};

use crate::observe::Observed;
use crate::steady::{Overload, Unsteady};
use crate::summary::Summary;

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

impl Severity {
    /// The word used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Remark => "remark",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        }
    }
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

impl Verdict {
    /// The word printed under a run.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        }
    }
}

/// The worst note decides.
pub fn verdict(notes: &[Note]) -> Verdict {
    match notes.iter().map(|note| note.severity).max() {
        Some(Severity::Invalid) => Verdict::Invalid,
        Some(Severity::Suspect) => Verdict::Suspect,
        Some(Severity::Remark) | None => Verdict::Valid,
    }
}

/// All that a check may look at.
pub(crate) struct Evidence<'a> {
    pub(crate) info: &'a RunInfo,
    /// Complete but for its notes and verdict.
    pub(crate) summary: &'a Summary,
    /// `None` when the writer died before it could tell.
    pub(crate) health: Option<&'a Health>,
    pub(crate) observed: &'a Observed,
    /// Why there is no steady part.
    pub(crate) unsteady: Option<Unsteady>,
    pub(crate) overload: Option<Overload>,
}
