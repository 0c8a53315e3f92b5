//! Text-generation-inference: `/generate`, `/generate_stream`, and its OpenAI routes with their quirks.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, ReportedUsage,
    RequestedLength,
};
use super::event_buffer::{EventBuffer, Hex};
use super::openai::{OpenAiRoute, RequestedUsage, delivery, is_set, whole_number};
use super::route::{Accepted, RequestContext, Response};
use crate::truth::SentKind;

const FINGERPRINT: &str = "3.3.6-dev0-native";

/// Headers of a streamed answer.
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

/// The native routes' common part.
fn read(
    context: &mut RequestContext<'_>,
    body: &Value,
    delivery: AnswerDelivery,
) -> Result<Accepted, ApiError> {
    let inputs = body.get("inputs").and_then(Value::as_str);
    let inputs = inputs.ok_or_else(|| ApiError::new(400, "`inputs` must be a text"))?;
    let prompt = context.hash_text(inputs);
    let parameters = body.get("parameters").unwrap_or(&Value::Null);
    let asked = whole_number(parameters, "max_new_tokens")?.or(Some(100));
    let ignores_eos = is_set(parameters, "ignore_eos_token");
    let total = u64::from(asked.unwrap_or(0)) + prompt.len() as u64;
    if total > u64::from(context.max_model_len) {
        let (max, given) = (context.max_model_len, prompt.len());
        let new = asked.unwrap_or(0);
        return Err(ApiError::new(
            400,
            format!(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {max}. Given: {given} `inputs` tokens and {new} `max_new_tokens`"
            ),
        ));
    }
    let length =
        context.length(prompt.len(), RequestedLength { limit: asked, least: 0, ignores_eos })?;
    let writer = TgiStream {
        characters: inputs.len(),
        prompt_tokens: u32::try_from(prompt.len()).unwrap_or(u32::MAX),
        text: String::new(),
        wants_details: is_set(parameters, "details"),
        index: 0,
    };
    Ok((EngineRequest { prompt, length, delivery, ..EngineRequest::default() }, Box::new(writer)))
}

pub(super) fn generate(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let delivery = delivery(body);
    read(context, body, delivery)
}

pub(super) fn generate_stream(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    read(context, body, AnswerDelivery::Streamed)
}

/// One event per token, counted from one; the last also carries the whole text.
struct TgiStream {
    characters: usize,
    prompt_tokens: u32,
    text: String,
    wants_details: bool,
    index: u32,
}

fn token(id: u32, text: &str) -> Value {
    json!({ "id": id, "text": text, "logprob": -1.0, "special": false })
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
            buffer.put("data: {\"index\":").put_number(self.index);
            buffer.put(",\"token\":{\"id\":").put_number(id);
            buffer.put(",\"text\":\"").put(text).put("\",\"logprob\":-1.0,\"special\":");
            buffer.put(if is_end_token { "true}" } else { "false}" });
            match piece.last.filter(|_| at + 1 == count) {
                Some(reason) => {
                    buffer.put(",\"generated_text\":\"").put(&self.text);
                    let details = if self.wants_details {
                        let reason = tgi_reason(reason.name());
                        let (generated, length) = (self.index, self.prompt_tokens);
                        format!(
                            "{{\"finish_reason\":\"{reason}\",\"generated_tokens\":{generated},\"seed\":null,\"input_length\":{length}}}"
                        )
                    } else {
                        "null".to_owned()
                    };
                    buffer.put("\",\"details\":").put(&details).put("}");
                }
                None => {
                    buffer.put(",\"generated_text\":null,\"details\":null}");
                }
            }
            buffer.close(SentKind::Text, 1);
        }
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let mut body = json!({ "generated_text": piece.text });
        let generated = piece.tokens + ending.end_tokens;
        if self.wants_details {
            let spoken = piece.ids.iter().copied().zip(words(piece.text));
            let mut tokens: Vec<Value> = spoken.map(|(id, text)| token(id, text)).collect();
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

struct TgiOpenAi {
    route: OpenAiRoute,
    characters: usize,
    created: u64,
    /// Quoted.
    model: String,
    usage: RequestedUsage,
}

pub(super) fn writer(
    context: &RequestContext<'_>,
    route: OpenAiRoute,
    usage: RequestedUsage,
) -> Box<dyn AnswerWriter> {
    let model = json!(context.config.model).to_string();
    let created = context.created;
    Box::new(TgiOpenAi { route, characters: 0, created, model, usage })
}

fn usage_json(usage: ReportedUsage) -> String {
    let (prompt, completion, total) = (usage.prompt_tokens, usage.completion_tokens, usage.total());
    format!(
        "{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{total}}}"
    )
}

impl TgiOpenAi {
    fn chat_event(&self, choices: &str, usage: &str) -> String {
        let (created, model) = (self.created, &self.model);
        format!(
            "data: {{\"object\":\"chat.completion.chunk\",\"id\":\"\",\"created\":{created},\"model\":{model},\"system_fingerprint\":\"{FINGERPRINT}\",\"choices\":[{choices}],\"usage\":{usage}}}"
        )
    }

    fn completion_event(&self, piece: &AnswerPiece<'_>) -> String {
        let (created, model, text) = (self.created, &self.model, piece.text);
        match piece.last {
            None => format!(
                "data: {{\"object\":\"text_completion\",\"id\":\"\",\"created\":{created},\"choices\":[{{\"index\":0,\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":\"\"}}],\"model\":{model},\"system_fingerprint\":\"{FINGERPRINT}\"}}"
            ),
            Some(reason) => {
                let (reason, usage) = (reason.name(), usage_json(piece.usage));
                format!(
                    "data: {{\"object\":\"text_completion\",\"id\":\"\",\"created\":{created},\"model\":{model},\"system_fingerprint\":\"{FINGERPRINT}\",\"choices\":[{{\"index\":0,\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":\"{reason}\"}}],\"usage\":{usage}}}"
                )
            }
        }
    }
}

impl AnswerWriter for TgiOpenAi {
    fn headers(&self) -> Vec<(&'static str, String)> {
        stream_headers(self.characters)
    }

    fn hex(&self) -> Hex {
        Hex::Upper
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let event = match self.route {
            OpenAiRoute::Completions => self.completion_event(piece),
            OpenAiRoute::Chat => {
                let (text, reason) = (piece.text, piece.finish_reason());
                let choice = format!(
                    "{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":{reason}}}"
                );
                self.chat_event(&choice, "null")
            }
        };
        buffer.put(&event).close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let wants_usage = self.route == OpenAiRoute::Chat && self.usage != RequestedUsage::Never;
        if let Some(usage) = ending.usage.filter(|_| wants_usage) {
            let event = self.chat_event("", &usage_json(usage));
            buffer.put(&event).close(SentKind::Usage, 0);
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let reason = ending.reason.name();
        let (object, choice) = match self.route {
            OpenAiRoute::Completions => {
                let choice = json!({ "index": 0, "text": piece.text, "logprobs": null, "finish_reason": reason });
                ("text_completion", choice)
            }
            OpenAiRoute::Chat => {
                let message = json!({ "role": "assistant", "content": piece.text });
                let choice = json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": reason });
                ("chat.completion", choice)
            }
        };
        let (created, model) = (self.created, &self.model);
        let usage = ending.usage.map_or_else(|| "null".to_owned(), usage_json);
        let body = format!(
            "{{\"object\":\"{object}\",\"id\":\"\",\"created\":{created},\"model\":{model},\"system_fingerprint\":\"{FINGERPRINT}\",\"choices\":[{choice}],\"usage\":{usage}}}"
        );
        Response::typed(200, "application/json", body)
    }
}
