//! Layouts: the looks of printed reports, each a table of lines.
//!
//! One file per family of tools (`vllm`, `vllm_rust`, `sglang`) holds tables and nothing else;
//! `crate::print` turns a report into text by a table, and `parse` reads text by the same one.
//! A new layout is a table, an arm in `Layout::table` and a row in the tests.

mod name;
mod sglang;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod vllm;
mod vllm_rust;

pub use name::{Layout, LayoutChoice};
