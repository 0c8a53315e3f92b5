//! llama.cpp's server: its OpenAI routes and its own `/completion`.
//!
//! The role event has no content and shares an HTTP chunk with the first token; the finish event and
//! the usage event share one too; completions send usage unrequested; every answer ends with
//! timings. `/completion` ends at `"stop":true` without an announced end.

use base::Nanos;
use serde_json::{Value, json};
use tokometer_base as base;

use super::api_error::ApiError;
use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, Reason, RequestedLength};
use super::event_buffer::{EventBuffer, Joint};
use super::openai::{
    OpenAiAnswer, OpenAiRoute, RequestedUsage, delivery, hash_token_ids, is_set, whole_number,
};
use super::route::{Accepted, RequestContext, Response};
use crate::truth::SentKind;

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

fn usage(ending: &AnswerEnd) -> Option<Value> {
    let mut usage = ending.usage?.json();
    usage["prompt_tokens_details"] = json!({ "cached_tokens": 0 });
    Some(usage)
}

pub(super) struct LlamaCppOpenAi(OpenAiAnswer);

impl LlamaCppOpenAi {
    pub(super) fn new(answer: OpenAiAnswer) -> Self {
        Self(OpenAiAnswer { id: format!("chatcmpl-{}", answer.id), ..answer })
    }

    fn event(&self, choices: &[Value]) -> Value {
        let mut event = self.0.chunk(choices);
        event["system_fingerprint"] = "b0-tokometer-sim".into();
        event
    }

    fn text(text: &str, reason: Option<&str>) -> Value {
        json!({ "text": text, "index": 0, "logprobs": null, "finish_reason": reason })
    }
}

impl AnswerWriter for LlamaCppOpenAi {
    fn headers(&self) -> Vec<(&'static str, String)> {
        stream_headers()
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let delta = |delta: Value| json!({ "finish_reason": null, "index": 0, "delta": delta });
        if self.0.begins() && self.0.route == OpenAiRoute::Chat {
            let role = delta(json!({ "role": "assistant", "content": null }));
            buffer.event(&self.event(&[role]), SentKind::Role).joint = Joint::WithNext;
        }
        let choice = match self.0.route {
            OpenAiRoute::Completions => Self::text(piece.text, None),
            OpenAiRoute::Chat => delta(json!({ "content": piece.text })),
        };
        buffer.event(&self.event(&[choice]), SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let reason = Some(ending.reason.name());
        let choice = match self.0.route {
            OpenAiRoute::Completions => Self::text("", reason),
            OpenAiRoute::Chat => json!({ "finish_reason": reason, "index": 0, "delta": {} }),
        };
        let is_chat = self.0.route == OpenAiRoute::Chat;
        let has_usage = !is_chat || self.0.extras.usage != RequestedUsage::Never;
        let mut last = self.event(std::slice::from_ref(&choice));
        let mut kind = SentKind::Finish;
        if is_chat && has_usage {
            buffer.event(&last, SentKind::Finish).joint = Joint::WithNext;
            (last, kind) = (self.event(&[]), SentKind::Usage);
        }
        if has_usage {
            last["usage"] = json!(usage(ending));
        }
        last["timings"] = timings(ending);
        buffer.event(&last, kind);
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let reason = piece.finish_reason();
        let choice = match self.0.route {
            OpenAiRoute::Completions => Self::text(piece.text, reason),
            OpenAiRoute::Chat => {
                let message = json!({ "role": "assistant", "content": piece.text });
                json!({ "finish_reason": reason, "index": 0, "message": message })
            }
        };
        let mut body = self.0.whole(choice, usage(ending));
        body["system_fingerprint"] = "b0-tokometer-sim".into();
        body["timings"] = timings(ending);
        Response::json(200, &body)
    }
}

pub(super) fn completion(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let prompt = match body.get("prompt") {
        Some(Value::String(text)) => context.hash_text(text),
        Some(Value::Array(ids)) => hash_token_ids(ids, "prompt")?,
        _ => return Err(ApiError::field("prompt", "\"prompt\" must be a string or a list")),
    };
    // Minus one means without limit here.
    let asked = body.get("n_predict").and_then(Value::as_u64);
    let asked = match asked {
        Some(count) => Some(u32::try_from(count).unwrap_or(u32::MAX)),
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
        let stop_type = if ending.reason == Reason::Stop { "eos" } else { "limit" };
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
        let event = json!({
            "index": 0, "content": piece.text, "tokens": piece.ids, "stop": false, "id_slot": -1,
            "tokens_predicted": piece.usage.completion_tokens,
            "tokens_evaluated": piece.usage.prompt_tokens,
        });
        buffer.event(&event, SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        buffer.event(&self.last_event("", &[], ending), SentKind::Finish);
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        Response::json(200, &self.last_event(piece.text, piece.ids, ending))
    }
}
