//! How much of the text came with the first content event, and how much of it was reasoning.
//!
//! The bytes are counted as they stand in the JSON, escapes included. No figure is made of them: they show where
//! a first event holds many tokens.

use tokometer_record::{ContentBytes, EventKind};

use super::reasoning;
use crate::scan::{Fields, Marks, Text};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByteCount {
    known: Option<ContentBytes>,
    /// Whether an event had content whose size is not known, such as a tool call.
    has_other: bool,
}

impl ByteCount {
    /// Adds a content event of this many bytes, so many of them reasoning.
    #[inline]
    pub(super) fn add(&mut self, bytes: usize, reasoning: usize) {
        let (bytes, reasoning) = (bytes as u64, reasoning as u64);
        let known = self.known.get_or_insert(ContentBytes { first: bytes, ..Default::default() });
        known.all += bytes;
        *known.reasoning.get_or_insert(0) += reasoning;
    }

    /// Adds a choice of this kind.
    pub(super) fn add_choice(&mut self, kind: EventKind, fields: &Fields<'_>) {
        if kind.is_content() {
            let thought = reasoning(fields).map_or(0, Text::len);
            let bytes = fields.text.as_ref().map_or(0, Text::len) + thought;
            let is_unknown = bytes == 0 || fields.marks.has(Marks::TOOL_CALL);
            // Events that repeat all text so far do not show how much came with each.
            self.has_other |= is_unknown || fields.marks.has(Marks::CUMULATIVE);
            self.add(bytes, thought);
        }
    }

    /// `None` where the size of some content is not known.
    pub(super) fn total(&self) -> Option<ContentBytes> {
        self.known.filter(|_| !self.has_other)
    }
}
