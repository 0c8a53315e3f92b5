//! Lines of a stream that belong to no event.
//!
//! An error document among them fails the answer. Anything else is quoted where the answer lacks its end, unless
//! content came behind it.

use tokometer_record::{EventKind, FailureKind, Timeline};

use super::ResponseReading;
use crate::server_message::{html_page, is_error_document, message};

/// The last lines that are no event.
#[derive(Debug)]
pub(super) struct StrayLines {
    said: String,
    /// Number of events before them.
    before: usize,
    is_page: bool,
}

impl ResponseReading {
    pub(super) fn on_stray_lines(&mut self, lines: &[u8], timeline: &Timeline) {
        let lines = lines.trim_ascii();
        if lines.is_empty() {
            return;
        }
        let mut parts = std::iter::once(lines).chain(lines.split(|byte| *byte == b'\n'));
        if let Some(error) = parts.find(|part| is_error_document(part)) {
            return self.fail(FailureKind::InStream, "", error);
        }
        let before = timeline.events.len();
        // Blank lines inside a page do not end it.
        if self.stray.as_ref().is_some_and(|stray| stray.is_page && stray.before == before) {
            return;
        }
        let said = message(lines, &self.secrets);
        self.stray = Some(StrayLines { said, before, is_page: html_page(lines).is_some() });
    }

    /// What is added to the message about a stream that was cut.
    pub(super) fn last_received(&self, timeline: &Timeline) -> String {
        let Some(stray) = &self.stray else { return String::new() };
        let later = timeline.events.iter().skip(stray.before);
        if later.map(|event| event.kind).any(EventKind::is_generated) {
            return String::new();
        }
        format!("; last line received: {}", stray.said)
    }
}
