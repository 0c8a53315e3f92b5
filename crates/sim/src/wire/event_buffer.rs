//! The buffer into which answers are written, event by event.

use serde_json::Value;

use crate::truth::SentKind;

/// Events that were written, with where each ends and what it carries.
#[derive(Debug, Default)]
pub(crate) struct EventBuffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<EventEnd>,
}

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

    /// Ends an event, which has a chunk of its own and no tokens unless the caller says so.
    pub(crate) fn close(&mut self, kind: SentKind) -> &mut EventEnd {
        self.put("\n\n");
        let end = self.bytes.len();
        self.marks.push(EventEnd { end, kind, tokens: 0, joint: Joint::Apart });
        self.marks.last_mut().expect("one was just added")
    }

    pub(crate) fn event(&mut self, data: &Value, kind: SentKind) -> &mut EventEnd {
        self.put("data: ").put(&data.to_string()).close(kind)
    }

    /// An event that names its type, before its data and inside of it.
    pub(crate) fn typed(&mut self, name: &str, mut data: Value, kind: SentKind) -> &mut EventEnd {
        data["type"] = name.into();
        self.put("event: ").put(name).put("\n").event(&data, kind)
    }

    /// The announced end of a stream.
    pub(crate) fn done(&mut self) {
        self.put("data: [DONE]").close(SentKind::Done);
    }
}

/// An event that differs from the next only in its text, so that its document is written once per stream: a flood
/// is to load the client, not this server.
pub(crate) struct EventTemplate {
    before: String,
    after: String,
}

impl EventTemplate {
    /// `event` makes the document of a text.
    pub(crate) fn new(event: impl FnOnce(&str) -> Value) -> Self {
        let document = event("\0").to_string();
        let (before, after) = document.split_once("\"\\u0000\"").unwrap_or((&document, ""));
        Self { before: format!("data: {before}"), after: after.to_owned() }
    }

    pub(crate) fn write(&self, text: &str, buffer: &mut EventBuffer) {
        buffer.put(&self.before);
        serde_json::to_writer(&mut buffer.bytes, text).expect("memory is writable");
        buffer.put(&self.after);
    }
}
