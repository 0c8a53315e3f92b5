//! Text-generation-inference: `/generate`, `/generate_stream`, and its OpenAI routes with their quirks.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, ReportedUsage,
    RequestedLength,
};
use super::event_buffer::{EventBuffer, Hex};
use super::openai::{OpenAiAnswer, OpenAiRoute, RequestedUsage, is_set, whole_number};
use super::route::{Accepted, RequestContext, Response};
use crate::truth::SentKind;

const FINGERPRINT: &str = "3.3.6-dev0-native";

pub(super) fn stream_headers(characters: usize) -> Vec<(&'static str, String)> {
    vec![
        ("content-type", "text/event-stream".to_owned()),
        ("cache-control", "no-cache".to_owned()),
        ("x-compute-type", "gpu+optimized".to_owned()),
        ("x-compute-characters", characters.to_string()),
        ("x-accel-buffering", "no".to_owned()),
        ("access-control-allow-origin", "*".to_owned()),
    ]
}

pub(super) fn info(context: &RequestContext<'_>) -> Value {
    json!({
        "model_id": context.config.model, "model_sha": null, "model_pipeline_tag": "text-generation",
        "max_concurrent_requests": 1_000_000, "max_best_of": 2, "max_stop_sequences": 4,
        "max_input_tokens": context.max_model_len.saturating_sub(1), "max_total_tokens": context.max_model_len,
        "validation_workers": 2, "max_client_batch_size": 4, "router": "text-generation-router",
        "version": FINGERPRINT, "sha": null, "docker_label": null,
    })
}

pub(super) fn generate(
    context: &mut RequestContext<'_>,
    body: &Value,
    delivery: AnswerDelivery,
) -> Result<Accepted, ApiError> {
    let inputs = body.get("inputs").and_then(Value::as_str);
    let inputs = inputs.ok_or_else(|| ApiError::new(400, "`inputs` must be a text"))?;
    let prompt = context.hash_text(inputs);
    let parameters = body.get("parameters").unwrap_or(&Value::Null);
    let asked = whole_number(parameters, "max_new_tokens")?.unwrap_or(100);
    let (max, given) = (context.max_model_len, prompt.len());
    if u64::from(asked) + given as u64 > u64::from(max) {
        let message = format!(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {max}. Given: {given} `inputs` tokens and {asked} `max_new_tokens`"
        );
        return Err(ApiError::new(400, message));
    }
    let ignores_eos = is_set(parameters, "ignore_eos_token");
    let requested = RequestedLength { limit: Some(asked), least: 0, ignores_eos };
    let length = context.length(prompt.len(), requested)?;
    let writer = TgiStream {
        characters: inputs.len(),
        prompt_tokens: u32::try_from(prompt.len()).unwrap_or(u32::MAX),
        text: String::new(),
        wants_details: is_set(parameters, "details"),
        index: 0,
    };
    Ok((EngineRequest { prompt, length, delivery, ..EngineRequest::default() }, Box::new(writer)))
}

/// One event per token, counted from one; the last also carries the whole text.
struct TgiStream {
    characters: usize,
    prompt_tokens: u32,
    text: String,
    wants_details: bool,
    index: u32,
}

/// Each token's text: a blank and a word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices(' ').map(|(at, _)| at);
    let ends = text.match_indices(' ').skip(1).map(|(at, _)| at).chain([text.len()]);
    starts.zip(ends).map(|(start, end)| &text[start..end])
}

impl AnswerWriter for TgiStream {
    fn headers(&self) -> Vec<(&'static str, String)> {
        stream_headers(self.characters)
    }

    fn wants_ids(&self) -> bool {
        true
    }

