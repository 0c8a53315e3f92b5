//! The buffer into which answers are written, event by event.

use std::io::Write as _;

use crate::truth::SentKind;

/// Events that were written, with where each ends and what it carries.
#[derive(Debug, Default)]
pub(crate) struct EventBuffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<EventEnd>,
}

/// The end of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventEnd {
    pub(crate) end: usize,
    pub(crate) kind: SentKind,
    pub(crate) tokens: u32,
    pub(crate) joint: Joint,
}

/// Whether an event has an HTTP chunk of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    Apart,
    WithNext,
}

/// How the sizes of HTTP chunks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hex {
    Lower,
    Upper,
}

impl EventBuffer {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }

    pub(crate) fn put(&mut self, text: &str) -> &mut Self {
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    pub(crate) fn put_number(&mut self, number: u32) -> &mut Self {
        let _ = write!(self.bytes, "{number}");
        self
    }

    /// `[1,2,3]`.
    pub(crate) fn put_numbers(&mut self, numbers: &[u32]) -> &mut Self {
        for (index, number) in numbers.iter().enumerate() {
            self.put(if index == 0 { "[" } else { "," }).put_number(*number);
        }
        self.put(if numbers.is_empty() { "[]" } else { "]" })
    }

    /// Ends an event that has a chunk of its own.
    pub(crate) fn close(&mut self, kind: SentKind, tokens: u32) {
        self.mark(kind, tokens, Joint::Apart);
    }

    /// Ends an event that shares its chunk with the next one.
    pub(crate) fn close_joined(&mut self, kind: SentKind, tokens: u32) {
        self.mark(kind, tokens, Joint::WithNext);
    }

    fn mark(&mut self, kind: SentKind, tokens: u32, joint: Joint) {
        self.put("\n\n");
        self.marks.push(EventEnd { end: self.bytes.len(), kind, tokens, joint });
    }

    /// The announced end of a stream.
    pub(crate) fn done(&mut self) {
        self.put("data: [DONE]").close(SentKind::Done, 0);
    }
}
