//! Reads answers that come in one piece: texts, vectors, scores or classes. Also what an answer without any event is
//! instead.

use tokometer_record::{EventKind, Failure, FailureKind, Timeline};

use super::{EventArrival, ResponseReading, kind_of, merge, push};
use crate::dialect::WholeAnswer;
use crate::scan::{Marks, PooledAnswer, scan_pooled};
use crate::server_message::{error_message, html_page, is_error_document};
use crate::sse::begins_stream;

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

    /// Processes vectors as plain bytes. What they are stands in `metadata`, in the same words as in an
    /// answer of JSON; without it (`bytes_only`) the number of vectors and the prompt's count are
    /// unknown.
    pub(crate) fn on_octets(
        &mut self,
        metadata: Option<&[u8]>,
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) {
        if let Some(metadata) = metadata {
            return self.on_pooled(metadata, arrival, timeline);
        }
        self.state.seen.set(Marks::CONTENT);
        push(timeline, arrival, EventKind::Result, None);
    }

    pub(super) fn on_pooled(
        &mut self,
        data: &[u8],
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) {
        let found = scan_pooled(data);
        let Ok(PooledAnswer { results, empty, repeated, usage, is_error }) = found else {
            return self.on_no_json_body(data, arrival, timeline);
        };
        if is_error || (results.is_none() && error_message(data).is_some()) {
            self.fail(FailureKind::InStream, "", data);
            return push(timeline, arrival, EventKind::Error, None);
        }
        if let Some(usage) = usage {
            merge(timeline.usage.get_or_insert_default(), usage);
        }
        let found = results.unwrap_or(0);
        let is_ranking = matches!(self.rules.whole, WholeAnswer::Ranking);
        let is_wrong = |asked: &u32| {
            let is_limited = is_ranking && self.has_result_limit && found < *asked;
            results.is_some() && found != *asked && !is_limited
        };
        let message = if let Some(asked) = timeline.requested.items.filter(is_wrong) {
            let inputs = if is_ranking { "documents" } else { "inputs" };
            Some(format!("the answer has {found} results for {asked} {inputs}"))
        } else if repeated > 0 {
            Some(format!("{repeated} of {found} results have the index of another one"))
        } else {
            (empty > 0).then(|| format!("{empty} of {found} results have no numeric value"))
        };
        if let Some(message) = message {
            self.failure.get_or_insert(Failure::new(FailureKind::Protocol, message));
        }
        let kind = if found > 0 { EventKind::Result } else { EventKind::Other };
        if found > 0 {
            self.state.seen.set(Marks::CONTENT);
        }
        push(timeline, arrival, kind, None);
    }

    /// Processes the first bytes of a body without events. A server or a proxy may send an error
    /// document under any content type.
    pub(crate) fn on_no_event(&mut self, body: &[u8], status: Option<u16>) {
        let body = body.trim_ascii();
        if body.is_empty() {
            self.failure.get_or_insert(Failure::new(FailureKind::Protocol, nothing_in(status)));
        } else if is_error_document(body) || error_message(body).is_some() {
            self.fail(FailureKind::InStream, "", body);
        } else if html_page(body).is_some() {
            self.fail(FailureKind::Protocol, "", body);
        } else if !begins_stream(body) {
            self.fail(FailureKind::Protocol, "the answer has no event: ", body);
        }
    }
}

fn nothing_in(status: Option<u16>) -> String {
    match status {
        Some(status @ (204 | 205)) => {
            format!(
                "the server responded with status {status}, which has no body, instead of an answer"
            )
        }
        _ => "the response body is empty".to_owned(),
    }
}
