//! The few fields of an event that matter, found in one pass over its bytes.
//!
//! In: the data of one event, a JSON object of any dialect. Out: its [`Fields`]. No document is built
//! in the common case; what the quick pass finds unusual (an escape inside a key, a document that is
//! not an object) is parsed in full, with the same table of fields, so the two cannot disagree about
//! meaning. [`Template`] is quicker still for events that differ from the last one in their text alone.

mod cursor;
mod document;
mod fields;
mod template;
mod text;

pub use fields::{Fields, Marks};
pub use template::Template;
pub use text::Text;

/// The data is not a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson;

/// The fields of one event.
pub fn scan(data: &[u8]) -> Result<Fields<'_>, NotJson> {
    cursor::fields(data).or_else(|_unusual| document::fields(data))
}

#[cfg(test)]
mod tests;
