//! A note, the evidence for it, and the verdict.

use serde::{Deserialize, Serialize};
use tokometer_record::{Health, RunInfo};

use crate::observe::Observed;
use crate::steady::{GrowingBacklog, Unsteady};
use crate::summary::Summary;
use crate::verdict::Effects;

/// How a note affects the verdict, from harmless to fatal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Does not change the verdict.
    Remark,
    /// The figures are correct but do not support the obvious conclusion.
    Suspect,
    /// The measurement failed.
    Invalid,
}

impl Severity {
    /// As used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Remark => "remark",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        }
    }
}

/// An observation that limits what the figures can show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Such as `late-sends`.
    pub code: String,
    /// How it affects the verdict.
    pub severity: Severity,
    /// Key of the figure it affects, or a group of figures such as `all`.
    pub figure: String,
    /// What was found, in one sentence with numbers.
    pub found: String,
    /// What it means for the reader.
    pub why: String,
    /// What to do about it.
    pub action: String,
    /// The largest share by which it may have moved a result; `None` where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<f64>,
}

/// The conclusion about a figure, or about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// No note above a remark.
    #[default]
    Valid,
    /// A figure does not support the obvious conclusion.
    Suspect,
    /// The measurement failed.
    Invalid,
}

impl Verdict {
    /// As printed in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        }
    }
}

pub(crate) struct CheckInput<'a> {
    pub(crate) info: &'a RunInfo,
    /// Complete except for notes and verdict.
    pub(crate) summary: &'a Summary,
    /// `None` when the program was killed before it wrote it.
    pub(crate) health: Option<&'a Health>,
    pub(crate) observed: &'a Observed,
    /// Why there is no steady part.
    pub(crate) unsteady: Option<Unsteady>,
    pub(crate) overload: Option<GrowingBacklog>,
    /// What moved which figure, and by how much.
    pub(crate) effects: &'a Effects,
}
