//! Reads one response: from bytes with stamps to a complete timeline.
//!
//! In: what each socket read returned and when it arrived. Out: the timeline's header time, events,
//! counts, status, text, end and outcome. No I/O and no clock: the caller takes the stamp before it
//! calls. An `Exchange` is reused for many requests, so that reading allocates only the list of
//! events.

use std::sync::Arc;

use tokometer_base::redact::Secrets;
use tokometer_base::{Nanos, WallNanos};
use tokometer_record::{Failure, FailureKind, Outcome, Timeline};

use crate::dialect::{Dialect, Rules, rules_of};
use crate::framing::{EventFraming, Framer};
use crate::http::{self, BodyDecoder, BodyPart, ContentEncoding, Head, Media, ResponseReader};
use crate::reading::{BodyEnd, EventArrival, KeepText, ReadStamp, ResponseReading};
use crate::redirect::{Redirect, is_redirect};
use crate::server_message::{fit, message};
use crate::settings::Settings;
use crate::sse;
use crate::url::Url;

/// Bytes of the body that are kept for messages: of a refusal, or before the first event.
const BEGINNING_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseProgress {
    More,
    /// The response is complete and the timeline's outcome is set.
    Done {
        keep_alive: bool,
        /// Bytes of the last read after this response. Normally zero.
        unread: usize,
    },
}

const CLOSED: ResponseProgress = ResponseProgress::Done { keep_alive: false, unread: 0 };

#[derive(Debug)]
pub struct Exchange {
    rules: &'static Rules,
    framing: EventFraming,
    secrets: Arc<Secrets>,
    /// The server and the route, for what is said of a redirect.
    base_url: Url,
    route: String,
    http: ResponseReader,
    head: Option<Head>,
    location: Option<String>,
    /// What vLLM says of an answer of plain bytes: the JSON of its header `metadata`.
    metadata: Option<Vec<u8>>,
    /// Present for a compressed body.
    decoder: Option<BodyDecoder>,
    framer: Framer,
    reading: ResponseReading,
    beginning: Vec<u8>,
}

impl Exchange {
    /// `keep_text` decides whether timelines get the response's text.
    pub fn new(dialect: &Dialect, settings: &Settings, keep_text: KeepText) -> Self {
        let rules = rules_of(dialect.protocol());
        let framing =
            if dialect.is_streamed(settings) { rules.framing } else { EventFraming::WholeJson };
        let secrets = settings.shared_secrets();
        let reading = ResponseReading::new(rules, settings, keep_text);
        Self {
            rules,
            framing,
            secrets,
            base_url: settings.base_url.clone(),
            route: dialect.request_path(settings),
            http: ResponseReader::default(),
            head: None,
            location: None,
            metadata: None,
            decoder: None,
            framer: Framer::new(framing),
            reading,
            beginning: Vec::new(),
        }
    }

    pub fn reset(&mut self) {
        self.http.reset();
        self.head = None;
        self.location = None;
        self.metadata = None;
        self.decoder = None;
        self.framer.reset(self.framing);
        self.reading.reset();
        self.beginning.clear();
    }

    /// Processes the bytes of one read, exactly as the socket returned them.
    pub fn on_read(
        &mut self,
        bytes: &[u8],
        stamp: ReadStamp,
        timeline: &mut Timeline,
    ) -> ResponseProgress {
        let arrival = EventArrival { stamp, read: timeline.reads };
        timeline.reads += 1;
        timeline.merged_reads += u32::from(stamp.is_upper_bound);
        match self.read(bytes, arrival, timeline) {
            Ok(progress) => progress,
            Err(error) => {
                timeline.times.end = Some(stamp.at);
                self.fail(FailureKind::Protocol, error.to_string(), timeline);
                CLOSED
            }
        }
    }

    fn read(
        &mut self,
        bytes: &[u8],
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) -> Result<ResponseProgress, http::HttpError> {
        let mut input = bytes;
        if self.head.is_none() {
            let (location, metadata) = (&mut self.location, &mut self.metadata);
            let head = self.http.read_head(&mut input, |name, value| {
                if name.eq_ignore_ascii_case("location") {
                    *location = Some(String::from_utf8_lossy(value).into_owned());
                } else if name.eq_ignore_ascii_case("metadata") {
                    *metadata = Some(value.to_vec());
                }
            })?;
            let Some(head) = head else { return Ok(ResponseProgress::More) };
            self.on_head(head, arrival.stamp, timeline);
            if let ContentEncoding::Unreadable(name) = head.encoding {
                return Err(http::HttpError::Encoding(name));
            }
        }
        loop {
            match self.http.read_body(&mut input)? {
                BodyPart::More => return Ok(ResponseProgress::More),
                BodyPart::Data(data) if self.decoder.is_some() => {
                    self.on_compressed(Some(data), arrival, timeline)?;
                }
                BodyPart::Data(data) => self.on_data(data, arrival, timeline),
                BodyPart::End => {
                    self.end_compressed(arrival, timeline)?;
                    self.finish(BodyEnd::Announced, arrival, timeline);
                    let keep_alive = self.head.is_some_and(|head| head.keep_alive);
                    // Unexpected bytes would be taken for the next response.
                    let keep_alive = keep_alive && input.is_empty();
                    return Ok(ResponseProgress::Done { keep_alive, unread: input.len() });
                }
            }
        }
    }

