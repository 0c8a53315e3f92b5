//! Splits a byte stream into server-sent events.
//!
//! In: slices exactly as the body gave them. Out: one call per complete event, which borrows from the
//! slice when the event lies in it completely and has one line of data. Line ends may be LF, CR or
//! CRLF; comments are skipped; a field may lack the space after its colon. An event is complete at
//! its blank line, or at the end of the stream. A field `error`, which no standard has, is the data of
//! an event of that name. Lines that are neither fields nor comments are joined and given instead
//! under the name [`STRAY`]. No JSON, no time, no `[DONE]`.

use memchr::memchr2;

/// Limit on the bytes kept of an incomplete line, event or body. Longer ones are truncated: a stream
/// without line ends must not exhaust the memory.
pub(crate) const MAX_KEPT_BYTES: usize = 256 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event:` field; usually empty.
    pub name: &'a [u8],
    /// The `data:` lines, joined by LF.
    pub data: &'a [u8],
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The name under which lines come that are no part of an event, joined by LF. The standard ignores them; they
/// are what a proxy or a failing server writes into a stream that has begun. No event can have the name: it is
/// the end of a line.
pub const STRAY: &[u8] = b"\n";

/// Bytes that are kept of lines that are no part of an event.
const STRAY_BYTES: usize = 4096;

#[derive(Debug)]
pub struct Parser {
    /// The first line may begin with a byte order mark.
    is_first_line: bool,
    /// After a CR at the end of a slice: a LF that follows belongs to the same line end.
    is_after_cr: bool,
    /// A line without its end so far.
    line: Vec<u8>,
    name: Vec<u8>,
    /// Data of an incomplete event; `None` before its first data line.
    data: Option<Vec<u8>>,
    /// The buffer for `data` while that is `None`.
    spare: Vec<u8>,
    /// Lines since the last event or blank line that are neither fields nor comments.
    stray: Vec<u8>,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            is_first_line: true,
            is_after_cr: false,
            line: Vec::new(),
            name: Vec::new(),
            data: None,
            spare: Vec::new(),
            stray: Vec::new(),
        }
    }
}

impl Parser {
    pub fn reset(&mut self) {
        self.is_first_line = true;
        self.is_after_cr = false;
        self.line.clear();
        self.stray.clear();
        self.clear_event();
    }

    fn clear_event(&mut self) {
        self.name.clear();
        if let Some(mut data) = self.data.take() {
            data.clear();
            self.spare = data;
        }
    }

    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
        let mut rest = bytes;
        if self.is_after_cr && !rest.is_empty() {
            self.is_after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        // The single data line of an event that lies completely in this slice is not copied.
        let mut held: Option<&[u8]> = None;
        while let Some(length) = memchr2(b'\n', b'\r', rest) {
            let (line, end) = rest.split_at(length);
            rest = self.after_line_end(end);
            if self.line.is_empty() {
                let line = self.without_mark(line);
                self.take_line(line, &mut held, sink);
            } else {
                // Only the first line of a slice can have begun before it, so nothing is held yet.
                self.take_kept_line(line, sink);
            }
        }
        self.keep(held);
        let room = MAX_KEPT_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&rest[..rest.len().min(room)]);
    }

    #[inline]
    fn after_line_end<'a>(&mut self, end: &'a [u8]) -> &'a [u8] {
        if let Some(rest) = end.strip_prefix(b"\r\n") {
            return rest;
        }
        self.is_after_cr = end == b"\r";
        end.get(1..).unwrap_or_default()
    }

    #[inline]
    fn without_mark<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        if std::mem::take(&mut self.is_first_line) {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        } else {
            line
        }
    }

    fn take_kept_line(&mut self, end: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        let mut held = None;
        let content = self.without_mark(&line);
        self.take_line(content, &mut held, sink);
        self.keep(held);
        line.clear();
        self.line = line;
    }

    fn keep(&mut self, held: Option<&[u8]>) {
        if let Some(bytes) = held {
            let mut data = std::mem::take(&mut self.spare);
            data.extend_from_slice(bytes);
            self.data = Some(data);
        }
    }

    #[inline]
    fn take_line<'a>(
        &mut self,
        line: &'a [u8],
        held: &mut Option<&'a [u8]>,
        sink: &mut impl FnMut(SseEvent<'_>),
    ) {
        if line.is_empty() {
            if let Some(data) = held.take() {
                sink(SseEvent { name: &self.name, data });
                self.name.clear();
            } else {
                self.dispatch(sink);
            }
            self.give_stray(sink);
        } else if let Some(value) = field_value(line, b"data") {
            self.give_stray(sink);
            self.take_data(value, held);
        } else if let Some(value) = field_value(line, b"event") {
            self.set_name(value);
        } else if let Some(value) = field_value(line, b"error") {
            // Earlier llama.cpp servers report a failure so, and end the stream.
            self.give_stray(sink);
            self.set_name(b"error");
            self.take_data(value, held);
        } else if is_stray(line) {
            self.take_stray(line);
        }
    }

    fn take_stray(&mut self, line: &[u8]) {
        if !self.stray.is_empty() && self.stray.len() < STRAY_BYTES {
            self.stray.push(b'\n');
        }
        let room = STRAY_BYTES - self.stray.len();
        self.stray.extend_from_slice(&line[..line.len().min(room)]);
    }

    #[inline]
    fn give_stray(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        if !self.stray.is_empty() {
            sink(SseEvent { name: STRAY, data: &self.stray });
            self.stray.clear();
        }
    }

    /// Ends a stream that was cut: only complete lines outside of events count.
    pub fn cut(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        self.give_stray(sink);
    }

    #[inline]
    fn take_data<'a>(&mut self, value: &'a [u8], held: &mut Option<&'a [u8]>) {
        if self.data.is_none() && held.is_none() {
            *held = Some(value);
        } else {
            self.keep(held.take());
            self.append(value);
        }
    }

    fn set_name(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(name);
    }

    fn append(&mut self, value: &[u8]) {
        let data = self.data.get_or_insert_default();
        if data.len() + value.len() < MAX_KEPT_BYTES {
            data.push(b'\n');
            data.extend_from_slice(value);
        }
    }

    fn dispatch(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        if let Some(data) = &self.data {
            sink(SseEvent { name: &self.name, data });
        }
        self.clear_event();
    }

    /// Ends the stream. An event without its final blank line counts, because some servers omit it.
    pub fn finish(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        if !self.line.is_empty() {
            self.take_kept_line(&[], sink);
        }
        self.dispatch(sink);
        self.give_stray(sink);
        self.reset();
    }
}

/// The value of field `name` if the line has it: after the colon, without one leading space.
#[inline]
fn field_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest.split_first() {
        None => Some(rest),
        Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        Some(_) => None,
    }
}

/// Whether a line looks like no field of an event, known or not. Names of fields are in lower case; the last line of
/// a Python traceback begins with a name that is not. A body that a proxy has chunked twice has sizes between the
/// events.
fn is_stray(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let is_size = line.iter().all(u8::is_ascii_hexdigit);
    !is_size && !line.starts_with(b":") && (name.len() == line.len() || !name.iter().all(is_name))
}

/// Whether a body begins as a stream of events. No JSON document does.
pub(crate) fn begins_stream(body: &[u8]) -> bool {
    [&b":"[..], b"data:", b"event:", b"id:", b"retry:"].iter().any(|start| body.starts_with(start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (String, String);

    fn events_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
        let mut events = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut sink = |event: SseEvent<'_>| events.push((text(event.name), text(event.data)));
        let mut parser = Parser::default();
        for piece in pieces {
            parser.feed(piece, &mut sink);
        }
        parser.finish(&mut sink);
        events
    }

    #[test]
    fn lines_outside_of_events_take_bounded_memory() {
        let stream = "<p>no event</p>\n".repeat(10_000);
        let events = events_of([stream.as_bytes()]);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].1.len(), STRAY_BYTES);
    }

    #[test]
    fn the_grammar_of_the_standard_is_parsed() {
        let check = |stream: &str, expected: &[(&str, &str)]| {
            let expected: Vec<Owned> = expected
                .iter()
                .map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
                .collect();
            assert_eq!(events_of([stream.as_bytes()]), expected, "{stream:?} whole");
            assert_eq!(events_of(stream.as_bytes().chunks(1)), expected, "{stream:?} by bytes");
        };
        check("data: a\n\n", &[("", "a")]);
        check("data:a\r\rdata:  b\r\r", &[("", "a"), ("", " b")]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
        check("data: a\ndata\ndata: b\n\n", &[("", "a\n\nb")]);
        check(": ping\n\n:\n\ndata: a\n: pong\n\n", &[("", "a")]);
        check("event: x\ndata: a\n\ndata: b\n\n", &[("x", "a"), ("", "b")]);
        check("data: a\nevent:x\nid: 7\nretry: 1\n\n", &[("x", "a")]);
        check("event: x\n\ndata: a\n\n", &[("", "a")]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("", "a"), ("\n", "\u{feff}data: b")]);
        check("data: unfinished", &[("", "unfinished")]);
        check("data:\n\n", &[("", "")]);
        check("datax: a\n\n", &[]);
        check("<p>\n</p>\ndata: a\nX: b\n\n", &[("\n", "<p>\n</p>"), ("", "a"), ("\n", "X: b")]);
        check("no field\n\nno field", &[("\n", "no field"), ("\n", "no field")]);
        check("data: a\n\nerror: {}\n\ndata: b\n\n", &[("", "a"), ("error", "{}"), ("", "b")]);
        check("", &[]);
    }

    prop_compose! {
        fn line_end()(end in prop::sample::select(vec!["\n", "\r", "\r\n"])) -> &'static str { end }
    }

    fn stream() -> impl Strategy<Value = (String, Vec<Owned>)> {
        let event = ("[a-z]{0,4}", prop::collection::vec("[a-zä☃{}\": ]{0,12}", 1..3), line_end());
        prop::collection::vec(event, 0..8).prop_map(|events| {
            let (mut stream, mut expected) = (String::new(), Vec::new());
            for (name, lines, end) in events {
                stream.extend([": note", end, "event:", &name, end]);
                for line in &lines {
                    stream.extend(["data: ", line, end]);
                }
                stream.push_str(end);
                expected.push((name, lines.join("\n")));
            }
            (stream, expected)
        })
    }

    proptest! {
        #[test]
        fn splitting_a_stream_anywhere_changes_nothing(
            (stream, expected) in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &stream.as_bytes()[cut[0]..cut[1]]);
            prop_assert_eq!(events_of(pieces), expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, step in 1_usize..9) {
            prop_assert_eq!(events_of(bytes.chunks(step)), events_of([&bytes[..]]));
        }
    }
}
