//! A summary before it is judged.

use tokometer_record::{Health, RunInfo};

use crate::observe::Observed;
use crate::rows::RequestRow;
use crate::steady::{GrowingBacklog, Unsteady};
use crate::summary::Summary;

/// A summary without notes and verdicts, with what these follow from.
#[derive(Debug, Clone)]
pub struct Unjudged {
    /// Complete except for notes and verdicts.
    pub summary: Summary,
    pub info: RunInfo,
    /// The last attempt of each measured request.
    pub rows: Vec<RequestRow>,
    /// `None` when the program was killed before it wrote it.
    pub health: Option<Health>,
    pub observed: Observed,
    pub unsteady: Option<Unsteady>,
    /// How the backlog of an open loop grew, if it did.
    pub overload: Option<GrowingBacklog>,
}
