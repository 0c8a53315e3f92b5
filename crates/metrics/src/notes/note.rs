//! One note, the evidence for it, and the verdict of all notes.

use serde::{Deserialize, Serialize};
use tokometer_record::{Health, RunInfo};

use crate::observe::Observed;
use crate::steady::{Overload, Unsteady};
use crate::summary::Summary;

/// What a note does to the verdict. Ordered from harmless to fatal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// For information; does not change the verdict.
    Remark,
    /// The figures are correct but do not support the obvious conclusion.
    Suspect,
    /// The measurement failed.
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

/// One observation that limits what the figures can show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its name, such as `late-sends`.
    pub code: String,
    /// What it does to the verdict.
    pub severity: Severity,
    /// Key of the figure it affects, or a group of figures such as `all`.
    pub figure: String,
    /// What was found, in one sentence with its numbers.
    pub found: String,
    /// What it means for the reader.
    pub why: String,
    /// What to do about it.
    pub action: String,
}

/// The verdict that follows from the notes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// No note above a remark.
    #[default]
    Valid,
    /// Some figure does not support the obvious conclusion.
    Suspect,
    /// The measurement failed.
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

/// The worst note sets the verdict.
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
    /// `None` when the program was killed before it wrote it.
    pub(crate) health: Option<&'a Health>,
    pub(crate) observed: &'a Observed,
    /// Why there is no steady part.
    pub(crate) unsteady: Option<Unsteady>,
    pub(crate) overload: Option<Overload>,
}
