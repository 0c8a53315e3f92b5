//! Saved runs as they are shown, and reports of other tools among them.

mod run;
mod source;

pub use run::{RunView, SummarisedRun, layout_of};
pub use source::{NamedSource, ReportSource};
