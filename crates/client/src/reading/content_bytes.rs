//! How much of the text came with the first content event, and how much of it was reasoning.

use tokometer_record::{ContentBytes, EventKind};

use super::reasoning;
use crate::scan::{Fields, Marks, Text};

/// Counts bytes of text as they stand in the JSON: a server escapes all of its text alike. The full parser gives texts
/// without escapes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByteCount {
    known: Option<ContentBytes>,
    /// Whether an event had content whose size is not known, such as a tool call.
    has_other: bool,
    units: Units,
}

/// Whether bytes were counted with escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Units {
    /// No text had any, or needs any.
    #[default]
    Same,
    Escaped,
    /// Without escapes that the text may have had.
    Unescaped,
    Mixed,
}

impl Units {
    #[inline]
    fn add(&mut self, other: Self) {
        if *self == Self::Same {
            *self = other;
        } else if other != Self::Same && other != *self {
            *self = Self::Mixed;
        }
    }
}

impl ByteCount {
    /// Adds a content event that has only this text.
    #[inline]
    pub(super) fn add_text(&mut self, kind: EventKind, text: &Text<'_>) {
        self.note_units(text);
        let reasoning = if kind == EventKind::Reasoning { text.len() } else { 0 };
        self.add(text.len(), reasoning);
    }

    #[inline]
    fn note_units(&mut self, text: &Text<'_>) {
        self.units.add(match text {
            Text::Plain(_) => Units::Same,
            Text::Escaped(_) => Units::Escaped,
            Text::Owned(text) if text.bytes().all(needs_no_escape) => Units::Same,
            Text::Owned(_) => Units::Unescaped,
        });
    }

    #[inline]
    fn add(&mut self, bytes: usize, reasoning: usize) {
        let (bytes, reasoning) = (bytes as u64, reasoning as u64);
        let known = self.known.get_or_insert(ContentBytes { first: bytes, ..Default::default() });
        known.all += bytes;
        *known.reasoning.get_or_insert(0) += reasoning;
    }

    /// Adds a choice of this kind.
    pub(super) fn add_choice(&mut self, kind: EventKind, fields: &Fields<'_>) {
        if !kind.is_content() {
            return;
        }
        let thought = reasoning(fields);
        let mut bytes = 0;
        for text in [fields.text.as_ref(), thought].into_iter().flatten() {
            self.note_units(text);
            bytes += text.len();
        }
        self.has_other |= bytes == 0 || fields.marks.has(Marks::TOOL_CALL);
        self.add(bytes, thought.map_or(0, Text::len));
    }

    /// `None` where the size of some content is not known, or not in the same units.
    pub(super) fn total(&self) -> Option<ContentBytes> {
        let is_known = !self.has_other && self.units != Units::Mixed;
        self.known.filter(|_| is_known)
    }
}

/// Whether every server writes the character of this byte as it is.
fn needs_no_escape(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'/')
}