    /// Takes the next bytes of a compressed body; `None` at its end.
    fn on_compressed(
        &mut self,
        data: Option<&[u8]>,
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) -> Result<(), http::HttpError> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(()) };
        // A block may hold tokens of any time before it was sent.
        let stamp = ReadStamp { is_upper_bound: true, ..arrival.stamp };
        let arrival = EventArrival { stamp, ..arrival };
        let mut sink = |plain: &[u8]| self.on_data(plain, arrival, timeline);
        let outcome = match data {
            Some(data) => decoder.feed(data, &mut sink),
            None => decoder.finish(&mut sink),
        };
        self.decoder = Some(decoder);
        outcome.map_err(|_| http::HttpError::Compressed)
    }

    /// Takes the end of a compressed body. Some servers never write the end of the compressed stream; behind the
    /// protocol's end marker nothing can be missing.
    fn end_compressed(
        &mut self,
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) -> Result<(), http::HttpError> {
        let ended = self.on_compressed(None, arrival, timeline);
        if self.has_end_marker() { Ok(()) } else { ended }
    }

    fn on_data(&mut self, data: &[u8], arrival: EventArrival, timeline: &mut Timeline) {
        if self.is_refusal() {
            return self.keep_beginning(data);
        }
        let before = self.beginning.len();
        if timeline.events.is_empty() {
            self.keep_beginning(data);
        }
        let true_framing = if timeline.events.is_empty() { self.mislabelled() } else { None };
        if let Some(framing) = true_framing {
            self.framer.reset(framing);
            self.reading.set_framing(framing);
        }
        let reading = &mut self.reading;
        let mut sink = |event: sse::SseEvent<'_>| {
            reading.on_event(event, arrival, timeline);
        };
        if true_framing.is_some() {
            self.framer.feed(&self.beginning[..before], &mut sink);
        }
        self.framer.feed(data, &mut sink);
    }

    /// The framing of a body that the header calls something else. A body that should be JSON, or lines of it,
    /// may begin as the stream of events that was requested; one that should be a stream may be a document.
    /// Some servers label all answers alike; other clients never look at the label.
    fn mislabelled(&self) -> Option<EventFraming> {
        if self.framing != EventFraming::Sse {
            return None;
        }
        let body = self.beginning.trim_ascii_start();
        match self.framer.framing() {
            EventFraming::Sse if body.starts_with(b"{") => Some(EventFraming::WholeJson),
            EventFraming::Lines | EventFraming::WholeJson if sse::begins_stream(body) => {
                Some(EventFraming::Sse)
            }
            _ => None,
        }
    }

    fn on_head(&mut self, head: Head, stamp: ReadStamp, timeline: &mut Timeline) {
        timeline.times.headers = Some(stamp.at);
        timeline.status = Some(head.status);
        if let Some(queue) = head.queue_time {
            timeline.server_timings.get_or_insert_default().queue = Some(queue);
        }
        if let Some(tokens) = head.compute_tokens.filter(|_| self.rules.is_pooled()) {
            timeline.usage.get_or_insert_default().prompt_tokens = Some(tokens);
        }
        // The response's content type takes precedence over what was requested.
        let framing = match head.media {
            Media::EventStream => EventFraming::Sse,
            Media::JsonLines => EventFraming::Lines,
            Media::Json => EventFraming::WholeJson,
            Media::Octets | Media::Plain | Media::Other => self.framing,
        };
        self.framer.reset(framing);
        self.reading.set_framing(framing);
        self.decoder = (head.encoding == ContentEncoding::Gzip).then(BodyDecoder::default);
        self.head = Some(head);
    }

    fn is_refusal(&self) -> bool {
        self.head.is_some_and(|head| !(200..300).contains(&head.status))
    }

    fn keep_beginning(&mut self, data: &[u8]) {
        let room = BEGINNING_BYTES.saturating_sub(self.beginning.len());
        self.beginning.extend_from_slice(&data[..data.len().min(room)]);
    }

    fn finish(&mut self, end: BodyEnd, arrival: EventArrival, timeline: &mut Timeline) {
        timeline.times.end = Some(arrival.stamp.at);
        if self.is_refusal() {
            return self.fail(FailureKind::Status, self.refusal(), timeline);
        }
        if end == BodyEnd::Announced {
            let is_whole = self.framer.framing() == EventFraming::WholeJson;
            let is_octets =
                self.head.is_some_and(|head| head.media == Media::Octets) && self.rules.is_pooled();
            let (reading, metadata) = (&mut self.reading, self.metadata.as_deref());
            let mut sink = |event: sse::SseEvent<'_>| {
                if is_octets {
                    reading.on_octets(metadata, arrival, timeline);
                } else if is_whole {
                    reading.on_whole(event.data, arrival, timeline);
                } else {
                    reading.on_event(event, arrival, timeline);
                }
            };
            self.framer.finish(&mut sink);
            if timeline.events.is_empty() && is_whole && self.is_empty_text() {
                self.reading.on_whole(b"", arrival, timeline);
            } else if timeline.events.is_empty() {
                self.reading.on_no_event(&self.beginning, timeline.status);
            }
        } else {
            let reading = &mut self.reading;
            self.framer.cut(&mut |event| reading.on_event(event, arrival, timeline));
        }
        self.reading.finish(end, timeline);
    }

    /// Whether the answer is a plain text without any characters, of an announced length: the transcript of
    /// silence.
    fn is_empty_text(&self) -> bool {
        let is_plain =
            self.head.is_some_and(|head| head.status == 200 && head.media == Media::Plain);
        is_plain
            && self.rules.may_be_empty()
            && !self.http.ends_at_eof()
            && self.beginning.trim_ascii().is_empty()
    }

    fn refusal(&self) -> String {
        let status = self.head.map_or(0, |head| head.status);
        if let Some(location) = self.location.as_ref().filter(|_| is_redirect(status)) {
            let route = self.route.split('?').next().unwrap_or_default();
            let path = route.strip_prefix(self.base_url.root_prefix()).unwrap_or(route);
            return match Redirect::parse(&self.base_url, path, location) {
                Ok(redirect) => fit(&redirect.describe_route(&self.base_url), &self.secrets),
                Err(_) => fit(&format!("the server redirects to `{location}`"), &self.secrets),
            };
        }
        let said = message(&self.beginning, &self.secrets);
        if said.is_empty() { "the response body is empty".to_owned() } else { said }
    }

    /// Whether the answer is compressed, so that times inside a block are unknown.
    pub fn is_compressed(&self) -> bool {
        self.decoder.is_some()
    }

    fn fail(&self, kind: FailureKind, message: String, timeline: &mut Timeline) {
        let status = self.head.map(|head| head.status);
        timeline.outcome = Outcome::Failed(Failure { kind, status, message });
    }

    /// The server closed the connection, seen at `at`.
    pub fn on_eof(&mut self, at: Nanos, timeline: &mut Timeline) -> ResponseProgress {
        let arrival = EventArrival::without_bytes(at, timeline);
        if self.head.is_none() {
            timeline.times.end = Some(at);
            let message = match self.http.interim() {
                Some(status) => {
                    format!("the server sent only an interim response (status {status}) and closed")
                }
                None if self.http.is_in_head() => {
                    "the connection closed within the response header".to_owned()
                }
                None => "the connection closed before the response".to_owned(),
            };
            self.fail(FailureKind::Cut, message, timeline);
            return CLOSED;
        }
        let end = if self.http.ends_at_eof() { BodyEnd::Announced } else { BodyEnd::Cut };
        if end == BodyEnd::Announced
            && let Err(error) = self.end_compressed(arrival, timeline)
        {
            timeline.times.end = Some(at);
            self.fail(FailureKind::Protocol, error.to_string(), timeline);
            return CLOSED;
        }
        self.finish(end, arrival, timeline);
        CLOSED
    }

    /// The server leaves the body of a finished response open; nothing came after `at`.
    pub fn on_open_body(&mut self, at: Nanos, timeline: &mut Timeline) -> ResponseProgress {
        self.finish(BodyEnd::LeftOpen, EventArrival::without_bytes(at, timeline), timeline);
        CLOSED
    }

    /// The client gives the response up at `at`: what came of it stays.
    pub fn cancel(&mut self, at: Nanos, timeline: &mut Timeline) {
        timeline.times.end = Some(at);
        timeline.outcome = Outcome::Cancelled;
        self.reading.keep_answer(0, timeline);
    }

    /// Whether the protocol's end marker has come, so that nothing can be missing but the end of the
    /// body. Some servers leave the body open.
    pub fn has_end_marker(&self) -> bool {
        self.head.is_some() && !self.is_refusal() && self.reading.has_end_marker()
    }

    /// Whether the server has said that the answer is complete, by an end marker or a finish reason.
    pub fn is_finished(&self) -> bool {
        self.head.is_some() && !self.is_refusal() && self.reading.has_ended()
    }

    /// Whether the answer has failed by the server's own words, though its body has not ended: a status other
    /// than success, or an error inside of it.
    pub fn has_failed(&self) -> bool {
        self.head.is_some() && (self.is_refusal() || self.reading.has_failed())
    }

    /// The server's `Retry-After`; `None` where it sent none. A date is compared with the server's own
    /// `Date` where there is one, else with `now`.
    pub fn retry_after(&self, now: WallNanos) -> Option<Nanos> {
        let head = self.head?;
        head.retry_after.map(|after| after.wait(head.date.unwrap_or(now)))
    }
}

#[cfg(test)]
mod tests;
