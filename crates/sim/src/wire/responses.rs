//! The Responses API as vLLM implements it.
//!
//! Two events open the answer together with its head, long before the first token. Pieces come in
//! `.delta` events; three events repeat the whole text; the last event carries usage. There is no
//! `[DONE]`.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, PieceKind, Reason, RequestedLength};
use super::constraint::{self, CalledTool};
use super::event_buffer::{EventBuffer, EventEnd};
use super::openai::{is_set, read_conversation, whole_number};
use super::route::{Accepted, RequestContext, Response};
use super::vllm;
use crate::truth::SentKind;

pub(super) fn respond(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let mut messages = match body.get("input") {
        Some(Value::String(text)) => vec![json!({ "role": "user", "content": text })],
        Some(Value::Array(items)) => items.clone(),
        _ => {
            return Err(ApiError::field("input", "`input` must be a text or a list of items"));
        }
    };
    if let Some(instructions) = body.get("instructions").filter(|it| it.is_string()) {
        messages.insert(0, json!({ "role": "system", "content": instructions }));
    }
    let limit = whole_number(body, "max_output_tokens")?;
    if let Some(limit) = limit.filter(|limit| *limit > context.max_model_len) {
        let max = context.max_model_len;
        let message = format!(
            "max_output_tokens={limit} cannot be greater than max_model_len={max}. Please request fewer output tokens. (parameter=max_output_tokens, value={limit})"
        );
        return Err(ApiError::field("max_output_tokens", message));
    }
    let requested = RequestedLength { limit, least: 0, ignores_eos: is_set(body, "ignore_eos") };
    let mut ask = read_conversation(context, body, messages, requested)?;
    let constraint = constraint::of_response(body);
    let (pieces, tool) = constraint.map(|one| (one.pieces, one.tool)).unzip();
    ask.constrained = pieces;
    let model = body.get("model").and_then(Value::as_str);
    let writer = Responses {
        id: context.request_id.clone(),
        model: model.unwrap_or(&context.config.model).to_owned(),
        created: context.created,
        limit,
        sequence: 0,
        reasoning: String::new(),
        text: String::new(),
        tool: tool.flatten(),
    };
    Ok((ask, Box::new(writer)))
}

struct Responses {
    id: String,
    model: String,
    created: u64,
    limit: Option<u32>,
    sequence: u32,
    /// The reasoning so far, which is an item of its own ahead of the answer.
    reasoning: String,
    /// The answer so far, which the last events repeat.
    text: String,
    tool: Option<CalledTool>,
}

