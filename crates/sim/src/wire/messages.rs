//! The Messages API as vLLM implements it.
//!
//! `message_start` leaves with the first token; `message_delta` carries the stop reason and the final
//! usage; `message_stop` ends the stream. A length is required; `ignore_eos` is accepted and ignored.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerEnd, AnswerPiece, AnswerWriter, PieceKind, Reason, ReportedUsage, RequestedLength,
};
use super::constraint::{self, CalledTool};
use super::event_buffer::EventBuffer;
use super::openai::{read_conversation, whole_number};
use super::route::{Accepted, RequestContext, Response};
use super::vllm;
use crate::truth::SentKind;

const SIGNATURE: &str = "0123456789abcdef";

pub(super) fn respond(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let missing = || {
        let message = "1 validation error:\n  {'type': 'missing', 'loc': 'body.max_tokens', 'msg': 'Field required'}";
        ApiError::field("max_tokens", message)
    };
    let limit = whole_number(body, "max_tokens")?.ok_or_else(missing)?;
    let mut messages = body.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(system) = body.get("system").filter(|system| !system.is_null()) {
        messages.insert(0, json!({ "role": "system", "content": system }));
    }
    let requested = RequestedLength { limit: Some(limit), least: 0, ignores_eos: false };
    let mut ask = read_conversation(context, body, messages, requested)?;
    let constraint = constraint::of_message(body);
    let (pieces, tool) = constraint.map(|one| (one.pieces, one.tool)).unzip();
    ask.constrained = pieces;
    let model = body.get("model").and_then(Value::as_str);
    let writer = Messages {
        id: format!("chatcmpl-{}", context.request_id),
        model: model.unwrap_or(&context.config.model).to_owned(),
        block: None,
        tool: tool.flatten(),
    };
    Ok((ask, Box::new(writer)))
}

struct Messages {
    id: String,
    model: String,
    /// The block that is open: its number, and what it holds.
    block: Option<(u32, PieceKind)>,
    tool: Option<CalledTool>,
}

impl Messages {
    const fn stop_reason(&self, reason: Reason) -> &'static str {
        match reason {
            Reason::Stop if self.tool.is_some() => "tool_use",
            Reason::Stop => "end_turn",
            Reason::Length => "max_tokens",
        }
    }

    /// Opens the message and the block that a piece belongs to, where they are not open. Returns the
    /// number of the block.
    fn enter(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) -> u32 {
        if let Some((index, kind)) = self.block
            && kind == piece.kind
        {
            return index;
        }
        let index = if let Some((index, _)) = self.block {
            self.leave(SentKind::Role, buffer);
            index + 1
        } else {
            let message = json!({
                "id": self.id, "type": "message", "role": "assistant", "content": [],
                "model": self.model, "stop_reason": null, "stop_sequence": null,
                "usage": usage(ReportedUsage { completion_tokens: 0, ..piece.usage }),
            });
            buffer.typed("message_start", json!({ "message": message }), SentKind::Role);
            0
        };
        let opened = match (piece.kind, &self.tool) {
            (PieceKind::Reasoning, _) => json!({ "type": "thinking", "thinking": "" }),
            (PieceKind::Answer, Some(tool)) => {
                json!({ "type": "tool_use", "id": vllm::CALL_ID, "name": tool.name, "input": {} })
            }
            (PieceKind::Answer, None) => json!({ "type": "text", "text": "" }),
        };
        let block = json!({ "content_block": opened, "index": index });
        buffer.typed("content_block_start", block, SentKind::Role);
        self.block = Some((index, piece.kind));
        index
    }

    /// Closes the open block; that of reasoning is signed.
    fn leave(&self, sent: SentKind, buffer: &mut EventBuffer) {
        let Some((index, kind)) = self.block else { return };
        if kind == PieceKind::Reasoning {
            let delta = json!({ "type": "signature_delta", "signature": SIGNATURE });
            let data = json!({ "delta": delta, "index": index });
            buffer.typed("content_block_delta", data, SentKind::Role);
        }
        buffer.typed("content_block_stop", json!({ "index": index }), sent);
    }
}

fn usage(usage: ReportedUsage) -> Value {
    json!({ "input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens })
}

impl AnswerWriter for Messages {
    fn can_reason(&self) -> bool {
        true
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let index = self.enter(piece, buffer);
        let (kind, field) = match (piece.kind, &self.tool) {
            (PieceKind::Reasoning, _) => ("thinking_delta", "thinking"),
            (PieceKind::Answer, Some(_)) => ("input_json_delta", "partial_json"),
            (PieceKind::Answer, None) => ("text_delta", "text"),
        };
        let data = json!({ "delta": { "type": kind, field: piece.text }, "index": index });
        buffer.typed("content_block_delta", data, SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        self.leave(SentKind::Finish, buffer);
        let delta =
            json!({ "stop_reason": self.stop_reason(ending.reason), "stop_sequence": null });
        let mut data = json!({ "delta": delta });
        if let Some(reported) = ending.usage {
            data["usage"] = usage(reported);
        }
        buffer.typed("message_delta", data, SentKind::Usage);
        buffer.typed("message_stop", json!({}), SentKind::Done);
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let thinking = (!piece.reasoning.is_empty()).then(
            || json!({ "type": "thinking", "thinking": piece.reasoning, "signature": SIGNATURE }),
        );
        let answer = match &self.tool {
            Some(tool) => {
                let input = serde_json::from_str::<Value>(piece.text).unwrap_or_default();
                json!({ "type": "tool_use", "id": vllm::CALL_ID, "name": tool.name, "input": input })
            }
            None => json!({ "type": "text", "text": piece.text }),
        };
        let is_cut = thinking.is_some() && piece.text.is_empty();
        let answer = Some(answer).filter(|_| !is_cut);
        let content: Vec<Value> = thinking.into_iter().chain(answer).collect();
        let body = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": self.stop_reason(ending.reason),
            "usage": ending.usage.map(usage),
        });
        Response::json(200, &body)
    }
}
