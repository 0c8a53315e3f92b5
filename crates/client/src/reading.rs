//! Accumulates the events of one response.
//!
//! In: events in order, each with the stamp of the read that completed it. Out: events in the
//! timeline, counts, text, and the outcome at the end. All protocols share this code and follow their [`Rules`]; it
//! knows no server.

use std::sync::Arc;

use tokometer_base::redact::Secrets;
use tokometer_base::{Fingerprint, Nanos};
use tokometer_record::{Event, EventKind, Failure, FailureKind, Outcome, Timeline};

use crate::dialect::{EndRule, Rules, StreamState};
use crate::framing::EventFraming;
use crate::scan::{EventTemplate, Fields, Marks, scan};
use crate::server_message::{abort_reason, is_error_document, message};
use crate::settings::{Settings, UsageReports};
use crate::sse;
use crate::tool_calls::ToolCalls;
use kinds::{ByteCount, kind_of, merge, reasoning};

mod kinds;
mod stray_lines;
mod whole;

/// Marks of an event that reports nothing besides its text.
const TEXT_ONLY: Marks = Marks::CHOICE.and(Marks::ROLE);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadStamp {
    /// Stamp of the last segment in the read.
    pub at: Nanos,
    /// Whether earlier segments were merged into it, so that `at` is only an upper bound.
    pub is_upper_bound: bool,
}

