//! The Messages API as vLLM implements it.
//!
//! `message_start` leaves with the first token; `message_delta` carries the stop reason and the final
//! usage; `message_stop` ends the stream. A length is required; `ignore_eos` is accepted and ignored.

use serde_json::{Value, json};

use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, Reason, ReportedUsage, RequestedLength};
use super::complaint::Complaint;
use super::constraint::{self, CalledTool};
use super::openai::{read_conversation, whole_number};
use super::route::{Accepted, Desk, Response};
use super::sheet::Sheet;
use super::vllm;
use crate::truth::SentKind;

pub(super) fn respond(desk: &mut Desk<'_>, body: &Value) -> Result<Accepted, Complaint> {
    let missing = || {
        let message = "1 validation error:\n  {'type': 'missing', 'loc': 'body.max_tokens', 'msg': 'Field required'}";
        Complaint::field("max_tokens", message)
    };
    let limit = whole_number(body, "max_tokens")?.ok_or_else(missing)?;
    let mut messages = body.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(system) = body.get("system").filter(|system| !system.is_null()) {
        messages.insert(0, json!({ "role": "system", "content": system }));
    }
    let wish = RequestedLength { limit: Some(limit), least: 0, ignores_eos: false };
    let mut ask = read_conversation(desk, body, messages, wish)?;
    let constraint = constraint::of_message(body);
    let (pieces, tool) = constraint.map(|one| (one.pieces, one.tool)).unzip();
    ask.constrained = pieces;
    let model = body.get("model").and_then(Value::as_str);
    let writer = Messages {
        id: format!("chatcmpl-{}", desk.request_id),
        model: model.unwrap_or(&desk.config.model).to_owned(),
        has_begun: false,
        tool: tool.flatten(),
    };
    Ok((ask, Box::new(writer)))
}

struct Messages {
    id: String,
    model: String,
    has_begun: bool,
    /// The tool that the answer calls.
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
}

fn usage(usage: ReportedUsage) -> Value {
    json!({ "input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens })
}

fn event(kind: &str, mut data: Value, sent: SentKind, sheet: &mut Sheet) {
    data["type"] = kind.into();
    sheet.put("event: ").put(kind).put("\ndata: ").put(&data.to_string()).close(sent, 0);
}

impl AnswerWriter for Messages {
    fn headers(&self) -> Vec<(&'static str, String)> {
        vllm::headers()
    }

    fn speak(&mut self, piece: &AnswerPiece<'_>, sheet: &mut Sheet) {
        if !self.has_begun {
            self.has_begun = true;
            let message = json!({
                "id": self.id, "type": "message", "role": "assistant", "content": [],
                "model": self.model, "stop_reason": null, "stop_sequence": null,
                "usage": usage(ReportedUsage { completion_tokens: 0, ..piece.usage }),
            });
            event("message_start", json!({ "message": message }), SentKind::Role, sheet);
            let opened = match &self.tool {
                Some(tool) => {
                    json!({ "type": "tool_use", "id": vllm::CALL_ID, "name": tool.name, "input": {} })
                }
                None => json!({ "type": "text", "text": "" }),
            };
            let block = json!({ "content_block": opened, "index": 0 });
            event("content_block_start", block, SentKind::Role, sheet);
        }
        let kind = match self.tool {
            Some(_) => "\"input_json_delta\",\"partial_json\":\"",
            None => "\"text_delta\",\"text\":\"",
        };
        sheet
            .put("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":")
            .put(kind)
            .put(piece.text)
            .put("\"},\"index\":0}")
            .close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, ending: &AnswerEnd, sheet: &mut Sheet) {
        event("content_block_stop", json!({ "index": 0 }), SentKind::Finish, sheet);
        let delta =
            json!({ "stop_reason": self.stop_reason(ending.reason), "stop_sequence": null });
        let mut data = json!({ "delta": delta });
        if let Some(told) = ending.usage {
            data["usage"] = usage(told);
        }
        event("message_delta", data, SentKind::Usage, sheet);
        event("message_stop", json!({}), SentKind::Done, sheet);
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let block = match &self.tool {
            Some(tool) => {
                let input = serde_json::from_str::<Value>(piece.plain).unwrap_or_default();
                json!({ "type": "tool_use", "id": vllm::CALL_ID, "name": tool.name, "input": input })
            }
            None => json!({ "type": "text", "text": piece.plain }),
        };
        let body = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": [block], "stop_reason": self.stop_reason(ending.reason),
            "usage": ending.usage.map(usage),
        });
        Response::json(200, &body)
    }
}
