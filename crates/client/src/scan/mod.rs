//! Extracts the few fields of an event that matter, in one pass over its bytes.
//!
//! In: the data of one event, a JSON object of any dialect. Out: its [`Fields`]. The common case
//! builds no document. Unusual input (an escape inside a key, a document that is not an object) goes
//! to a full parser with the same table of fields, so both give the same meaning. [`EventTemplate`] is
//! faster still for events that differ from the last one only in their text.

mod cursor;
mod document;
mod fields;
mod template;
mod text;

pub use fields::{Fields, Marks};
pub use template::EventTemplate;
pub use text::Text;

/// The data is not a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson;

/// An error when `data` is not JSON.
pub fn scan(data: &[u8]) -> Result<Fields<'_>, NotJson> {
    cursor::fields(data).or_else(|_unusual| document::fields(data))
}

#[cfg(test)]
mod tests;