impl ReadStamp {
    pub fn exact(at: Nanos) -> Self {
        Self { at, is_upper_bound: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepText {
    No,
    /// Kept in the timeline if the response succeeds without a token count in its usage.
    Uncounted,
    Yes,
}

#[derive(Debug)]
pub(crate) struct ResponseReading {
    rules: &'static Rules,
    /// What ends this response: its body, where it is not streamed.
    end: EndRule,
    usage_reports: UsageReports,
    keep_text: KeepText,
    /// Whether the request limits a ranking to its best results.
    has_result_limit: bool,
    secrets: Arc<Secrets>,
    template: EventTemplate,
    state: StreamState,
    bytes: ByteCount,
    text: String,
    /// The text without reasoning, once there is some.
    answer: Option<String>,
    tool_calls: ToolCalls,
    stray: Option<stray_lines::StrayLines>,
    failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct EventArrival {
    pub(crate) stamp: ReadStamp,
    pub(crate) read: u32,
}

impl EventArrival {
    /// What is known at `at` without another read.
    pub(crate) fn without_bytes(at: Nanos, timeline: &Timeline) -> Self {
        Self { stamp: ReadStamp::exact(at), read: timeline.reads.saturating_sub(1) }
    }
}

impl ResponseReading {
    pub(crate) fn new(rules: &'static Rules, settings: &Settings, keep_text: KeepText) -> Self {
        Self {
            rules,
            end: rules.end,
            usage_reports: settings.usage,
            keep_text,
            has_result_limit: settings.extra_body.0.contains_key("top_n"),
            secrets: settings.shared_secrets(),
            template: EventTemplate::default(),
            state: StreamState::default(),
            bytes: ByteCount::default(),
            text: String::new(),
            answer: None,
            tool_calls: ToolCalls::default(),
            stray: None,
            failure: None,
        }
    }

    /// Prepares for the next response. The template is discarded because the events carry another id.
    pub(crate) fn reset(&mut self) {
        self.template.forget();
        self.state = StreamState::default();
        self.bytes = ByteCount::default();
        self.text.clear();
        self.answer = None;
        self.tool_calls.clear();
        self.stray = None;
        self.failure = None;
    }

    #[inline]
    pub(crate) fn on_event(
        &mut self,
        event: sse::SseEvent<'_>,
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) {
        // Nothing belongs to an answer behind its end mark.
        if self.state.seen.has(Marks::DONE) {
            return push(timeline, arrival, EventKind::Other, None);
        }
        // These are not read as answers, whatever they look like.
        let is_other = matches!(event.name, b"error" | sse::STRAY);
        if !is_other && let Some((kind, text)) = self.template.matched(event.data) {
            if self.keep_text != KeepText::No {
                text.append_to(&mut self.text);
                if let Some(answer) = self.answer.as_mut().filter(|_| kind == EventKind::Text) {
                    text.append_to(answer);
                }
            }
            let thought = if kind == EventKind::Reasoning { text.len() } else { 0 };
            self.bytes.add(text.len(), thought);
            push(timeline, arrival, kind, None);
        } else {
            self.on_new_shape(event, arrival, timeline);
        }
    }

    fn on_new_shape(
        &mut self,
        event: sse::SseEvent<'_>,
        arrival: EventArrival,
        timeline: &mut Timeline,
    ) {
        if event.name == sse::STRAY {
            return self.on_stray_lines(event.data, timeline);
        }
        let data = event.data.trim_ascii();
        if data.eq_ignore_ascii_case(b"[DONE]") {
            self.state.seen.set(Marks::DONE);
            return push(timeline, arrival, EventKind::End, None);
        }
        if data.is_empty() {
            return push(timeline, arrival, EventKind::Other, None);
        }
        let Ok(mut fields) = scan(self.rules.event, data) else {
            return push(timeline, arrival, self.on_no_json(event.name, data), None);
        };
        if self.rules.is_typed {
            fields.set_type(event.name);
        }
        (self.rules.settle)(&mut fields, &mut self.state, &timeline.events);
        if fields.has_in_any_choice(Marks::ERROR) || event.name == b"error" {
            self.fail(FailureKind::InStream, "", data);
            return push(timeline, arrival, EventKind::Error, None);
        }
        if fields.has_in_any_choice(Marks::ABORTED) {
            self.fail_aborted(data);
        }
        if fields.marks.has(Marks::TOOL_CALL) || fields.marks.has(Marks::NAMES_CALL) {
            self.take_calls(event.name, data);
        }
        let further = std::mem::take(&mut fields.further);
        let choice = self.on_choice(&fields);
        let is_end = choice.kind == EventKind::Other && fields.marks.has(Marks::LAST);
        let kind = if is_end { EventKind::End } else { choice.kind };
        if kind == EventKind::Other && !self.rules.is_typed && is_error_document(data) {
            self.fail(FailureKind::InStream, "", data);
            return push(timeline, arrival, EventKind::Error, None);
        }
        if further.is_empty() {
            self.learn(data, &fields, &choice);
        }
        if let Some(usage) = fields.usage {
            merge(timeline.usage.get_or_insert_default(), usage);
        }
        if let Some(timings) = fields.timings {
            let known = timeline.server_timings.get_or_insert_default();
            known.prefill = timings.prefill.or(known.prefill);
            known.decode = timings.decode.or(known.decode);
        }
        push(timeline, arrival, kind, choice.tokens);
        // Each further choice with content is an event of its own.
        for fields in &further {
            let choice = self.on_choice(fields);
            if choice.kind.is_generated() {
                push(timeline, arrival, choice.kind, choice.tokens);
            }
        }
    }

    /// Takes what an event, or an answer in one piece, says about tool calls. `name` is the event's type where its
    /// data has none.
    fn take_calls(&mut self, name: &[u8], data: &[u8]) {
        let Ok(event) = serde_json::from_slice::<serde_json::Value>(data) else { return };
        let name = std::str::from_utf8(name).unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or(name);
        (self.rules.take_calls)(&mut self.tool_calls, kind, &event);
    }

    fn on_no_json(&mut self, name: &[u8], data: &[u8]) -> EventKind {
        // Servers that answer slowly keep the connection open with events of any content.
        if is_heartbeat(name) {
            return EventKind::Other;
        }
        if name == b"error" {
            self.fail(FailureKind::InStream, "", data);
        } else {
            self.fail(FailureKind::Protocol, not_json(data), data);
        }
        EventKind::Error
    }

    /// Reads one choice. Times and text come from the first choice; counts from all.
    fn on_choice(&mut self, fields: &Fields<'_>) -> ChoiceReading {
        let kind = kind_of(fields, self.state.seen);
        let is_further = kind.is_content() && fields.marks.has(Marks::FURTHER);
        let kind = if is_further { EventKind::FurtherChoice } else { kind };
        let tokens = self.tokens(fields, kind);
        self.bytes.add_choice(kind, fields);
        self.keep(fields, kind);
        self.state.seen.set(fields.marks);
        if kind.is_generated() {
            self.state.seen.set(Marks::CONTENT);
        }
        ChoiceReading { kind, tokens }
    }

    fn fail(&mut self, kind: FailureKind, what: &str, data: &[u8]) {
        if self.failure.is_none() {
            let message = format!("{what}{}", message(data, &self.secrets));
            self.failure = Some(Failure::new(kind, message));
        }
    }

    fn fail_aborted(&mut self, data: &[u8]) {
        if self.failure.is_none() {
            let said = abort_reason(data, &self.secrets);
            let message = format!("the server ended the answer early: {said}");
            self.failure = Some(Failure::new(FailureKind::InStream, message));
        }
    }

    /// Stores the shape of an event that has only text.
    fn learn(&mut self, data: &[u8], fields: &Fields<'_>, choice: &ChoiceReading) {
        let text = match choice.kind {
            EventKind::Text => fields.text.as_ref(),
            EventKind::Reasoning => reasoning(fields),
            _ => None,
        };
        let has_both = choice.kind == EventKind::Text && reasoning(fields).is_some();
        let is_plain = choice.tokens.is_none()
            && fields.usage.is_none()
            && fields.timings.is_none()
            && !has_both
            && !fields.marks.has_beyond(TEXT_ONLY);
        if let Some(text) = text.filter(|_| is_plain) {
            self.template.learn(data, text, choice.kind);
        }
    }

    fn keep(&mut self, fields: &Fields<'_>, kind: EventKind) {
        if self.keep_text == KeepText::No || !kind.is_content() {
            return;
        }
        if let Some(thought) = reasoning(fields) {
            self.answer.get_or_insert_with(|| self.text.clone());
            thought.append_to(&mut self.text);
        }
        if let Some(text) = &fields.text {
            if fields.marks.has(Marks::CUMULATIVE) {
                self.text.clear();
            }
            text.append_to(&mut self.text);
            if let Some(answer) = &mut self.answer {
                text.append_to(answer);
            }
        }
    }

    /// Whether the server streams events, and none of them has a field that is known here.
    fn is_other_protocol(&self, timeline: &Timeline) -> bool {
        let is_unknown = |event: &Event| event.kind == EventKind::Other;
        !self.rules.is_typed
            && !timeline.events.is_empty()
            && timeline.events.iter().all(is_unknown)
    }

    /// Whether the server has reported a failure, or sent something that is no answer.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether the protocol's last event has been seen, behind which nothing is due but the body's end.
    pub(crate) fn has_end_marker(&self) -> bool {
        match self.end {
            EndRule::DoneOrFinish => self.state.seen.has(Marks::DONE),
            EndRule::FinalEvent => self.state.seen.has(Marks::LAST),
            EndRule::Body => false,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        match self.end {
            EndRule::DoneOrFinish => {
                self.state.seen.has(Marks::DONE) || self.state.seen.has(Marks::FINISHED)
            }
            EndRule::FinalEvent => self.state.seen.has(Marks::LAST),
            EndRule::Body => false,
        }
    }

    /// Ends the stream. `body` says whether the body reached its announced end.
    pub(crate) fn finish(&mut self, body: BodyEnd, timeline: &mut Timeline) {
        let is_regular = match self.end {
            EndRule::Body => body == BodyEnd::Announced,
            // After a finish reason the usage and `[DONE]` may still be due: a cut lost them.
            EndRule::DoneOrFinish => {
                self.has_end_marker() || (self.has_ended() && body != BodyEnd::Cut)
            }
            EndRule::FinalEvent => self.has_ended(),
        };
        let told = timeline.usage.and_then(|usage| usage.completion_tokens).unwrap_or(0);
        let is_silence = self.rules.may_be_empty() && self.state.seen.has(Marks::FINISHED);
        let has_answer =
            self.state.seen.has(Marks::CONTENT) || told > 0 || self.state.counted > 0 || is_silence;
        let status = timeline.status;
        let failed = |failure: Failure| Outcome::Failed(Failure { status, ..failure });
        timeline.outcome = if let Some(failure) = self.failure.take() {
            failed(failure)
        } else if !is_regular {
            failed(Failure::new(FailureKind::Cut, self.cut_message(timeline)))
        } else if !has_answer {
            let events = timeline.events.len();
            let message = format!("the answer ended without content (events: {events})");
            failed(Failure::new(FailureKind::NoContent, message))
        } else {
            Outcome::Success
        };
        self.keep_answer(told, timeline);
    }

    fn cut_message(&self, timeline: &Timeline) -> String {
        let what = if self.end == EndRule::Body {
            "the connection closed before the end of the response"
        } else if self.has_ended() {
            "the connection closed after the finish reason, before the end of the response"
        } else if self.is_other_protocol(timeline) {
            "the stream ended without its end marker, and no event has a field of this \
             protocol; check `--backend` and `--endpoint`"
        } else {
            "the stream ended without its end marker"
        };
        what.to_owned() + &self.last_received(timeline)
    }

    /// Stores what the response consists of. `told` is the server's count of its tokens.
    pub(crate) fn keep_answer(&mut self, told: u32, timeline: &mut Timeline) {
        timeline.content_bytes = self.bytes.total().filter(|_| timeline.is_success());
        let is_kept = match self.keep_text {
            KeepText::No => false,
            // There is no text, which must not be counted as one without tokens.
            _ if self.rules.is_pooled() => false,
            // The buffer is reused for the next response: a run with usage keeps one text per
            // connection.
            KeepText::Uncounted => timeline.is_success() && told == 0,
            KeepText::Yes => true,
        };
        let tool_calls = self.tool_calls.to_json();
        let is_compared = timeline.requested.prompt_hash.is_some() && timeline.is_success();
        if is_compared && self.keep_text != KeepText::No && !self.rules.is_pooled() {
            let calls = tool_calls.as_deref().unwrap_or_default();
            let hash = Fingerprint::default().with(self.text.as_bytes()).with(calls.as_bytes());
            timeline.answer_hash = Some(hash.value());
        }
        let are_calls_judged = self.keep_text == KeepText::Yes || timeline.own_tools.is_some();
        timeline.tool_calls = tool_calls.filter(|_| are_calls_judged);
        if is_kept {
            // An answer that ended within its reasoning goes on with that.
            timeline.answer = self.answer.take().filter(|answer| !answer.is_empty());
            timeline.text = Some(std::mem::take(&mut self.text));
        }
    }

    /// A response without streaming does not use a stream's end rule.
    pub(crate) fn set_framing(&mut self, framing: EventFraming) {
        self.end = match framing {
            EventFraming::WholeJson => EndRule::Body,
            EventFraming::Sse | EventFraming::Lines => self.rules.end,
        };
    }
}

struct ChoiceReading {
    kind: EventKind,
    /// `None` where nothing reports them.
    tokens: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// At its announced length, at its last chunk, or with a connection whose closing is the regular
    /// end.
    Announced,
    Cut,
    /// The server sends nothing more and leaves the body open.
    LeftOpen,
}

fn is_heartbeat(name: &[u8]) -> bool {
    let names = ["ping", "heartbeat", "keepalive", "keep-alive", "keep_alive"];
    names.iter().any(|known| name.trim_ascii().eq_ignore_ascii_case(known.as_bytes()))
}

/// What is said before the data of an event that is not JSON.
fn not_json(data: &[u8]) -> &'static str {
    let is_json = |line: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    let mut lines = data.split(|byte| *byte == b'\n');
    if data.contains(&b'\n') && lines.by_ref().take(2).all(is_json) {
        "the server does not separate events with blank lines; several were read as one: "
    } else {
        "an event is not JSON: "
    }
}

#[inline]
fn push(timeline: &mut Timeline, arrival: EventArrival, kind: EventKind, tokens: Option<u32>) {
    let event = Event::new(arrival.stamp.at, arrival.read, kind)
        .with_tokens(tokens)
        .with_upper_bound(arrival.stamp.is_upper_bound);
    timeline.push(event);
}