    fn hex(&self) -> Hex {
        Hex::Upper
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        self.text.push_str(piece.text);
        // The token that ends an answer has an event of its own, without text. Like every other it is
        // counted by the server.
        let is_end_token = piece.tokens == 0;
        let end_token = is_end_token.then_some((0, ""));
        let tokens = piece.ids.iter().copied().zip(words(piece.text)).chain(end_token);
        let count = piece.ids.len().max(1);
        for (at, (id, text)) in tokens.enumerate() {
            self.index += 1;
            let last = piece.finish_reason().filter(|_| at + 1 == count);
            let details = last.filter(|_| self.wants_details).map(|reason| {
                json!({
                    "finish_reason": tgi_reason(reason), "generated_tokens": self.index,
                    "seed": null, "input_length": self.prompt_tokens,
                })
            });
            let token = json!({ "id": id, "text": text, "logprob": -1.0, "special": is_end_token });
            let event = json!({
                "index": self.index, "token": token, "generated_text": last.map(|_| &self.text),
                "details": details,
            });
            buffer.event(&event, SentKind::Text).tokens = 1;
        }
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let mut body = json!({ "generated_text": piece.text });
        let generated = piece.tokens + ending.end_tokens;
        if self.wants_details {
            let token =
                |(id, text)| json!({ "id": id, "text": text, "logprob": -1.0, "special": false });
            let mut tokens: Vec<Value> =
                piece.ids.iter().zip(words(piece.text)).map(token).collect();
            if ending.end_tokens > 0 {
                tokens.push(json!({ "id": 0, "text": "", "logprob": -1.0, "special": true }));
            }
            body["details"] = json!({
                "finish_reason": tgi_reason(ending.reason.name()), "generated_tokens": generated,
                "seed": null, "prefill": [], "tokens": tokens,
            });
        }
        let mut response = Response::json(200, &body);
        let total = (ending.first_token + ending.decoding).as_millis_f64();
        response.headers.extend([
            ("x-compute-type", "gpu+optimized".to_owned()),
            ("x-total-time", format!("{total:.0}")),
            ("x-prompt-tokens", self.prompt_tokens.to_string()),
            ("x-generated-tokens", generated.to_string()),
        ]);
        response
    }
}

/// This server calls an answer that ended by itself by its token.
fn tgi_reason(reason: &str) -> &str {
    if reason == "stop" { "eos_token" } else { reason }
}

pub(super) struct TgiOpenAi(OpenAiAnswer);

impl TgiOpenAi {
    /// The model is the server's, whatever the request names.
    pub(super) fn new(context: &RequestContext<'_>, answer: OpenAiAnswer) -> Self {
        Self(OpenAiAnswer { id: String::new(), model: context.config.model.clone(), ..answer })
    }

    fn event(&self, choices: &[Value]) -> Value {
        let mut event = self.0.chunk(choices);
        event["system_fingerprint"] = FINGERPRINT.into();
        event
    }

    fn choice(name: &str, content: Value, reason: Option<&str>) -> Value {
        let mut choice = json!({ "index": 0, "logprobs": null, "finish_reason": reason });
        choice[name] = content;
        choice
    }
}

impl AnswerWriter for TgiOpenAi {
    fn headers(&self) -> Vec<(&'static str, String)> {
        stream_headers(0)
    }

    fn hex(&self) -> Hex {
        Hex::Upper
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let mut event = if self.0.route == OpenAiRoute::Completions {
            let reason = Some(piece.finish_reason().unwrap_or_default());
            self.event(&[Self::choice("text", piece.text.into(), reason)])
        } else {
            let delta = json!({ "role": "assistant", "content": piece.text });
            self.event(&[Self::choice("delta", delta, piece.finish_reason())])
        };
        if self.0.route == OpenAiRoute::Chat {
            event["usage"] = Value::Null;
        } else if piece.last.is_some() {
            event["usage"] = piece.usage.json();
        }
        buffer.event(&event, SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let wants_usage =
            self.0.route == OpenAiRoute::Chat && self.0.extras.usage != RequestedUsage::Never;
        if let Some(usage) = ending.usage.filter(|_| wants_usage) {
            let mut event = self.event(&[]);
            event["usage"] = usage.json();
            buffer.event(&event, SentKind::Usage);
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let (name, content) = match self.0.route {
            OpenAiRoute::Completions => ("text", json!(piece.text)),
            OpenAiRoute::Chat => ("message", json!({ "role": "assistant", "content": piece.text })),
        };
        let choice = Self::choice(name, content, piece.finish_reason());
        let mut body = self.0.whole(choice, ending.usage.map(ReportedUsage::json));
        body["system_fingerprint"] = FINGERPRINT.into();
        Response::json(200, &body)
    }
}
