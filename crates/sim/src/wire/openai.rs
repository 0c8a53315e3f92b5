//! The bodies of OpenAI's completions and chat routes, which all flavours read alike.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{AnswerDelivery, EngineRequest, LengthBounds, RequestedLength};
use super::constraint::CalledTool;
use super::route::{RequestContext, hash_ids};

/// Tokens that a chat template adds to each message, and before the answer: hashes that no text has.
const TEMPLATE_TOKENS: [u64; 4] = [1, 2, 3, 4];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestedUsage {
    Never,
    AtEnd,
    Continuous,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestedExtras {
    pub(super) usage: RequestedUsage,
    /// Ids of the prompt, when token ids are wanted.
    pub(super) prompt_ids: Option<Vec<u32>>,
    pub(super) tool: Option<CalledTool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenAiRoute {
    Completions,
    Chat,
}

/// What an answer on one of the two routes says about itself.
pub(super) struct OpenAiAnswer {
    pub(super) route: OpenAiRoute,
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) extras: RequestedExtras,
    pub(super) has_begun: bool,
}

impl OpenAiAnswer {
    pub(super) fn chunk(&self, choices: &[Value]) -> Value {
        let object = match self.route {
            OpenAiRoute::Completions => "text_completion",
            OpenAiRoute::Chat => "chat.completion.chunk",
        };
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
            "choices": choices,
        })
    }

    pub(super) fn whole(&self, choice: Value, usage: Option<Value>) -> Value {
        let mut body = self.chunk(&[choice]);
        if self.route == OpenAiRoute::Chat {
            body["object"] = "chat.completion".into();
        }
        body["usage"] = usage.unwrap_or_default();
        body
    }

    /// Whether nothing of it was written before this call.
    pub(super) fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }
}

/// A field of a body as a whole number; `None` where it is absent. An error response names another value.
pub(super) fn whole_number(body: &Value, field: &str) -> Result<Option<u32>, ApiError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let api_error = || ApiError::field(field, format!("`{field}` must be a whole number"));
            number.map(Some).ok_or_else(api_error)
        }
    }
}

