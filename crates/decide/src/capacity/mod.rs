//! Points and result of a capacity search.

mod findings;
mod measured_point;
mod served;

pub use findings::{Caveat, Ending, Findings, FinerSearch, LoadKind, budget_words};
pub use measured_point::{MeasuredPoint, ObjectiveAtPoint, SentLoad};
