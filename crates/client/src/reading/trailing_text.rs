//! What a server says beside its events before it ends a stream.
//!
//! Lines that are no event, or an event that has only a message, may report why the stream ends. Either may also be
//! harmless: it counts only where the answer does not end as it should.

use tokometer_record::{EventKind, FailureKind, Timeline};

use super::ResponseReading;
use crate::scan::{EventSchema, Marks, scan};
use crate::server_message::{bare_message, fit, html_page, is_error_document, message};

/// A text beside the events.
#[derive(Debug)]
pub(super) struct TrailingText {
    said: String,
    /// Number of events before it.
    before: usize,
    is_page: bool,
}

impl ResponseReading {
    /// Takes note of an event without any field of the protocol that has only a message.
    pub(super) fn note_message(&mut self, data: &[u8], timeline: &Timeline) {
        if let Some(said) = bare_message(data) {
            let (said, before) = (fit(&said, &self.secrets), timeline.events.len());
            self.trailing = Some(TrailingText { said, before, is_page: false });
        }
    }

    /// Processes lines of a stream that belong to no event.
    pub(super) fn on_stray_lines(&mut self, lines: &[u8], timeline: &Timeline) {
        let lines = lines.trim_ascii();
        if lines.is_empty() {
            return;
        }
        let mut parts = std::iter::once(lines).chain(lines.split(|byte| *byte == b'\n'));
        if let Some(error) = parts.find(|part| is_error(part)) {
            return self.fail(FailureKind::InStream, "", error);
        }
        let before = timeline.events.len();
        // Blank lines inside a page do not end it.
        if self.trailing.as_ref().is_some_and(|text| text.is_page && text.before == before) {
            return;
        }
        let is_page = html_page(lines).is_some();
        let said = message(lines, &self.secrets);
        self.trailing = Some(TrailingText { said, before, is_page });
    }

    /// The last text beside the events, unless content came behind it.
    fn trailing_text(&self, timeline: &Timeline) -> Option<&str> {
        let text = self.trailing.as_ref()?;
        let later = timeline.events.iter().skip(text.before);
        let has_content = later.map(|event| event.kind).any(EventKind::is_generated);
        (!has_content).then_some(&text.said)
    }

    /// Fails an answer that ends with a text in the place of a finish reason.
    pub(super) fn fail_by_trailing_text(&mut self, timeline: &Timeline) {
        let is_finished = self.seen.has(Marks::FINISHED) || self.seen.has(Marks::LAST);
        let said = self.trailing_text(timeline).filter(|_| !is_finished);
        if let Some(said) = said.map(str::to_owned) {
            self.fail(FailureKind::InStream, "", said.as_bytes());
        }
    }

    /// What is added to the message about a stream that was cut.
    pub(super) fn last_received(&self, timeline: &Timeline) -> String {
        let said = self.trailing_text(timeline);
        said.map(|said| format!("; last line received: {said}")).unwrap_or_default()
    }
}

/// Whether a line, or several, is an error document.
fn is_error(text: &[u8]) -> bool {
    let found = scan(EventSchema::Shared, text);
    found.is_ok_and(|fields| fields.marks.has(Marks::ERROR)) || is_error_document(text)
}
