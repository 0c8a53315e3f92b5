//! Our own views of a run.
//!
//! In: a [`tokometer_figures::Summary`] with its [`tokometer_record::RunInfo`], the run's timelines,
//! or reports that [`tokometer_compat`] read. Out: the summary as text, Markdown, JSON and CSV, tables,
//! the HTML page, the trace, and requests as CSV or Parquet. Everything is a pure function of its
//! input; nothing here opens a file, reads a clock or knows a flag.

pub mod calibration;
pub mod capacity;
mod compact;
pub mod comparison;
pub mod export;
pub mod fitness;
pub mod grid;
pub mod history;
pub mod html;
pub mod objectives;
mod page_source;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod prediction;
pub mod reading;
pub mod rows;
pub mod saved;
pub mod several;
pub mod sources;
pub mod sparkline;
pub mod staircase;
pub mod style;
pub mod summary;
pub mod sweep;
pub mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod trace;

pub use compact::print_report;
pub use grid::{Align, Grid};
pub use html::quoted;
pub use page_source::{PageSource, point_name};
pub use style::Style;
pub use summary::fold::wrapped;
pub use summary::{
    SummaryFile, failure_lines, print_screen, print_summary, summary_csv, summary_json,
    summary_markdown,
};
pub use table::{TableFile, TableFormat, table};
