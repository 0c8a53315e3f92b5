//! Saved runs, and reports of other tools, as they are read to be shown.
//!
//! In: paths of run folders, printed reports and result files. Out: summaries with what a view asks for.
//! What only the program can do (standard input, messages) is passed in as [`Reading`].

mod reading;
mod run;
mod sources;

pub use reading::{Reading, blocks_of, expanded};
pub use run::{RunView, SummarisedRun, layout_of, summarise_kept};
pub use sources::{PageSource, ReportSource, point_name};
