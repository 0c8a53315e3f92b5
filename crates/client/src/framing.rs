//! Splits a body into events: server-sent events, lines, or one JSON value.

use memchr::memchr;

use crate::sse::{self, MAX_KEPT_BYTES, SseEvent};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFraming {
    Sse,
    Lines,
    WholeJson,
}

/// Splits a body in any framing. Buffers are reused for the next response.
#[derive(Debug)]
pub(crate) struct Framer {
    framing: EventFraming,
    sse: sse::Parser,
    /// An incomplete line, or the whole body so far.
    kept: Vec<u8>,
}

impl Framer {
    /// For the first response; [`Framer::reset`] prepares for others.
    pub(crate) fn new(framing: EventFraming) -> Self {
        Self { framing, sse: sse::Parser::default(), kept: Vec::new() }
    }

    pub(crate) fn reset(&mut self, framing: EventFraming) {
        self.framing = framing;
        self.sse.reset();
        self.kept.clear();
    }

    pub(crate) fn framing(&self) -> EventFraming {
        self.framing
    }

    /// Calls `sink` for each event that this part of the body completes.
    #[inline]
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
        match self.framing {
            EventFraming::Sse => self.sse.feed(bytes, sink),
            EventFraming::Lines => self.feed_lines(bytes, sink),
            EventFraming::WholeJson => self.keep(bytes),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_KEPT_BYTES.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn feed_lines(&mut self, bytes: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
        let mut rest = bytes;
        while let Some(length) = memchr(b'\n', rest) {
            let (line, end) = rest.split_at(length);
            rest = &end[1..];
            if self.kept.is_empty() {
                emit(line, sink);
            } else {
                self.keep(line);
                emit(&self.kept, sink);
                self.kept.clear();
            }
        }
        self.keep(rest);
    }

    /// Ends a body that was cut. An incomplete event is not reliable; lines that are no part of any may say why it
    /// was cut.
    pub(crate) fn cut(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        if self.framing == EventFraming::Sse {
            self.sse.cut(sink);
        }
    }

    /// Ends the body: calls `sink` for an event that only the end completes.
    pub(crate) fn finish(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        match self.framing {
            EventFraming::Sse => self.sse.finish(sink),
            EventFraming::Lines | EventFraming::WholeJson => emit(&self.kept, sink),
        }
        self.kept.clear();
    }
}

fn emit(data: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
    let data = data.trim_ascii();
    if !data.is_empty() {
        sink(SseEvent { name: b"", data });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_whole_bodies_are_read_at_any_split() {
        let check = |framing, body: &str, expected: &[&str]| {
            for step in 1..=body.len() {
                let mut events = Vec::new();
                let mut sink = |event: SseEvent<'_>| {
                    events.push(String::from_utf8_lossy(event.data).into_owned());
                };
                let mut framer = Framer::new(framing);
                body.as_bytes().chunks(step).for_each(|piece| framer.feed(piece, &mut sink));
                framer.finish(&mut sink);
                assert_eq!(events, expected, "{body:?} by {step}");
            }
        };
        check(
            EventFraming::Lines,
            "{\"a\":1}\r\n\n{\"b\":2}\n{\"c\":3}",
            &[r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#],
        );
        check(EventFraming::WholeJson, "{\n\"a\":1}\n", &["{\n\"a\":1}"]);
        check(EventFraming::WholeJson, " \n", &[]);
    }
}