impl Responses {
    fn event<'b>(
        &mut self,
        kind: &str,
        mut data: Value,
        sent: SentKind,
        buffer: &'b mut EventBuffer,
    ) -> &'b mut EventEnd {
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        buffer.typed(kind, data, sent)
    }

    fn item_id(&self) -> String {
        let kind = if self.tool.is_some() { "fc" } else { "msg" };
        format!("{kind}_{}", self.id)
    }

    fn index(&self) -> u32 {
        u32::from(!self.reasoning.is_empty())
    }

    fn reasoning_id(&self) -> String {
        format!("rs_{}", self.id)
    }

    fn reasoning_item(&self, status: &str) -> Value {
        let part = json!({ "text": self.reasoning, "type": "reasoning_text" });
        let content = (status == "completed").then(|| json!([part]));
        json!({
            "id": self.reasoning_id(), "summary": [], "type": "reasoning", "content": content,
            "encrypted_content": null, "status": status,
        })
    }

    fn reason(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let id = self.reasoning_id();
        if self.reasoning.is_empty() {
            let data = json!({ "item": self.reasoning_item("in_progress"), "output_index": 0 });
            self.event("response.output_item.added", data, SentKind::Role, buffer);
            let part = json!({ "text": "", "type": "reasoning_text" });
            let data =
                json!({ "content_index": 0, "item_id": id, "output_index": 0, "part": part });
            self.event("response.content_part.added", data, SentKind::Role, buffer);
        }
        self.reasoning.push_str(piece.text);
        let data =
            json!({ "content_index": 0, "delta": piece.text, "item_id": id, "output_index": 0 });
        let kind = "response.reasoning_text.delta";
        self.event(kind, data, SentKind::Text, buffer).tokens = piece.tokens;
    }

    /// Events that end the item of reasoning, where there is one.
    fn end_reasoning(&mut self, buffer: &mut EventBuffer) {
        if self.reasoning.is_empty() {
            return;
        }
        let (id, text) = (self.reasoning_id(), self.reasoning.clone());
        let data = json!({ "content_index": 0, "item_id": id, "output_index": 0, "text": text });
        self.event("response.reasoning_text.done", data, SentKind::Role, buffer);
        let part = json!({ "text": text, "type": "reasoning_text" });
        let data = json!({ "content_index": 0, "item_id": id, "output_index": 0, "part": part });
        self.event("response.content_part.done", data, SentKind::Role, buffer);
        let data = json!({ "item": self.reasoning_item("completed"), "output_index": 0 });
        self.event("response.output_item.done", data, SentKind::Role, buffer);
    }

    /// Whether the answer ended inside its reasoning.
    fn is_reasoning_alone(&self) -> bool {
        self.text.is_empty() && !self.reasoning.is_empty()
    }

    fn repeat(&mut self, buffer: &mut EventBuffer) {
        let id = self.item_id();
        if let Some(tool) = &self.tool {
            let data = json!({
                "arguments": self.text, "item_id": id, "output_index": self.index(),
                "name": tool.name,
            });
            let kind = "response.function_call_arguments.done";
            self.event(kind, data, SentKind::Finish, buffer);
            return;
        }
        let data = json!({
            "content_index": 0, "item_id": id, "logprobs": [], "output_index": self.index(),
            "text": self.text,
        });
        self.event("response.output_text.done", data, SentKind::Finish, buffer);
        let part = self.part(&Value::Null);
        let index = self.index();
        let data =
            json!({ "content_index": 0, "item_id": id, "output_index": index, "part": part });
        self.event("response.content_part.done", data, SentKind::Finish, buffer);
    }

    fn part(&self, logprobs: &Value) -> Value {
        json!({ "annotations": [], "text": self.text, "type": "output_text", "logprobs": logprobs })
    }

    fn item(&self, status: &str, content: &Value) -> Value {
        if let Some(tool) = &self.tool {
            return json!({
                "arguments": self.text, "call_id": vllm::CALL_ID, "name": tool.name,
                "type": "function_call", "id": self.item_id(), "status": status,
            });
        }
        json!({
            "id": self.item_id(), "content": content, "role": "assistant", "status": status,
            "type": "message", "phase": null,
        })
    }

    /// The response as an object; `end` is `None` while it is made.
    fn object(&self, end: Option<&AnswerEnd>) -> Value {
        let is_cut = end.is_some_and(|end| end.reason == Reason::Length);
        let status = match end {
            None => "in_progress",
            Some(_) if is_cut => "incomplete",
            Some(_) => "completed",
        };
        let details = is_cut.then(|| json!({ "reason": "max_output_tokens" }));
        let reasoning = (!self.reasoning.is_empty()).then(|| self.reasoning_item("completed"));
        let answer = (!self.is_reasoning_alone())
            .then(|| self.item("completed", &json!([self.part(&Value::Null)])));
        let items = end.is_some().then(|| reasoning.into_iter().chain(answer));
        let output: Vec<Value> = items.into_iter().flatten().collect();
        json!({
            "id": format!("resp_{}", self.id), "created_at": self.created, "incomplete_details": details,
            "instructions": null, "metadata": null, "model": self.model, "object": "response",
            "output": output, "parallel_tool_calls": true, "temperature": 1.0,
            "tool_choice": "none", "tools": [], "top_p": 1.0, "background": false,
            "max_output_tokens": self.limit, "max_tool_calls": null, "previous_response_id": null,
            "prompt": null, "reasoning": null, "service_tier": "auto", "status": status, "text": null,
            "top_logprobs": null, "truncation": "disabled", "user": null, "presence_penalty": 0.0,
            "usage": end.and_then(usage), "frequency_penalty": 0.0,
            "kv_transfer_params": null, "ec_transfer_params": null, "input_messages": null,
            "output_messages": null,
        })
    }
}

fn usage(end: &AnswerEnd) -> Option<Value> {
    let usage = end.usage?;
    Some(json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": 0, "cache_write_tokens": 0, "input_tokens_per_turn": [],
            "cached_tokens_per_turn": [],
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {
            "reasoning_tokens": end.reasoning_tokens, "tool_output_tokens": 0, "output_tokens_per_turn": [],
            "tool_output_tokens_per_turn": [],
        },
        "total_tokens": usage.total(),
    }))
}

impl AnswerWriter for Responses {
    fn open(&mut self, buffer: &mut EventBuffer) {
        for kind in ["response.created", "response.in_progress"] {
            let data = json!({ "response": self.object(None) });
            self.event(kind, data, SentKind::Role, buffer);
        }
    }

    fn can_reason(&self) -> bool {
        true
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        if piece.kind == PieceKind::Reasoning {
            return self.reason(piece, buffer);
        }
        let (id, at) = (self.item_id(), self.index());
        if self.text.is_empty() {
            self.end_reasoning(buffer);
            let item = self.item("in_progress", &json!([]));
            let data = json!({ "item": item, "output_index": at });
            self.event("response.output_item.added", data, SentKind::Role, buffer);
            if self.tool.is_none() {
                let part = self.part(&json!([]));
                let data =
                    json!({ "content_index": 0, "item_id": id, "output_index": at, "part": part });
                self.event("response.content_part.added", data, SentKind::Role, buffer);
            }
        }
        self.text.push_str(piece.text);
        let mut data = json!({ "delta": piece.text, "item_id": id, "output_index": at });
        let kind = if self.tool.is_some() {
            "response.function_call_arguments.delta"
        } else {
            data["content_index"] = json!(0);
            data["logprobs"] = json!([]);
            "response.output_text.delta"
        };
        self.event(kind, data, SentKind::Text, buffer).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        if self.is_reasoning_alone() {
            self.end_reasoning(buffer);
        } else {
            self.repeat(buffer);
            let item = self.item("completed", &json!([self.part(&Value::Null)]));
            let data = json!({ "item": item, "output_index": self.index() });
            self.event("response.output_item.done", data, SentKind::Finish, buffer);
        }
        let data = json!({ "response": self.object(Some(ending)) });
        self.event("response.completed", data, SentKind::Usage, buffer);
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        piece.text.clone_into(&mut self.text);
        piece.reasoning.clone_into(&mut self.reasoning);
        Response::json(200, &self.object(Some(ending)))
    }
}
