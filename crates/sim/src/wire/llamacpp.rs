//! llama.cpp's server: its OpenAI routes and its own `/completion`.
//!
//! The role event has no content and shares an HTTP chunk with the first token; the finish event and
//! the usage event share one too; completions send usage unrequested; every answer ends with
//! timings. `/completion` ends at `"stop":true` without an announced end.

use base::Nanos;
use serde_json::{Value, json};
use tokometer_base as base;

use super::api_error::ApiError;
use super::ask::{
    AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, ReportedUsage, RequestedLength,
};
use super::event_buffer::EventBuffer;
use super::openai::{OpenAiRoute, RequestedUsage, delivery, is_set, token_id, whole_number};
use super::route::{Accepted, RequestContext, Response, hash_ids};
use crate::truth::SentKind;

const FINGERPRINT: &str = "b0-tokometer-sim";

fn stream_headers() -> Vec<(&'static str, String)> {
    vec![
        ("Server", "llama.cpp".to_owned()),
        ("X-Accel-Buffering", "no".to_owned()),
        ("Content-Type", "text/event-stream".to_owned()),
    ]
}

fn timings(ending: &AnswerEnd) -> Value {
    let usage = ending.usage.unwrap_or_default();
    let per = |span: Nanos, tokens: u32| span.as_millis_f64() / f64::from(tokens.max(1));
    let rate = |span: Nanos, tokens: u32| f64::from(tokens) / span.as_secs_f64().max(1e-9);
    let (prompt, predicted) = (usage.prompt_tokens, usage.completion_tokens);
    json!({
        "cache_n": 0,
        "prompt_n": prompt,
        "prompt_ms": ending.first_token.as_millis_f64(),
        "prompt_per_token_ms": per(ending.first_token, prompt),
        "prompt_per_second": rate(ending.first_token, prompt),
        "predicted_n": predicted,
        "predicted_ms": ending.decoding.as_millis_f64(),
        "predicted_per_token_ms": per(ending.decoding, predicted),
        "predicted_per_second": rate(ending.decoding, predicted),
    })
}

fn usage_json(usage: ReportedUsage) -> Value {
    let (completion, prompt) = (usage.completion_tokens, usage.prompt_tokens);
    json!({
        "completion_tokens": completion, "prompt_tokens": prompt, "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": 0 },
    })
}

struct LlamaCppOpenAi {
    route: OpenAiRoute,
    /// Everything after the choices, up to the closing brace.
    closing: String,
    usage: RequestedUsage,
    has_begun: bool,
}

pub(super) fn writer(
    context: &RequestContext<'_>,
    route: OpenAiRoute,
    model: &str,
    usage: RequestedUsage,
) -> Box<dyn AnswerWriter> {
    let id = json!(format!("chatcmpl-{}", context.request_id));
    let (created, model) = (context.created, json!(model));
    let closing = match route {
        OpenAiRoute::Completions => format!(
            "],\"created\":{created},\"model\":{model},\"system_fingerprint\":\"{FINGERPRINT}\",\"object\":\"text_completion\",\"id\":{id}"
        ),
        OpenAiRoute::Chat => format!(
            "],\"created\":{created},\"id\":{id},\"model\":{model},\"system_fingerprint\":\"{FINGERPRINT}\",\"object\":\"chat.completion.chunk\""
        ),
    };
    Box::new(LlamaCppOpenAi { route, closing, usage, has_begun: false })
}

impl LlamaCppOpenAi {
    fn put_event(&self, buffer: &mut EventBuffer, choice: &str, extra: &str) {
        buffer.put("data: {\"choices\":[").put(choice).put(&self.closing);
        buffer.put(extra).put("}");
    }
}

