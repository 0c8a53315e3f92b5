//! Extracts the few fields of an event that matter, in one pass over its bytes.
//!
//! In: the data of one event, a JSON object of any dialect. Out: its [`Fields`]. The common case
//! builds no document. Unusual input (an escape inside a key, a document that is not an object) goes
//! to a full parser with the same table of fields, so both give the same meaning. [`EventTemplate`] is
//! faster still for events that differ from the last one only in their text.

mod cursor;
mod document;
mod fields;
mod marks;
mod pooled;
mod template;
mod text;
mod typed;

pub use fields::Fields;
pub(crate) use fields::{is_abort, is_success_number, is_success_word};
pub use marks::Marks;
pub use pooled::{PooledAnswer, scan_pooled};
pub use template::EventTemplate;
pub use text::Text;
pub(crate) use typed::says_error;

/// The data is not a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson;

/// What the keys of an event mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSchema {
    /// One table for all protocols whose events need no name.
    Shared,
    /// The same for OpenAI's completions and chat, where all text stands in `choices`.
    Choices,
    /// Events of the Responses API.
    Responses,
    /// Events of the Messages API.
    Messages,
    /// Chunks and events of transcriptions.
    Transcription,
    /// An answer with one result per input.
    Vectors,
    /// An answer with one result per document, or fewer where the request limits them.
    Ranking,
}

impl EventSchema {
    /// Whether answers are vectors, scores or classes.
    pub const fn is_pooled(self) -> bool {
        matches!(self, Self::Vectors | Self::Ranking)
    }

    /// Whether the meaning of an event does not depend on its type.
    pub(crate) const fn is_untyped(self) -> bool {
        matches!(self, Self::Shared | Self::Choices)
    }

    const fn root(self) -> fields::KnownObject {
        match self {
            Self::Shared | Self::Vectors | Self::Ranking => fields::KnownObject::Root,
            Self::Choices => fields::KnownObject::ChoicesRoot,
            Self::Responses => fields::KnownObject::ResponsesEvent,
            Self::Messages => fields::KnownObject::MessagesEvent,
            Self::Transcription => fields::KnownObject::TranscriptEvent,
        }
    }
}

/// The fields of one event; an error when `data` is not JSON.
pub fn scan(schema: EventSchema, data: &[u8]) -> Result<Fields<'_>, NotJson> {
    scan_event(schema, b"", data)
}

/// The same for an event with a name, which is its type where the data has none.
pub fn scan_event<'a>(
    schema: EventSchema,
    name: &'a [u8],
    data: &'a [u8],
) -> Result<Fields<'a>, NotJson> {
    let root = schema.root();
    let mut fields = cursor::fields(root, data).or_else(|_unusual| document::fields(root, data))?;
    if !schema.is_untyped() {
        fields.set_type(name);
    }
    fields.settle(schema);
    Ok(fields)
}

/// The fields of an answer in one piece; an error when `data` is not JSON.
pub fn scan_whole(schema: EventSchema, data: &[u8]) -> Result<Fields<'_>, NotJson> {
    match schema {
        EventSchema::Shared
        | EventSchema::Choices
        | EventSchema::Transcription
        | EventSchema::Vectors
        | EventSchema::Ranking => scan(schema, data),
        EventSchema::Responses | EventSchema::Messages => typed::whole(schema, data),
    }
}

#[cfg(test)]
mod tests;
