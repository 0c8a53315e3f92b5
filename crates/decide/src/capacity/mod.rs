//! Points and result of a capacity search.

mod findings;
mod measured_point;
mod served;

pub use findings::{Caveat, Ending, Findings, LoadKind};
pub use measured_point::{MeasuredPoint, ObjectiveAtPoint};
