//! How much of the text came with the first content event.

use tokometer_record::{ContentBytes, EventKind};

use super::reasoning;
use crate::scan::{Fields, Marks};

/// Counts bytes of text as they stand in the JSON: a server escapes all of its text alike.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByteCount {
    known: Option<ContentBytes>,
    /// Whether an event had content whose size is not known, such as a tool call.
    has_other: bool,
}

impl ByteCount {
    /// Adds a content event with this many bytes.
    #[inline]
    pub(super) fn add(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        match &mut self.known {
            Some(known) => known.all += bytes,
            None => self.known = Some(ContentBytes { first: bytes, all: bytes }),
        }
    }

    /// Adds a choice of this kind.
    pub(super) fn add_choice(&mut self, kind: EventKind, fields: &Fields<'_>) {
        if !kind.is_content() {
            return;
        }
        let text = fields.text.as_ref().map_or(0, crate::scan::Text::len);
        let bytes = text + reasoning(fields).map_or(0, crate::scan::Text::len);
        self.has_other |= bytes == 0 || fields.marks.has(Marks::TOOL_CALL);
        self.add(bytes);
    }

    /// `None` where the size of some content is not known.
    pub(super) fn total(&self) -> Option<ContentBytes> {
        self.known.filter(|_| !self.has_other)
    }
}