pub(super) fn is_set(body: &Value, field: &str) -> bool {
    body.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// Token ids; `None` where one of the values is none.
pub(super) fn token_ids(values: &[Value]) -> Option<Vec<u32>> {
    values.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

/// One hash per token id of a field.
pub(super) fn hash_token_ids(values: &[Value], field: &str) -> Result<Vec<u64>, ApiError> {
    let ids = token_ids(values).ok_or_else(|| ApiError::field(field, "token ids are needed"))?;
    Ok(hash_ids(&ids))
}

pub(super) fn read(
    context: &mut RequestContext<'_>,
    body: &Value,
    route: OpenAiRoute,
) -> Result<(EngineRequest, RequestedExtras), ApiError> {
    let wants_ids = is_set(body, "return_token_ids");
    let (prompt, ids) = match route {
        OpenAiRoute::Completions => {
            read_prompt(context, body.get("prompt").unwrap_or(&Value::Null))?
        }
        OpenAiRoute::Chat => {
            let messages = body.get("messages").unwrap_or(&Value::Null);
            (hash_conversation(context, messages)?, None)
        }
    };
    let prompt_ids = wants_ids.then(|| {
        ids.unwrap_or_else(|| {
            // Without a vocabulary of the model's own the ids of a template are made up.
            prompt.iter().map(|hash| u32::try_from(hash % 100_000).unwrap_or(0)).collect()
        })
    });
    let usage = match body.get("stream_options") {
        Some(options) if is_set(options, "continuous_usage_stats") => RequestedUsage::Continuous,
        Some(options) if is_set(options, "include_usage") => RequestedUsage::AtEnd,
        _ => RequestedUsage::Never,
    };
    let length = read_length(context, body, route, prompt.len())?;
    let ask = request(context, body, prompt, length);
    Ok((ask, RequestedExtras { usage, prompt_ids, tool: None }))
}

pub(super) fn delivery(body: &Value) -> AnswerDelivery {
    if is_set(body, "stream") { AnswerDelivery::Streamed } else { AnswerDelivery::Whole }
}

/// A conversation with the length that its route read from the body.
pub(super) fn read_conversation(
    context: &mut RequestContext<'_>,
    body: &Value,
    messages: Vec<Value>,
    requested: RequestedLength,
) -> Result<EngineRequest, ApiError> {
    let prompt = hash_conversation(context, &Value::Array(messages))?;
    let length = context.length(prompt.len(), requested)?;
    Ok(request(context, body, prompt, length))
}

fn request(
    context: &RequestContext<'_>,
    body: &Value,
    prompt: Vec<u64>,
    length: LengthBounds,
) -> EngineRequest {
    let priority = body.get("priority").and_then(Value::as_i64).unwrap_or(0);
    EngineRequest {
        prompt,
        length,
        delivery: delivery(body),
        priority: i32::try_from(priority).unwrap_or(0),
        lora: context.lora(body.get("model").and_then(Value::as_str)),
        constrained: None,
    }
}

fn read_length(
    context: &RequestContext<'_>,
    body: &Value,
    route: OpenAiRoute,
    prompt_tokens: usize,
) -> Result<LengthBounds, ApiError> {
    let asked = match whole_number(body, "max_completion_tokens")? {
        Some(limit) => Some(limit),
        None => whole_number(body, "max_tokens")?,
    };
    let fallback = match route {
        OpenAiRoute::Completions => Some(16),
        OpenAiRoute::Chat => None,
    };
    let requested = RequestedLength {
        limit: asked.or(fallback),
        least: whole_number(body, "min_tokens")?.unwrap_or(0),
        ignores_eos: is_set(body, "ignore_eos"),
    };
    context.length(prompt_tokens, requested)
}

/// A prompt as text, as token ids, or as a list with one of either.
fn read_prompt(
    context: &mut RequestContext<'_>,
    prompt: &Value,
) -> Result<(Vec<u64>, Option<Vec<u32>>), ApiError> {
    let bad = || ApiError::field("prompt", "`prompt` must be one text or one list of token ids");
    match prompt {
        Value::String(text) => Ok((context.hash_text(text), None)),
        Value::Array(items) => match items.as_slice() {
            [one @ (Value::String(_) | Value::Array(_))] => read_prompt(context, one),
            [] => Err(bad()),
            _ => {
                let ids = token_ids(items).ok_or_else(bad)?;
                Ok((hash_ids(&ids), Some(ids)))
            }
        },
        _ => Err(bad()),
    }
}

fn content_texts(message: &Value) -> Result<Vec<&str>, ApiError> {
    match message.get("content") {
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(parts)) => {
            Ok(parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect())
        }
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(_) => Err(ApiError::field("messages", "`content` must be a text or a list of parts")),
    }
}

fn messages_of(messages: &Value) -> Result<&[Value], ApiError> {
    let list = messages.as_array().map(Vec::as_slice).filter(|list| !list.is_empty());
    list.ok_or_else(|| ApiError::field("messages", "Expected 'messages' to be an array"))
}

/// One hash per token of a conversation in a plain chat template: a mark, the role and a line end
/// before each message, an end mark after it, and the opening of the answer.
pub(super) fn hash_conversation(
    context: &mut RequestContext<'_>,
    messages: &Value,
) -> Result<Vec<u64>, ApiError> {
    let mut hashes = Vec::new();
    for message in messages_of(messages)? {
        hashes.extend_from_slice(&TEMPLATE_TOKENS[..2]);
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        hashes.push(crate::vocabulary::fingerprint(role.as_bytes()));
        for text in content_texts(message)? {
            context.vocabulary.hash_text(text, &mut hashes);
        }
        hashes.push(TEMPLATE_TOKENS[2]);
    }
    hashes.extend_from_slice(&TEMPLATE_TOKENS[..2]);
    hashes.push(crate::vocabulary::fingerprint(b"assistant"));
    Ok(hashes)
}

pub(super) fn conversation_text(messages: &Value) -> Result<String, ApiError> {
    let mut text = String::new();
    for message in messages_of(messages)? {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        let content = content_texts(message)?.concat();
        let _ = write!(text, "<|im_start|>{role}\n{content}<|im_end|>\n");
    }
    text.push_str("<|im_start|>assistant\n");
    Ok(text)
}
