//! What a server says beside its events before it ends a stream.
//!
//! A line that is no event, or an event that has only a message, may report why the stream ends. Either may also be
//! harmless: it counts only where the answer does not end as it should.

use tokometer_record::{EventKind, FailureKind, Timeline};

use super::ResponseReading;
use crate::scan::{EventSchema, Marks, scan};
use crate::server_message::{bare_message, fit, is_error_document, message};

/// Words, and the number of events before them.
#[derive(Debug, Default)]
pub(super) struct LastWords(Option<(String, usize)>);

impl LastWords {
    /// The words, unless content came behind them.
    fn unanswered(&self, timeline: &Timeline) -> Option<&str> {
        let (words, before) = self.0.as_ref()?;
        let later = timeline.events.iter().skip(*before);
        let has_content = later.map(|event| event.kind).any(EventKind::is_generated);
        (!has_content).then_some(words)
    }
}

impl ResponseReading {
    /// Takes note of an event without any field of the protocol that has only a message.
    pub(super) fn note_message(&mut self, data: &[u8], timeline: &Timeline) {
        if let Some(words) = bare_message(data) {
            self.last_words = LastWords(Some((fit(&words, &self.secrets), timeline.events.len())));
        }
    }

    /// Processes the last line of a stream that belongs to no event; empty where there is none.
    pub(crate) fn on_stray_line(&mut self, line: &[u8], timeline: &Timeline) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let found = scan(EventSchema::Shared, line);
        let is_error = found.is_ok_and(|fields| fields.marks.has(Marks::ERROR));
        if is_error || is_error_document(line) {
            return self.fail(FailureKind::InStream, "", line);
        }
        self.last_words = LastWords(Some((message(line, &self.secrets), timeline.events.len())));
    }

    /// Fails an answer that ends with words in the place of a finish reason.
    pub(super) fn fail_by_last_words(&mut self, timeline: &Timeline) {
        let is_finished = self.seen.has(Marks::FINISHED) || self.seen.has(Marks::LAST);
        let words = self.last_words.unanswered(timeline).filter(|_| !is_finished);
        if let Some(words) = words.map(str::to_owned) {
            self.fail(FailureKind::InStream, "", words.as_bytes());
        }
    }

    /// What is added to the message about a stream that was cut.
    pub(super) fn told_last(&self, timeline: &Timeline) -> String {
        let words = self.last_words.unanswered(timeline);
        words.map(|words| format!("; its last words: {words}")).unwrap_or_default()
    }
}
