//! Notes that limit what the figures of a run can show, and the verdict.
//!
//! A note names the figure it affects and is printed beside it. All notes come from one table
//! (`table`); each row has its threshold, its reason, its remedy and the check that finds it.

mod answer_checks;
mod checks;
mod client_checks;
mod note;
mod rule;
mod shard_checks;
mod table;

#[cfg(test)]
mod tests;

pub(crate) use note::CheckInput;
pub(crate) use rule::{find, least, worst};
pub use rule::{notes_markdown, severity_of_failures};
