//! The parts of a summary that say how far its figures can be trusted.
//!
//! Only their shape is here, because a summary is one JSON object. `judge` fills them in.

use serde::{Deserialize, Serialize};

/// How a note affects the verdict, from harmless to fatal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Does not change the verdict.
    Remark,
    /// The figures are correct but do not support the obvious conclusion.
    Suspect,
    Invalid,
}

impl Severity {
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
    pub code: String,
    pub severity: Severity,
    /// Key of the figure it affects, or a group of figures such as `all`.
    pub figure: String,
    /// What was found, in one sentence with numbers.
    pub found: String,
    pub why: String,
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
    Invalid,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureVerdict {
    pub verdict: Verdict,
    /// Largest share by which the client or its machine may have moved the figure; `None` where nothing
    /// could have.
    pub effect: Option<f64>,
    /// Codes of the notes behind the verdict, and of the cause of the effect.
    pub notes: Vec<String>,
    /// Whether the figure is a result. Others explain results and do not count in the run's verdict.
    pub is_result: bool,
}

impl From<Severity> for Verdict {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Remark => Self::Valid,
            Severity::Suspect => Self::Suspect,
            Severity::Invalid => Self::Invalid,
        }
    }
}
