//! The evidence that checks look at, and what many of them say.

use tokometer_figures::Summary;
use tokometer_figures::observe::Observed;
use tokometer_figures::steady::{GrowingBacklog, Unsteady};
use tokometer_record::{Health, RunInfo};

use super::NoteCode;
use crate::verdict::Effects;
use crate::verdict::limits::SUSPECT_ABOVE;
use tokometer_base::Nanos;

pub(crate) struct CheckInput<'a> {
    pub(crate) info: &'a RunInfo,
    /// Complete except for notes and verdict.
    pub(crate) summary: &'a Summary,
    /// `None` when the program was killed before it wrote it.
    pub(crate) health: Option<&'a Health>,
    pub(crate) observed: &'a Observed,
    pub(crate) unsteady: Option<Unsteady>,
    pub(crate) overload: Option<GrowingBacklog>,
    /// What moved which figure, and by how much.
    pub(crate) effects: &'a Effects,
}

pub(super) type Found = Option<String>;

pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A duration as a share of the run's length.
pub(super) fn of_run(evidence: &CheckInput<'_>, span: Option<Nanos>) -> Option<f64> {
    let seconds = evidence.summary.duration_s.filter(|seconds| *seconds > 0.0)?;
    Some(span?.as_secs_f64() / seconds)
}

/// Whether a cause moved a result by more than a remark allows.
pub(super) fn has_moved(evidence: &CheckInput<'_>, code: NoteCode) -> bool {
    evidence.effects.of_note(code).is_some_and(|(_, share)| share > SUSPECT_ABOVE)
}
