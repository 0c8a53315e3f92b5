//! Reads answers of text that come in one piece.

use serde_json::Value;
use tokometer_record::{EventKind, FailureKind, Timeline};

use super::{EventArrival, ResponseReading, kind_without_text, push};
use crate::scan::{EventSchema, Fields, Marks, Text, scan_whole};
use crate::server_message::{error_message, html_page, is_error_document};

impl ResponseReading {
    /// Processes the value of a response that is not streamed.
    pub(crate) fn on_whole(&mut self, data: &[u8], arrival: EventArrival, timeline: &mut Timeline) {
        if self.rules.schema.is_pooled() {
            return self.on_pooled(data, arrival, timeline);
        }
        let Ok(mut fields) =
            scan_whole(self.rules.schema, data).or_else(|why| self.plain(data).ok_or(why))
        else {
            let what = if html_page(data).is_some() { "" } else { "the response is not JSON: " };
            self.fail(FailureKind::Protocol, what, data);
            return push(timeline, arrival, EventKind::Error, None);
        };
        if fields.has_in_any_choice(Marks::ERROR) {
            self.fail(FailureKind::InStream, "", data);
            return push(timeline, arrival, EventKind::Error, None);
        }
        if fields.has_in_any_choice(Marks::ABORTED) {
            self.fail_aborted(data);
        }
        self.tool_calls.take(self.rules.schema, b"", data);
        fields.text = fields.text.or(fields.whole_text.take());
        let kind = match &fields.text {
            Some(text) if !text.is_empty() => EventKind::Text,
            _ => kind_without_text(&fields, Marks::CHOICE),
        };
        let is_error = || error_message(data).is_some() || is_error_document(data);
        if kind == EventKind::Other && is_error() {
            self.fail(FailureKind::InStream, "", data);
            return push(timeline, arrival, EventKind::Error, None);
        }
        self.keep(&fields, kind);
        self.seen.set(Marks::DONE.and(Marks::LAST));
        if self.rules.schema == EventSchema::Transcription && fields.text.is_some() {
            self.seen.set(Marks::FINISHED);
        }
        if kind.is_content() {
            self.seen.set(Marks::CONTENT);
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
            let has_text = choice.text.as_ref().is_some_and(|text| !text.is_empty());
            if has_text || kind_without_text(choice, Marks::CHOICE).is_content() {
                push(timeline, arrival, EventKind::FurtherChoice, None);
            }
        }
    }

    /// Takes the text of a part of a response that came without pieces, from the event that ends the part. Says
    /// whether there was such a text.
    pub(super) fn take_whole_part(
        &mut self,
        fields: &mut Fields<'_>,
        data: &[u8],
        timeline: &Timeline,
    ) -> bool {
        if self.rules.schema != EventSchema::Responses {
            return false;
        }
        if fields.marks.has(Marks::LAST) && !self.seen.has(Marks::CONTENT) {
            return self.take_whole_response(fields, data);
        }
        if fields.whole_text.is_none() {
            return false;
        }
        let part = timeline.events.iter().skip(self.part_start);
        let has_pieces = part.map(|event| event.kind).any(|kind| kind == EventKind::Text);
        // The next part begins behind this event.
        self.part_start = timeline.events.len() + 1;
        if !has_pieces {
            fields.text = fields.text.take().or(fields.whole_text.take());
        }
        !has_pieces
    }

    /// Takes the content of a response that came without any piece, from the event that ends it.
    fn take_whole_response(&mut self, fields: &mut Fields<'_>, data: &[u8]) -> bool {
        let document: Value = serde_json::from_slice(data).unwrap_or_default();
        let response = document.get("response").map(Value::to_string).unwrap_or_default();
        let Ok(whole) = scan_whole(EventSchema::Responses, response.as_bytes()) else {
            return false;
        };
        self.tool_calls.take(EventSchema::Responses, b"", response.as_bytes());
        let owned = |text: Option<Text<'_>>| text.map(|text| Text::Owned(text.to_text()));
        (fields.text, fields.reasoning) = (owned(whole.text), owned(whole.reasoning));
        if whole.marks.has(Marks::TOOL_CALL) {
            fields.marks.set(Marks::TOOL_CALL);
        }
        true
    }

    /// A transcription in plain text, which the request may have asked for.
    fn plain<'a>(&self, data: &'a [u8]) -> Option<Fields<'a>> {
        let is_plain = self.rules.schema == EventSchema::Transcription && html_page(data).is_none();
        let text = std::str::from_utf8(data).ok().filter(|_| is_plain)?;
        let mut fields = Fields::default();
        fields.text = Some(Text::Owned(text.trim().to_owned()));
        Some(fields)
    }
}
