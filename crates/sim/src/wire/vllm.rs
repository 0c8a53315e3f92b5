//! The OpenAI routes as vLLM implements them.
//!
//! The finish reason rides on the last event with text; usage has an event of its own with no choices;
//! chat begins with a role event that leaves together with the first token.

use serde_json::{Value, json};

use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, PieceKind, Reason, ReportedUsage};
use super::event_buffer::{EventBuffer, EventTemplate};
use super::openai::{OpenAiAnswer, OpenAiRoute, RequestedUsage};
use super::route::Response;
use crate::truth::SentKind;

const FINGERPRINT: &str = "tokometer-sim";

/// The id of the one call of an answer.
pub(super) const CALL_ID: &str = "chatcmpl-tool-0123456789abcdef";

pub(super) struct Vllm {
    answer: OpenAiAnswer,
    /// The event of a text of this kind.
    usual: Option<(PieceKind, EventTemplate)>,
}

impl Vllm {
    pub(super) fn new(mut answer: OpenAiAnswer) -> Self {
        let prefix = match answer.route {
            OpenAiRoute::Completions => "cmpl",
            OpenAiRoute::Chat => "chatcmpl",
        };
        answer.id = format!("{prefix}-{}", answer.id);
        Self { answer, usual: None }
    }

    /// Adds usage to an event that is not about usage.
    fn add_running_usage(&self, event: &mut Value, usage: ReportedUsage) {
        if self.answer.extras.usage == RequestedUsage::Continuous {
            event["usage"] = usage.json();
            if self.answer.route == OpenAiRoute::Chat {
                event["usage"]["completion_tokens_details"] = Value::Null;
            }
        }
    }

    /// The prompt's ids, in the first event only.
    fn prompt_ids(&self) -> Value {
        json!(self.answer.extras.prompt_ids.as_ref().filter(|_| !self.answer.has_begun))
    }

    fn open_chat(&self, usage: ReportedUsage, buffer: &mut EventBuffer) {
        let delta = json!({ "role": "assistant", "content": "" });
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null });
        let mut event = self.answer.chunk(&[choice]);
        self.add_running_usage(&mut event, ReportedUsage { completion_tokens: 0, ..usage });
        event["prompt_token_ids"] = self.prompt_ids();
        event["prompt_text"] = Value::Null;
        buffer.event(&event, SentKind::Role);
        // The tool is named ahead of its arguments.
        if let Some(tool) = &self.answer.extras.tool {
            let function = json!({ "name": tool.name });
            let call =
                json!({ "id": CALL_ID, "type": "function", "index": 0, "function": function });
            let choice = json!({
                "index": 0, "delta": { "content": null, "tool_calls": [call] }, "logprobs": null,
                "finish_reason": null, "token_ids": null,
            });
            buffer.event(&self.answer.chunk(&[choice]), SentKind::Role);
        }
    }

    fn message(&self, piece: &AnswerPiece<'_>) -> Value {
        let Some(tool) = &self.answer.extras.tool else {
            let [content, reasoning] =
                [piece.text, piece.reasoning].map(|text| (!text.is_empty()).then_some(text));
            return json!({
                "role": "assistant", "content": content, "tool_calls": [], "reasoning": reasoning,
            });
        };
        let function = json!({ "name": tool.name, "arguments": piece.text });
        let call = json!({ "id": CALL_ID, "type": "function", "function": function });
        json!({ "role": "assistant", "content": null, "tool_calls": [call] })
    }

    /// A call that the model chose among tools has a reason of its own.
    fn finish_reason(&self, piece: &AnswerPiece<'_>) -> Option<&'static str> {
        match (&self.answer.extras.tool, piece.last) {
            (Some(tool), Some(Reason::Stop)) if !tool.is_named => Some("tool_calls"),
            _ => piece.finish_reason(),
        }
    }

    fn event(&self, piece: &AnswerPiece<'_>) -> Value {
        let mut choice = json!({
            "index": 0, "logprobs": null, "finish_reason": self.finish_reason(piece),
            "token_ids": self.wants_ids().then_some(piece.ids),
        });
        if self.answer.route == OpenAiRoute::Completions {
            choice["text"] = piece.text.into();
            choice["prompt_token_ids"] = self.prompt_ids();
        } else {
            choice["delta"] = match (&self.answer.extras.tool, piece.kind) {
                (Some(_), _) => {
                    let call = json!({ "index": 0, "function": { "arguments": piece.text } });
                    json!({ "content": null, "tool_calls": [call] })
                }
                (None, PieceKind::Answer) => json!({ "content": piece.text }),
                (None, PieceKind::Reasoning) => json!({ "reasoning": piece.text }),
            };
        }
        if self.answer.route == OpenAiRoute::Completions || piece.last.is_some() {
            choice["stop_reason"] = Value::Null;
        }
        let mut event = self.answer.chunk(&[choice]);
        self.add_running_usage(&mut event, piece.usage);
        if piece.last.is_some() && self.answer.extras.usage == RequestedUsage::Never {
            event["system_fingerprint"] = FINGERPRINT.into();
        }
        event
    }

    /// Writes an event in which only the text is its own.
    fn write_usual(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        if self.usual.as_ref().is_none_or(|(kind, _)| *kind != piece.kind) {
            let template = EventTemplate::new(|text| self.event(&AnswerPiece { text, ..*piece }));
            self.usual = Some((piece.kind, template));
        }
        if let Some((_, template)) = &self.usual {
            template.write(piece.text, buffer);
        }
    }
}

