//! The OpenAI routes as vLLM implements them.
//!
//! The finish reason rides on the last event with text; usage has an event of its own with no choices;
//! chat begins with a role event that leaves together with the first token.

use serde_json::json;

use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, ReportedUsage};
use super::openai::{OpenAiRoute, RequestedExtras, RequestedUsage};
use super::route::{Desk, Response};
use super::sheet::Sheet;
use crate::truth::SentKind;

const FINGERPRINT: &str = "tokometer-sim";

/// Headers of a streamed answer.
pub(super) fn headers() -> Vec<(&'static str, String)> {
    vec![
        ("server", "uvicorn".to_owned()),
        ("content-type", "text/event-stream; charset=utf-8".to_owned()),
        ("vary", "Origin".to_owned()),
    ]
}

struct Vllm {
    route: OpenAiRoute,
    /// `{"id":…,"object":…,"created":…,"model":…,"choices":[`
    opening: String,
    extras: RequestedExtras,
    has_begun: bool,
}

pub(super) fn script(
    desk: &Desk<'_>,
    route: OpenAiRoute,
    model: &str,
    extras: RequestedExtras,
) -> Box<dyn AnswerWriter> {
    let (prefix, object) = match route {
        OpenAiRoute::Completions => ("cmpl", "text_completion"),
        OpenAiRoute::Chat => ("chatcmpl", "chat.completion.chunk"),
    };
    let id = json!(format!("{prefix}-{}", desk.request_id));
    let (created, model) = (desk.created, json!(model));
    let opening = format!(
        "{{\"id\":{id},\"object\":\"{object}\",\"created\":{created},\"model\":{model},\"choices\":["
    );
    Box::new(Vllm { route, opening, extras, has_begun: false })
}

fn put_usage(sheet: &mut Sheet, usage: ReportedUsage) {
    sheet
        .put(",\"usage\":{\"prompt_tokens\":")
        .put_number(usage.prompt_tokens)
        .put(",\"total_tokens\":")
        .put_number(usage.total())
        .put(",\"completion_tokens\":")
        .put_number(usage.completion_tokens);
}

impl Vllm {
    /// Usage in an event that is not about usage.
    fn put_running_usage(&self, sheet: &mut Sheet, usage: ReportedUsage) {
        if self.extras.usage == RequestedUsage::Continuous {
            put_usage(sheet, usage);
            let details = match self.route {
                OpenAiRoute::Completions => "}",
                OpenAiRoute::Chat => ",\"completion_tokens_details\":null}",
            };
            sheet.put(details);
        }
    }

    /// The prompt's ids, in the first event only.
    fn put_prompt_ids(&self, sheet: &mut Sheet) {
        let _ = match &self.extras.prompt_ids {
            Some(ids) if !self.has_begun => sheet.put_numbers(ids),
            _ => sheet.put("null"),
        };
    }

    fn role(&self, usage: ReportedUsage, sheet: &mut Sheet) {
        sheet.put("data: ").put(&self.opening).put(
            "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]",
        );
        self.put_running_usage(sheet, ReportedUsage { completion_tokens: 0, ..usage });
        sheet.put(",\"prompt_token_ids\":");
        self.put_prompt_ids(sheet);
        sheet.put(",\"prompt_text\":null}").close(SentKind::Role, 0);
    }

    fn put_choice(&self, piece: &AnswerPiece<'_>, sheet: &mut Sheet) {
        match self.route {
            OpenAiRoute::Completions => {
                sheet
                    .put("{\"index\":0,\"text\":\"")
                    .put(piece.text)
                    .put("\",\"logprobs\":null,\"finish_reason\":")
                    .put(piece.finish_reason())
                    .put(",\"stop_reason\":null,\"prompt_token_ids\":");
                self.put_prompt_ids(sheet);
            }
            OpenAiRoute::Chat => {
                sheet
                    .put("{\"index\":0,\"delta\":{\"content\":\"")
                    .put(piece.text)
                    .put("\"},\"logprobs\":null,\"finish_reason\":")
                    .put(piece.finish_reason());
                if piece.last.is_some() {
                    sheet.put(",\"stop_reason\":null");
                }
            }
        }
        sheet.put(",\"token_ids\":");
        let _ = if self.wants_ids() { sheet.put_numbers(piece.ids) } else { sheet.put("null") };
        sheet.put("}]");
    }
}

impl AnswerWriter for Vllm {
    fn headers(&self) -> Vec<(&'static str, String)> {
        headers()
    }

    fn wants_ids(&self) -> bool {
        self.extras.prompt_ids.is_some()
    }

    fn speak(&mut self, piece: &AnswerPiece<'_>, sheet: &mut Sheet) {
        if self.route == OpenAiRoute::Chat && !self.has_begun {
            self.role(piece.usage, sheet);
            self.has_begun = true;
        }
        sheet.put("data: ").put(&self.opening);
        self.put_choice(piece, sheet);
        self.has_begun = true;
        self.put_running_usage(sheet, piece.usage);
        if piece.last.is_some() && self.extras.usage == RequestedUsage::Never {
            sheet.put(",\"system_fingerprint\":\"").put(FINGERPRINT).put("\"");
        }
        sheet.put("}").close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, ending: &AnswerEnd, sheet: &mut Sheet) {
        if let Some(usage) = ending.usage.filter(|_| self.extras.usage != RequestedUsage::Never) {
            sheet.put("data: ").put(&self.opening).put("]");
            put_usage(sheet, usage);
            sheet.put("},\"system_fingerprint\":\"").put(FINGERPRINT);
            sheet.put("\"}").close(SentKind::Usage, 0);
        }
        sheet.done();
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
                "index": 0, "message": { "role": "assistant", "content": piece.text, "tool_calls": [] },
                "logprobs": null, "finish_reason": reason, "stop_reason": null, "token_ids": ids,
            }),
        };
        let usage = ending.usage.map(|usage| {
            json!({
                "prompt_tokens": usage.prompt_tokens, "total_tokens": usage.total(),
                "completion_tokens": usage.completion_tokens, "prompt_tokens_details": null,
            })
        });
        let body = format!(
            "{opening}{choice}],\"service_tier\":null,\"system_fingerprint\":\"{FINGERPRINT}\",\"usage\":{}}}",
            json!(usage)
        );
        Response::typed(200, "application/json", body)
    }
}
