//! The reports of other benchmark tools: printed blocks and result files, written and read.
//!
//! In: a [`tokometer_figures::Summary`] with its [`tokometer_record::RunInfo`], or text that a tool
//! printed or saved. Out: a [`Report`], its text in any [`Layout`], and result files in the tools' own
//! schemas. Everything is a pure function of its input. The tools' definitions of figures are in
//! [`family`]: lenses that are applied while timelines stream past.

pub mod differences;
mod error;
pub mod family;
mod file_keys;
pub mod files;
mod from_summary;
mod layout;
pub mod model;
mod parse;
mod print;
mod quantity;
#[cfg(test)]
mod testing;

pub use differences::{FigureDifference, differences, prints_withheld_gaps};
pub use error::Error;
pub use from_summary::{Selection, from_summary};
pub use layout::{Layout, LayoutChoice};
pub use model::{Field, Key, Metric, Percentile, Report, Scalar, Stat, Title};
pub use parse::parse;
pub use print::{print, print_same};