impl AnswerWriter for Vllm {
    fn can_reason(&self) -> bool {
        self.answer.route == OpenAiRoute::Chat
    }

    fn wants_ids(&self) -> bool {
        self.answer.extras.prompt_ids.is_some()
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        if self.answer.route == OpenAiRoute::Chat && !self.answer.has_begun {
            self.open_chat(piece.usage, buffer);
            self.answer.has_begun = true;
        }
        let has_counts = self.answer.extras.usage == RequestedUsage::Continuous;
        if piece.last.is_some() || has_counts || self.wants_ids() {
            buffer.put("data: ").put(&self.event(piece).to_string());
        } else {
            self.write_usual(piece, buffer);
        }
        self.answer.has_begun = true;
        buffer.close(SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let usage = ending.usage.filter(|_| self.answer.extras.usage != RequestedUsage::Never);
        if let Some(usage) = usage {
            let mut event = self.answer.chunk(&[]);
            event["usage"] = usage.json();
            if ending.reasoning_tokens > 0 {
                let details = json!({ "reasoning_tokens": ending.reasoning_tokens });
                event["usage"]["completion_tokens_details"] = details;
            }
            event["system_fingerprint"] = FINGERPRINT.into();
            buffer.event(&event, SentKind::Usage);
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let mut choice = json!({
            "index": 0, "logprobs": null, "finish_reason": self.finish_reason(piece),
            "stop_reason": null, "token_ids": self.wants_ids().then_some(piece.ids),
        });
        if self.answer.route == OpenAiRoute::Completions {
            choice["text"] = piece.text.into();
            choice["prompt_logprobs"] = Value::Null;
            choice["prompt_token_ids"] = json!(self.answer.extras.prompt_ids);
        } else {
            choice["message"] = self.message(piece);
        }
        let reasoning = ending.reasoning_tokens;
        let usage = ending.usage.map(|usage| {
            let mut usage = usage.json();
            if usage.get("prompt_tokens_details").is_none() {
                usage["prompt_tokens_details"] = Value::Null;
            }
            usage["completion_tokens_details"] =
                json!((reasoning > 0).then(|| json!({ "reasoning_tokens": reasoning })));
            usage
        });
        let mut body = self.answer.whole(choice, usage);
        body["service_tier"] = Value::Null;
        body["system_fingerprint"] = FINGERPRINT.into();
        Response::json(200, &body)
    }
}
