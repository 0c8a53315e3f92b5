//! The OpenAI routes as vLLM implements them.
//!
//! The finish reason rides on the last event with text; usage has an event of its own with no choices;
//! chat begins with a role event that leaves together with the first token.

use serde_json::{Value, json};

use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, PieceKind, Reason, ReportedUsage};
use super::constraint::CalledTool;
use super::event_buffer::EventBuffer;
use super::openai::{OpenAiRoute, RequestedExtras, RequestedUsage};
use super::route::{RequestContext, Response};
use crate::truth::SentKind;

const FINGERPRINT: &str = "tokometer-sim";
/// The id of the one call of an answer.
pub(super) const CALL_ID: &str = "chatcmpl-tool-0123456789abcdef";
/// What opens a piece of its arguments.
const CALL_PIECE: &str = "{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"";

struct Vllm {
    route: OpenAiRoute,
    /// `{"id":…,"object":…,"created":…,"model":…,"choices":[`
    opening: String,
    extras: RequestedExtras,
    has_begun: bool,
}

pub(super) fn writer(
    context: &RequestContext<'_>,
    route: OpenAiRoute,
    model: &str,
    extras: RequestedExtras,
) -> Box<dyn AnswerWriter> {
    let (prefix, object) = match route {
        OpenAiRoute::Completions => ("cmpl", "text_completion"),
        OpenAiRoute::Chat => ("chatcmpl", "chat.completion.chunk"),
    };
    let id = json!(format!("{prefix}-{}", context.request_id));
    let (created, model) = (context.created, json!(model));
    let opening = format!(
        "{{\"id\":{id},\"object\":\"{object}\",\"created\":{created},\"model\":{model},\"choices\":["
    );
    Box::new(Vllm { route, opening, extras, has_begun: false })
}

fn put_usage(buffer: &mut EventBuffer, usage: ReportedUsage) {
    buffer
        .put(",\"usage\":{\"prompt_tokens\":")
        .put_number(usage.prompt_tokens)
        .put(",\"total_tokens\":")
        .put_number(usage.total())
        .put(",\"completion_tokens\":")
        .put_number(usage.completion_tokens);
}

impl Vllm {
    /// Usage in an event that is not about usage.
    fn put_running_usage(&self, buffer: &mut EventBuffer, usage: ReportedUsage) {
        if self.extras.usage == RequestedUsage::Continuous {
            put_usage(buffer, usage);
            let details = match self.route {
                OpenAiRoute::Completions => "}",
                OpenAiRoute::Chat => ",\"completion_tokens_details\":null}",
            };
            buffer.put(details);
        }
    }

    /// The prompt's ids, in the first event only.
    fn put_prompt_ids(&self, buffer: &mut EventBuffer) {
        let _ = match &self.extras.prompt_ids {
            Some(ids) if !self.has_begun => buffer.put_numbers(ids),
            _ => buffer.put("null"),
        };
    }

    fn role(&self, usage: ReportedUsage, buffer: &mut EventBuffer) {
        buffer.put("data: ").put(&self.opening).put(
            "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]",
        );
        self.put_running_usage(buffer, ReportedUsage { completion_tokens: 0, ..usage });
        buffer.put(",\"prompt_token_ids\":");
        self.put_prompt_ids(buffer);
        buffer.put(",\"prompt_text\":null}").close(SentKind::Role, 0);
    }

    /// The event that names the tool, ahead of its arguments.
    fn name_tool(&self, tool: &CalledTool, buffer: &mut EventBuffer) {
        let name = json!(tool.name).to_string();
        buffer
            .put("data: ")
            .put(&self.opening)
            .put("{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[{\"id\":\"")
            .put(CALL_ID)
            .put("\",\"type\":\"function\",\"index\":0,\"function\":{\"name\":")
            .put(&name)
            .put("}}]},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]}")
            .close(SentKind::Role, 0);
    }

    fn message(&self, piece: &AnswerPiece<'_>) -> Value {
        let Some(tool) = &self.extras.tool else {
            let [content, reasoning] =
                [piece.plain, piece.reasoning].map(|text| (!text.is_empty()).then_some(text));
            return json!({
                "role": "assistant", "content": content, "tool_calls": [], "reasoning": reasoning,
            });
        };
        let function = json!({ "name": tool.name, "arguments": piece.plain });
        let call = json!({ "id": CALL_ID, "type": "function", "function": function });
        json!({ "role": "assistant", "content": null, "tool_calls": [call] })
    }

