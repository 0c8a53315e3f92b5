//! Notes that limit what the figures of a run can show.
//!
//! A note names the figure it affects and is printed beside it. Each has a row with its threshold, its reason,
//! its remedy, what it concerns and the check that finds it; the rows stand in one file per subject.

mod about;
mod answers;
mod client;
mod counts;
mod note;
mod rule;
mod run;
mod shards;
mod times;

#[cfg(test)]
mod tests;

pub use crate::code::NoteCode;
pub use rule::{explained, note_codes, notes_markdown, severity_of_failures};
pub(crate) use rule::{find, rule_of};
