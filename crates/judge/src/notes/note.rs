//! What many checks say.

use tokometer_figures::Unjudged;

use super::NoteCode;
use crate::effects::Effects;
use crate::limits::SUSPECT_ABOVE;
use tokometer_base::Nanos;

pub(super) type Found = Option<String>;

pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A duration as a share of the run's length. What the client records about itself begins before the first send,
/// so it may exceed a short run.
pub(super) fn of_run(run: &Unjudged, span: Option<Nanos>) -> Option<f64> {
    let seconds = run.summary.duration_s.filter(|seconds| *seconds > 0.0)?;
    Some((span?.as_secs_f64() / seconds).min(1.0))
}

/// Whether a cause moved a result by more than a remark allows.
pub(super) fn has_moved(effects: &Effects, code: NoteCode) -> bool {
    effects.of_note(code).is_some_and(|(_, share)| share > SUSPECT_ABOVE)
}
