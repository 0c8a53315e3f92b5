//! Reads the reports out of any text.
//!
//! In: what a terminal, a log file or a forum post holds. Out: one [`Report`](crate::Report) per
//! block, in its layout, with the heading or command line above it. `markup`, `plain`, `wrapped` and `lines`
//! undo what web pages and terminals do to text, `blocks` finds where blocks begin and end, `fit` reads one by the layouts'
//! tables, and `context` understands what stands before it. Lines that differ from the tables are
//! read by `labels`, `number` and `loose`; `fragments`, `grid` and `guidellm` read a text without a header.
//!
//! A block that is cut or mixed with another is returned as far as it goes and says so. A value that
//! cannot be read costs only itself: its text is kept and named. Time is linear in the text.

mod blocks;
mod context;
#[cfg(test)]
mod damage_tests;
mod decimal;
mod fit;
mod fragments;
mod grid;
mod guidellm;
mod labels;
mod lines;
mod loose;
mod markup;
mod number;
mod plain;
mod reports;
#[cfg(test)]
mod spelling_tests;
#[cfg(test)]
mod tests;
mod wrapped;

pub(crate) use number::{half_unit, rate_in_words};
pub use reports::parse;
