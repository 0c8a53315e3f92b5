//! `tokometer compare`: reads both sides, and shows what [`tokometer_decide::compare`] says of them.
//!
//! In: run folders, other tools' result files, printed reports. Out: a comparison as text, Markdown,
//! JSON or a page, and an exit code for rules.

mod command;
mod load;
mod views;

#[cfg(test)]
pub(crate) use command::of_sides;
pub(crate) use command::{CompareArgs, compare, halves, of_reader};
pub(crate) use views::text;
