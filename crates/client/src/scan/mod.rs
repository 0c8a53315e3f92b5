//! Extracts the few fields of an event that matter, in one pass over its bytes.
//!
//! In: the data of one event and the [`Key`]s that a dialect declares for it. Out: its [`Fields`]. The common
//! case builds no document. Unusual input (a document that is not an object) is parsed in full. [`EventTemplate`] is faster still for events that differ from the last one only in their text.

mod cursor;
mod fields;
mod keys;
mod marks;
mod parts;
mod pooled;
mod template;
mod text;

pub(crate) use fields::{Fields, is_abort};
pub(crate) use keys::{Field, Key, also, choices, enter, finish, take, usage};
pub(crate) use marks::Marks;
pub(crate) use pooled::{PooledAnswer, scan_pooled};
pub(crate) use template::EventTemplate;
pub(crate) use text::Text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

/// The fields of a document; an error when `data` is not JSON.
pub(crate) fn scan<'a>(root: &[Key], data: &'a [u8]) -> Result<Fields<'a>, NotJson> {
    let quick = if data.starts_with(b"{") { cursor::fields(root, data).ok() } else { None };
    quick.map_or_else(|| parse_in_full(root, data), Ok)
}

fn parse_in_full(root: &[Key], data: &[u8]) -> Result<Fields<'static>, NotJson> {
    let document: serde_json::Value = serde_json::from_slice(data).map_err(|_| NotJson)?;
    let usual = document.to_string();
    // A document of another form, such as a bare number, has no field.
    Ok(cursor::fields(root, usual.as_bytes()).map(Fields::into_owned).unwrap_or_default())
}

#[cfg(test)]
mod tests;
