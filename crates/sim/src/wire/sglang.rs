//! SGLang: its OpenAI routes, and its own `/generate`, which repeats the whole text in every event.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, Reason, ReportedUsage, RequestedLength,
};
use super::event_buffer::EventBuffer;
use super::openai::{
    OpenAiAnswer, OpenAiRoute, RequestedUsage, delivery, hash_token_ids, is_set, whole_number,
};
use super::route::{Accepted, RequestContext, Response};
use crate::truth::SentKind;

pub(super) struct SglangOpenAi(pub(super) OpenAiAnswer);

impl SglangOpenAi {
    fn usage(&self, usage: ReportedUsage) -> Value {
        let mut usage = usage.json();
        usage["reasoning_tokens"] = json!(0);
        if self.0.route == OpenAiRoute::Chat {
            usage["prompt_tokens_details"] = Value::Null;
            usage["completion_tokens_details"] = Value::Null;
        }
        usage
    }

    fn choice(name: &str, content: Value, reason: Option<&str>) -> Value {
        let mut choice = json!({
            "index": 0, "logprobs": null, "finish_reason": reason, "matched_stop": null,
        });
        choice[name] = content;
        choice
    }

    fn delta(&self, mut delta: Value, reason: Option<&str>) -> Value {
        delta["reasoning_content"] = Value::Null;
        self.0.chunk(&[Self::choice("delta", delta, reason)])
    }
}

impl AnswerWriter for SglangOpenAi {
    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let event = if self.0.route == OpenAiRoute::Completions {
            let choice = Self::choice("text", piece.text.into(), piece.finish_reason());
            let mut event = self.0.chunk(&[choice]);
            let is_counted = self.0.extras.usage == RequestedUsage::Continuous;
            event["usage"] = json!(is_counted.then(|| self.usage(piece.usage)));
            event
        } else {
            if self.0.begins() {
                let role = self.delta(json!({ "role": "assistant", "content": "" }), None);
                buffer.event(&role, SentKind::Role);
            }
            self.delta(json!({ "content": piece.text }), None)
        };
        buffer.event(&event, SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        if self.0.route == OpenAiRoute::Chat {
            let event = self.delta(json!({}), Some(ending.reason.name()));
            buffer.event(&event, SentKind::Finish);
        }
        if let Some(usage) = ending.usage.filter(|_| self.0.extras.usage != RequestedUsage::Never) {
            let mut event = self.0.chunk(&[]);
            event["usage"] = self.usage(usage);
            buffer.event(&event, SentKind::Usage);
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let reason = piece.finish_reason();
        let choice = match self.0.route {
            OpenAiRoute::Completions => Self::choice("text", piece.text.into(), reason),
            OpenAiRoute::Chat => {
                let message = json!({ "role": "assistant", "content": piece.text, "reasoning_content": null, "tool_calls": null });
                Self::choice("message", message, reason)
            }
        };
        let usage = ending.usage.map(|usage| self.usage(usage));
        Response::json(200, &self.0.whole(choice, usage))
    }
}

pub(super) fn generate(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let prompt = match (body.get("text"), body.get("input_ids")) {
        (Some(Value::String(text)), _) => context.hash_text(text),
        (_, Some(Value::Array(ids))) => hash_token_ids(ids, "input_ids")?,
        _ => return Err(ApiError::field("text", "either `text` or `input_ids` is needed")),
    };
    let sampling = body.get("sampling_params").unwrap_or(&Value::Null);
    let requested = RequestedLength {
        limit: whole_number(sampling, "max_new_tokens")?.or(Some(128)),
        least: whole_number(sampling, "min_new_tokens")?.unwrap_or(0),
        ignores_eos: is_set(sampling, "ignore_eos"),
    };
    let ask = EngineRequest {
        length: context.length(prompt.len(), requested)?,
        prompt,
        delivery: delivery(body),
        lora: context.lora(body.get("lora_path").and_then(Value::as_str)),
        ..EngineRequest::default()
    };
    let writer = SglangStream {
        id: context.request_id.clone(),
        created: context.created,
        returns_logprobs: is_set(body, "return_logprob"),
        text: String::new(),
        ids: Vec::new(),
    };
    Ok((ask, Box::new(writer)))
}

struct SglangStream {
    id: String,
    created: u64,
    returns_logprobs: bool,
    text: String,
    ids: Vec<u32>,
}

impl SglangStream {
    /// The object of an event, with everything said so far and this piece.
    fn object(&mut self, piece: &AnswerPiece<'_>) -> Value {
        self.text.push_str(piece.text);
        self.ids.extend_from_slice(piece.ids);
        let completion = piece.usage.completion_tokens;
        let reason = piece.last.map(|reason| match reason {
            Reason::Length => json!({ "type": "length", "length": completion }),
            Reason::Stop => json!({ "type": "stop", "matched": 0 }),
        });
        let mut meta = json!({
            "id": self.id, "finish_reason": reason, "prompt_tokens": piece.usage.prompt_tokens,
            "weight_version": "default", "num_retractions": 0, "reasoning_tokens": 0,
            "completion_tokens": completion, "cached_tokens": 0, "cached_tokens_details": null,
            "dp_rank": null,
        });
        if self.returns_logprobs {
            let pairs: Vec<Value> = self.ids.iter().map(|id| json!([-1.0, id, null])).collect();
            meta["input_token_logprobs"] = json!([]);
            meta["output_token_logprobs"] = json!(pairs);
            meta["output_token_logprobs_length"] = json!(self.ids.len());
        }
        if piece.last.is_some() {
            let version = json!({ "version": "default", "start": 0, "end": completion });
            meta["weight_versions"] = json!([version]);
            meta["e2e_latency"] = json!(0.0);
        }
        // Only the first message of an answer says when it was sent.
        if completion == piece.tokens {
            meta["response_sent_to_client_ts"] = json!(self.created as f64);
        }
        json!({ "text": self.text, "output_ids": self.ids, "meta_info": meta })
    }
}

impl AnswerWriter for SglangStream {
    fn wants_ids(&self) -> bool {
        true
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        buffer.event(&self.object(piece), SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, _: &AnswerEnd, buffer: &mut EventBuffer) {
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, _: &AnswerEnd) -> Response {
        Response::json(200, &self.object(piece))
    }
}
