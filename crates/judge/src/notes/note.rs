//! The evidence for a note.

use tokometer_figures::Summary;
use tokometer_figures::observe::Observed;
use tokometer_figures::steady::{GrowingBacklog, Unsteady};
use tokometer_record::{Health, RunInfo};

use crate::verdict::Effects;

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
