//! DeepSpeed-MII's plain answer: not streamed, a list of texts.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, RequestedLength,
};
use super::event_buffer::EventBuffer;
use super::openai::whole_number;
use super::route::{Accepted, RequestContext, Response};

pub(super) fn generate(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let prompt = body.get("prompt").or_else(|| body.get("prompts")).and_then(Value::as_str);
    let prompt = prompt.ok_or_else(|| ApiError::field("prompt", "`prompt` must be a text"))?;
    let prompt = context.hash_text(prompt);
    let asked = match whole_number(body, "max_tokens")? {
        Some(limit) => Some(limit),
        None => whole_number(body, "max_new_tokens")?,
    };
    let requested = RequestedLength { limit: asked.or(Some(128)), least: 0, ignores_eos: true };
    let length = context.length(prompt.len(), requested)?;
    let ask = EngineRequest {
        prompt,
        length,
        delivery: AnswerDelivery::Whole,
        ..EngineRequest::default()
    };
    Ok((ask, Box::new(Mii)))
}

struct Mii;

impl AnswerWriter for Mii {
    fn headers(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn write_piece(&mut self, _: &AnswerPiece<'_>, _: &mut EventBuffer) {}

    fn end(&mut self, _: &AnswerEnd, _: &mut EventBuffer) {}

    fn whole(&mut self, piece: &AnswerPiece<'_>, _: &AnswerEnd) -> Response {
        Response::json(200, &json!({ "text": [piece.text] }))
    }
}