    /// A call that the model chose among tools has a reason of its own.
    fn finish_reason(&self, piece: &AnswerPiece<'_>) -> &'static str {
        match (&self.extras.tool, piece.last) {
            (Some(tool), Some(Reason::Stop)) if !tool.is_named => "\"tool_calls\"",
            _ => piece.finish_reason(),
        }
    }

    fn put_choice(&self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        match self.route {
            OpenAiRoute::Completions => {
                buffer
                    .put("{\"index\":0,\"text\":\"")
                    .put(piece.text)
                    .put("\",\"logprobs\":null,\"finish_reason\":")
                    .put(piece.finish_reason())
                    .put(",\"stop_reason\":null,\"prompt_token_ids\":");
                self.put_prompt_ids(buffer);
            }
            OpenAiRoute::Chat => {
                let (before, behind) = match (&self.extras.tool, piece.kind) {
                    (Some(_), _) => (CALL_PIECE, "\"}}]}"),
                    (None, PieceKind::Answer) => ("{\"index\":0,\"delta\":{\"content\":\"", "\"}"),
                    (None, PieceKind::Reasoning) => {
                        ("{\"index\":0,\"delta\":{\"reasoning\":\"", "\"}")
                    }
                };
                buffer
                    .put(before)
                    .put(piece.text)
                    .put(behind)
                    .put(",\"logprobs\":null,\"finish_reason\":")
                    .put(self.finish_reason(piece));
                if piece.last.is_some() {
                    buffer.put(",\"stop_reason\":null");
                }
            }
        }
        buffer.put(",\"token_ids\":");
        let _ = if self.wants_ids() { buffer.put_numbers(piece.ids) } else { buffer.put("null") };
        buffer.put("}]");
    }
}

impl AnswerWriter for Vllm {
    fn can_reason(&self) -> bool {
        self.route == OpenAiRoute::Chat
    }

    fn wants_ids(&self) -> bool {
        self.extras.prompt_ids.is_some()
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        if self.route == OpenAiRoute::Chat && !self.has_begun {
            self.role(piece.usage, buffer);
            self.has_begun = true;
            if let Some(tool) = &self.extras.tool {
                self.name_tool(tool, buffer);
            }
        }
        buffer.put("data: ").put(&self.opening);
        self.put_choice(piece, buffer);
        self.has_begun = true;
        self.put_running_usage(buffer, piece.usage);
        if piece.last.is_some() && self.extras.usage == RequestedUsage::Never {
            buffer.put(",\"system_fingerprint\":\"").put(FINGERPRINT).put("\"");
        }
        buffer.put("}").close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        if let Some(usage) = ending.usage.filter(|_| self.extras.usage != RequestedUsage::Never) {
            buffer.put("data: ").put(&self.opening).put("]");
            put_usage(buffer, usage);
            if ending.reasoning_tokens > 0 {
                buffer.put(",\"completion_tokens_details\":{\"reasoning_tokens\":");
                buffer.put_number(ending.reasoning_tokens).put("}");
            }
            buffer.put("},\"system_fingerprint\":\"").put(FINGERPRINT);
            buffer.put("\"}").close(SentKind::Usage, 0);
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let opening = self.opening.replace("chat.completion.chunk", "chat.completion");
        let reason = ending.reason.name();
        let ids = if piece.ids.is_empty() { json!(null) } else { json!(piece.ids) };
        let choice = match self.route {
            OpenAiRoute::Completions => json!({
                "index": 0, "text": piece.text, "logprobs": null, "finish_reason": reason,
                "stop_reason": null, "token_ids": ids, "prompt_logprobs": null, "prompt_token_ids": self.extras.prompt_ids,
            }),
            OpenAiRoute::Chat => json!({
                "index": 0, "message": self.message(piece), "logprobs": null,
                "finish_reason": self.finish_reason(piece).trim_matches('"'), "stop_reason": null,
                "token_ids": ids,
            }),
        };
        let reasoning = ending.reasoning_tokens;
        let details = (reasoning > 0).then(|| json!({ "reasoning_tokens": reasoning }));
        let usage = ending.usage.map(|usage| {
            json!({
                "prompt_tokens": usage.prompt_tokens, "total_tokens": usage.total(),
                "completion_tokens": usage.completion_tokens, "prompt_tokens_details": null,
                "completion_tokens_details": details,
            })
        });
        let body = format!(
            "{opening}{choice}],\"service_tier\":null,\"system_fingerprint\":\"{FINGERPRINT}\",\"usage\":{}}}",
            json!(usage)
        );
        Response::typed(200, "application/json", body)
    }
}
