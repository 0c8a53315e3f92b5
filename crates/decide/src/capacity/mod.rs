//! What a search for capacity measured, and what it found.

mod findings;
mod reading;

pub use findings::{Doubt, Ending, Findings, LoadKind};
pub use reading::{Judged, Reading};
