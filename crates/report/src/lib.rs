//! Views of a run and of reports printed by other tools.
//!
//! In: a [`tokometer_metrics::Summary`] with its [`tokometer_record::RunInfo`], or text that some
//! tool printed or saved. Out: text in any [`Layout`], tables, result files in other tools' schemas,
//! and the doctor's findings. Everything is a pure function of its input; nothing here opens a file,
//! reads a clock or knows a flag.

mod compact;
pub mod differences;
pub mod doctor;
pub mod error;
pub mod files;
pub mod from_summary;
pub mod html;
pub mod layout;
pub mod model;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod parse;
pub mod quantity;
pub mod rows;
pub mod sparkline;
pub mod style;
pub mod summary;
pub mod table;
#[cfg(test)]
mod testing;
pub mod trace;

pub use error::Error;
pub use from_summary::{Shown, from_summary};
pub use layout::{Layout, LayoutChoice, print, print_same};
pub use model::{Field, Key, Metric, Percentile, Quantity, Report, Stat, Title};
pub use parse::parse;
pub use style::{Colours, Style};
pub use summary::{print_summary, summary_markdown};
pub use table::{TableFormat, table};
