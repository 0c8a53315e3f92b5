//! Reads the reports out of any text.
//!
//! In: what a terminal, a log file or a forum post holds. Out: one [`Report`](crate::Report) per
//! block, in its layout, with the heading or command line above it. `lines` undoes what terminals
//! do to text, `blocks` finds where blocks begin and end, `fit` reads one by the layouts' tables,
//! and `context` understands what stands before it. A block that is cut or mixed with another is
//! returned as far as it goes and says so; a value that cannot be read is an error with its place.

mod blocks;
mod context;
mod fit;
mod lines;
mod reports;
#[cfg(test)]
mod tests;

pub use reports::parse;
