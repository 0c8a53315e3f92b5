//! Events that name their type: the Responses API, the Messages API, OpenAI's transcriptions.
//!
//! One key means different things in different events there: `delta` is text in one event and a piece
//! of a tool call in another, and `.done` events repeat what the pieces had. So the fields are taken
//! first, in whatever order they come, and the type then decides what they were.

use serde_json::Value as Json;
use tokometer_record::Usage;

use super::fields::{EventField, Fields, KeyUse, KnownObject, is_abort};
use super::marks::Marks;
use super::text::Text;
use super::{EventSchema, NotJson};

/// The use of `key` at `place`, for the objects of these protocols.
pub(super) fn slot(place: KnownObject, key: &[u8]) -> KeyUse {
    use KeyUse::{Enter, Take};
    match (place, key) {
        (KnownObject::TranscriptEvent, b"choices") => Enter(KnownObject::Choice),
        (KnownObject::TranscriptEvent, b"object") => Take(EventField::Object),
        (KnownObject::TranscriptEvent, b"text") => Take(EventField::WholeText),
        (
            KnownObject::ResponsesEvent | KnownObject::MessagesEvent | KnownObject::TranscriptEvent,
            b"type",
        ) => Take(EventField::EventType),
        (
            KnownObject::ResponsesEvent
            | KnownObject::ResponseObject
            | KnownObject::MessagesEvent
            | KnownObject::TranscriptEvent,
            b"error",
        ) => Take(EventField::Error),
        (KnownObject::ResponsesEvent | KnownObject::TranscriptEvent, b"delta")
        | (KnownObject::BlockDelta, b"text") => Take(EventField::Text),
        // The whole text of a part that has ended.
        (KnownObject::ResponsesEvent, b"text" | b"refusal") => Take(EventField::EndedText),
        (KnownObject::ResponsesEvent, b"response") => Enter(KnownObject::ResponseObject),
        (KnownObject::ResponseObject, b"status") => Take(EventField::Status),
        (KnownObject::ResponseObject | KnownObject::TranscriptEvent, b"usage") => {
            Enter(KnownObject::Usage)
        }
        (KnownObject::MessagesEvent, b"message") => Enter(KnownObject::MessageObject),
        // A block may open with its first text; mostly it opens empty.
        (KnownObject::MessagesEvent, b"delta" | b"content_block") => Enter(KnownObject::BlockDelta),
        (KnownObject::MessagesEvent | KnownObject::MessageObject, b"usage") => {
            Enter(KnownObject::MessagesUsage)
        }
        (KnownObject::BlockDelta, b"thinking") => Take(EventField::Reasoning),
        (KnownObject::BlockDelta, b"partial_json") => Take(EventField::ToolArguments),
        (KnownObject::BlockDelta, b"stop_reason") => Take(EventField::Finish),
        (KnownObject::MessagesUsage, b"input_tokens" | b"cache_creation_input_tokens") => {
            Take(EventField::PromptPart)
        }
        (KnownObject::MessagesUsage, b"cache_read_input_tokens") => Take(EventField::CachedPart),
        _ => KeyUse::Skip,
    }
}

impl<'a> Fields<'a> {
    /// Sets the type of an event whose data does not name it.
    pub(super) fn set_type(&mut self, name: &'a [u8]) {
        if self.event_type.is_none() && !name.is_empty() {
            self.event_type = Some(Text::Plain(name));
            self.marks.set(Marks::TYPED_BY_NAME);
        }
    }

    /// Gives the fields of an event the meaning that its type implies.
    pub(super) fn settle(&mut self, schema: EventSchema) {
        match schema {
            EventSchema::Shared | EventSchema::Choices => self.include_reasoning(),
            EventSchema::Vectors | EventSchema::Ranking => {}
            EventSchema::Transcription => self.settle_transcript(),
            EventSchema::Responses => self.settle_responses(),
            EventSchema::Messages => self.settle_messages(),
        }
    }

    fn settle_responses(&mut self) {
        let kind = self.event_type.take();
        let kind = kind.as_ref().map_or(&b""[..], Text::as_bytes);
        let piece = self.text.take();
        // Every piece has a type ending in `.delta`; `.done` repeats all of them.
        match kind.strip_suffix(b".delta") {
            Some(b"response.output_text" | b"response.refusal") => self.text = piece,
            // `reasoning_text`, `reasoning_summary_text`, and their earlier names.
            Some(kind) if kind.starts_with(b"response.reasoning") => self.reasoning = piece,
            // Arguments of functions, tools and MCP servers, code of an interpreter.
            Some(_) if piece.is_some_and(|piece| !piece.is_empty()) => {
                self.marks.set(Marks::TOOL_CALL);
            }
            Some(_) => {}
            None => self.settle_state(kind),
        }
        if !matches!(kind, b"response.output_text.done" | b"response.refusal.done") {
            self.whole_text = None;
        }
    }

    /// An event about the response as a whole.
    fn settle_state(&mut self, kind: &[u8]) {
        match kind {
            b"error" | b"response.failed" => self.marks.set(Marks::ERROR),
            b"response.completed" | b"response.incomplete" | b"response.cancelled" => {
                self.marks.set(Marks::FINISHED.and(Marks::LAST));
                if self.status.as_ref().is_some_and(|status| is_abort(status.as_bytes())) {
                    self.marks.set(Marks::ABORTED);
                }
            }
            // Servers may put a usage of zeros into the events that open a response.
            _ => self.usage = None,
        }
    }

