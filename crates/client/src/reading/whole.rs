//! Reads answers of text that come in one piece.

use tokometer_record::{EventKind, FailureKind, Timeline};

use super::{EventArrival, ResponseReading, kind_of, push};
use crate::scan::Marks;
use crate::server_message::{error_message, html_page, is_error_document};

impl ResponseReading {
    /// Processes the value of a response that is not streamed.
    pub(crate) fn on_whole(&mut self, data: &[u8], arrival: EventArrival, timeline: &mut Timeline) {
        if self.rules.is_pooled() {
            return self.on_pooled(data, arrival, timeline);
        }
        let Ok(mut fields) = self.rules.read_whole(data) else {
            return self.on_no_json_body(data, arrival, timeline);
        };
        fields.text = fields.text.or(fields.whole_text.take());
        let kind = kind_of(&fields, Marks::CHOICE);
        let is_error = || error_message(data).is_some() || is_error_document(data);
        if fields.has_in_any_choice(Marks::ERROR) || (kind == EventKind::Other && is_error()) {
            self.fail(FailureKind::InStream, "", data);
            return push(timeline, arrival, EventKind::Error, None);
        }
        if fields.has_in_any_choice(Marks::ABORTED) {
            self.fail_aborted(data);
        }
        if fields.marks.has(Marks::TOOL_CALL) {
            self.take_calls(b"", data);
        }
        self.keep(&fields, kind);
        self.state.seen.set(Marks::DONE.and(Marks::LAST));
        if self.rules.may_be_empty() && fields.text.is_some() {
            self.state.seen.set(Marks::FINISHED);
        }
        if kind.is_content() {
            self.state.seen.set(Marks::CONTENT);
        }
        // Usage covers all choices.
        let is_single = fields.further.is_empty();
        let tokens = fields.usage.and_then(|usage| usage.completion_tokens);
        timeline.usage = fields.usage;
        if let Some(timings) = fields.timings {
            let known = timeline.server_timings.get_or_insert_default();
            (known.prefill, known.decode) = (timings.prefill, timings.decode);
        }
        push(timeline, arrival, kind, tokens.filter(|_| is_single));
        for choice in &fields.further {
            if kind_of(choice, Marks::CHOICE).is_content() {
                push(timeline, arrival, EventKind::FurtherChoice, None);
            }
        }
    }

    /// Fails an answer whose body is no document.
    pub(super) fn on_no_json_body(
        &mut self,
        data: &[u8],
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) {
        let what = if html_page(data).is_some() { "" } else { "the response is not JSON: " };
        self.fail(FailureKind::Protocol, what, data);
        push(timeline, arrival, EventKind::Error, None);
    }
}
