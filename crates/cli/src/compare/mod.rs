//! `tokometer compare`: reads both sides, and shows what [`tokometer_decide::compare`] says of them.
//!
//! In: run folders, other tools' result files, printed reports. Out: a comparison as text, Markdown,
//! JSON or a page, and an exit code for rules.

mod command;
mod load;
mod page;
mod sweeps;
mod views;

pub(crate) use command::{CompareArgs, compare, halves, of_reader, of_sides};
pub(crate) use page::page;
pub(crate) use views::{changed, percent, text, verdict};