    /// The event that ends OpenAI's stream repeats the whole text. Chunks with `choices` have no type.
    fn settle_transcript(&mut self) {
        let Some(kind) = &self.event_type else { return };
        if kind.is("error") {
            self.marks.set(Marks::ERROR);
        } else if kind.is("transcript.text.done") {
            self.marks.set(Marks::FINISHED.and(Marks::LAST));
            self.whole_text = None;
        }
    }

    fn settle_messages(&mut self) {
        let Some(kind) = &self.event_type else { return };
        if kind.is("error") {
            self.marks.set(Marks::ERROR);
        } else if kind.is("message_stop") {
            self.marks.set(Marks::LAST);
        } else if kind.is("content_block_start") {
            self.text = self.text.take().filter(|text| !text.is_empty());
        } else if kind.is("message_start") {
            self.marks.set(Marks::CHOICE.and(Marks::ROLE));
            // Its count of the answer is a beginning; the last `message_delta` has the true one.
            if let Some(usage) = &mut self.usage {
                usage.completion_tokens = None;
            }
        }
    }
}

/// The fields of an answer in one piece.
pub(super) fn whole(schema: EventSchema, data: &[u8]) -> Result<Fields<'static>, NotJson> {
    let document: Json = serde_json::from_slice(data).map_err(|_| NotJson)?;
    let mut fields = Fields::default();
    let is_error = document.get("error").is_some_and(says_error)
        || document.get("type").and_then(Json::as_str) == Some("error");
    if is_error {
        fields.marks.set(Marks::ERROR);
    }
    let (parts, state) = match schema {
        EventSchema::Messages => ("content", "stop_reason"),
        _ => ("output", "status"),
    };
    let parts = document.get(parts).and_then(Json::as_array);
    if let Some(parts) = parts {
        fields.marks.set(Marks::CHOICE);
        for part in parts {
            take_part(&mut fields, part);
        }
    }
    if let Some(state) = document.get(state).and_then(Json::as_str) {
        fields.marks.set(Marks::FINISHED);
        if is_abort(state.as_bytes()) {
            fields.marks.set(Marks::ABORTED);
        }
    }
    fields.usage = document.get("usage").filter(|usage| usage.is_object()).map(usage);
    Ok(fields)
}

/// Whether the value of `error` reports one: some servers have the field always and leave it empty.
pub(crate) fn says_error(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::String(said) => !said.is_empty(),
        Json::Array(said) => !said.is_empty(),
        Json::Object(said) => !said.is_empty(),
        Json::Number(code) => code.as_f64() != Some(0.0),
        Json::Bool(true) => true,
    }
}

/// One part of an answer: a block of a message, or an item with parts of its own.
pub(super) fn take_part(fields: &mut Fields<'static>, part: &Json) {
    let text = |key: &str| part.get(key).and_then(Json::as_str);
    match text("type").unwrap_or_default() {
        "message" | "reasoning" => {
            let inner = ["content", "summary"].map(|key| part.get(key).and_then(Json::as_array));
            for part in inner.into_iter().flatten().flatten() {
                take_part(fields, part);
            }
        }
        // Some gateways leave the type of a text out.
        "output_text" | "text" | "" => append(&mut fields.text, text("text")),
        "refusal" => append(&mut fields.text, text("refusal")),
        "reasoning_text" | "summary_text" => append(&mut fields.reasoning, text("text")),
        "thinking" => {
            append(&mut fields.reasoning, text("thinking"));
            let inner = part.get("thinking").and_then(Json::as_array);
            for piece in inner.into_iter().flatten() {
                append(&mut fields.reasoning, piece.get("text").and_then(Json::as_str));
            }
        }
        "tool_use" => fields.marks.set(Marks::TOOL_CALL),
        kind if kind.ends_with("_call") => fields.marks.set(Marks::TOOL_CALL),
        _ => {}
    }
}

fn append(known: &mut Option<Text<'static>>, more: Option<&str>) {
    let Some(more) = more else { return };
    let mut text = known.as_ref().map(Text::to_text).unwrap_or_default();
    text.push_str(more);
    *known = Some(Text::Owned(text));
}

fn usage(usage: &Json) -> Usage {
    let count = |pointer: &str| {
        usage.pointer(pointer).and_then(Json::as_u64).and_then(|count| u32::try_from(count).ok())
    };
    let parts = ["/input_tokens", "/cache_read_input_tokens", "/cache_creation_input_tokens"];
    let prompt: Vec<u32> = parts.into_iter().filter_map(count).collect();
    Usage {
        prompt_tokens: (!prompt.is_empty()).then(|| prompt.iter().sum()),
        completion_tokens: count("/output_tokens"),
        cached_tokens: count("/input_tokens_details/cached_tokens")
            .or_else(|| count("/cache_read_input_tokens")),
        reasoning_tokens: count("/output_tokens_details/reasoning_tokens"),
    }
}