impl AnswerWriter for LlamaCppOpenAi {
    fn headers(&self) -> Vec<(&'static str, String)> {
        stream_headers()
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let text = piece.text;
        let choice = match self.route {
            OpenAiRoute::Completions => format!(
                "{{\"text\":\"{text}\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}}"
            ),
            OpenAiRoute::Chat => {
                if is_first {
                    let role = "{\"finish_reason\":null,\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null}}";
                    self.put_event(buffer, role, "");
                    buffer.close_joined(SentKind::Role, 0);
                }
                format!(
                    "{{\"finish_reason\":null,\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}"
                )
            }
        };
        self.put_event(buffer, &choice, "");
        buffer.close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let (reason, timings) = (ending.reason.name(), timings(ending));
        let usage = ending.usage.map_or(json!(null), usage_json);
        let figures = format!(",\"usage\":{usage},\"timings\":{timings}");
        match self.route {
            OpenAiRoute::Completions => {
                let choice = format!(
                    "{{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"{reason}\"}}"
                );
                self.put_event(buffer, &choice, &figures);
                buffer.close(SentKind::Finish, 0);
            }
            OpenAiRoute::Chat => {
                let choice =
                    format!("{{\"finish_reason\":\"{reason}\",\"index\":0,\"delta\":{{}}}}");
                if self.usage == RequestedUsage::Never {
                    self.put_event(buffer, &choice, &format!(",\"timings\":{timings}"));
                    buffer.close(SentKind::Finish, 0);
                } else {
                    self.put_event(buffer, &choice, "");
                    buffer.close_joined(SentKind::Finish, 0);
                    self.put_event(buffer, "", &figures);
                    buffer.close(SentKind::Usage, 0);
                }
            }
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let (reason, timings) = (ending.reason.name(), timings(ending));
        let choice = match self.route {
            OpenAiRoute::Completions => {
                json!({ "text": piece.text, "index": 0, "logprobs": null, "finish_reason": reason })
            }
            OpenAiRoute::Chat => {
                let message = json!({ "role": "assistant", "content": piece.text });
                json!({ "finish_reason": reason, "index": 0, "message": message })
            }
        };
        let closing = self.closing.replace("chat.completion.chunk", "chat.completion");
        let usage = ending.usage.map_or(json!(null), usage_json);
        let body =
            format!("{{\"choices\":[{choice}{closing},\"usage\":{usage},\"timings\":{timings}}}");
        Response::typed(200, "application/json; charset=utf-8", body)
    }
}

/// The native route.
pub(super) fn completion(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let prompt = match body.get("prompt") {
        Some(Value::String(text)) => context.hash_text(text),
        Some(Value::Array(ids)) => {
            let ids = ids.iter().map(token_id).collect::<Option<Vec<u32>>>();
            let ids = ids.ok_or_else(|| ApiError::field("prompt", "token ids are needed"))?;
            hash_ids(&ids)
        }
        _ => return Err(ApiError::field("prompt", "\"prompt\" must be a string or a list")),
    };
    // Minus one means without limit here.
    let asked = body
        .get("n_predict")
        .and_then(Value::as_u64)
        .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let asked = match asked {
        Some(count) => Some(count),
        None => whole_number(body, "max_tokens")?,
    };
    let requested =
        RequestedLength { limit: asked, least: 0, ignores_eos: is_set(body, "ignore_eos") };
    let length = context.length(prompt.len(), requested)?;
    let delivery = delivery(body);
    let writer = LlamaCppStream { model: context.config.model.clone() };
    Ok((EngineRequest { prompt, length, delivery, ..EngineRequest::default() }, Box::new(writer)))
}

struct LlamaCppStream {
    model: String,
}

impl LlamaCppStream {
    fn last_event(&self, text: &str, ids: &[u32], ending: &AnswerEnd) -> Value {
        let usage = ending.usage.unwrap_or_default();
        let stop_type = if ending.reason.name() == "stop" { "eos" } else { "limit" };
        json!({
            "index": 0, "content": text, "tokens": ids, "id_slot": 0, "stop": true, "model": self.model,
            "tokens_predicted": usage.completion_tokens, "tokens_evaluated": usage.prompt_tokens,
            "generation_settings": {}, "prompt": "", "has_new_line": false, "truncated": false,
            "stop_type": stop_type, "stopping_word": "",
            "tokens_cached": usage.total().saturating_sub(1), "timings": timings(ending),
        })
    }
}

impl AnswerWriter for LlamaCppStream {
    fn headers(&self) -> Vec<(&'static str, String)> {
        stream_headers()
    }

    fn wants_ids(&self) -> bool {
        true
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        buffer.put("data: {\"index\":0,\"content\":\"").put(piece.text);
        buffer.put("\",\"tokens\":").put_numbers(piece.ids);
        buffer.put(",\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":");
        buffer.put_number(piece.usage.completion_tokens).put(",\"tokens_evaluated\":");
        buffer.put_number(piece.usage.prompt_tokens).put("}").close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let event = self.last_event("", &[], ending);
        buffer.put(&format!("data: {event}")).close(SentKind::Finish, 0);
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        Response::json(200, &self.last_event(piece.text, piece.ids, ending))
    }
}
