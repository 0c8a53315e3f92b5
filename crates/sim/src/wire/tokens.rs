//! `/tokenize` and `/detokenize`, as vLLM has them.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::openai;
use super::route::{RequestContext, Response};
use crate::vocabulary::{decode, encode};

pub(super) fn tokenize(context: &RequestContext<'_>, body: &Value) -> Result<Response, ApiError> {
    let ids = match (body.get("prompt"), body.get("messages"), body.get("content")) {
        (Some(Value::String(prompt)), _, _) | (None, None, Some(Value::String(prompt))) => {
            encode(prompt)
        }
        (None, Some(messages), _) => encode(&openai::conversation_text(messages)?),
        _ => return Err(ApiError::field("prompt", "a prompt or messages are needed")),
    };
    let count = ids.len();
    Ok(Response::json(
        200,
        &json!({ "count": count, "max_model_len": context.max_model_len, "tokens": ids, "token_strs": null }),
    ))
}

pub(super) fn detokenize(body: &Value) -> Result<Response, ApiError> {
    let ids = body
        .get("tokens")
        .and_then(Value::as_array)
        .and_then(|ids| openai::token_ids(ids))
        .ok_or_else(|| ApiError::field("tokens", "a list of token ids is needed"))?;
    Ok(Response::json(200, &json!({ "prompt": decode(&ids) })))
}
