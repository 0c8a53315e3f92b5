//! TensorRT-LLM behind Triton's generate extension: `text_output` per event, no announced end.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, RequestedLength,
};
use super::event_buffer::EventBuffer;
use super::openai::{is_set, whole_number};
use super::route::{Accepted, RequestContext, Response};
use crate::truth::SentKind;

pub(super) fn generate(
    context: &mut RequestContext<'_>,
    body: &Value,
    path: &str,
) -> Result<Accepted, ApiError> {
    let text = body.get("text_input").and_then(Value::as_str);
    let text = text.ok_or_else(|| ApiError::field("text_input", "`text_input` must be a text"))?;
    let prompt = context.hash_text(text);
    let asked = whole_number(body, "max_tokens")?.or(Some(16));
    // A client that wants the whole length asks for a least length and an end token that no
    // vocabulary has.
    let least = whole_number(body, "min_length")?.unwrap_or(0);
    let requested =
        RequestedLength { limit: asked, least, ignores_eos: body.get("end_id").is_some() };
    let length = context.length(prompt.len(), requested)?;
    let is_streamed =
        path.ends_with("_stream") && body.get("stream").is_none_or(|_| is_set(body, "stream"));
    let delivery = if is_streamed { AnswerDelivery::Streamed } else { AnswerDelivery::Whole };
    Ok((EngineRequest { prompt, length, delivery, ..EngineRequest::default() }, Box::new(Triton)))
}

struct Triton;

fn event(text: &str) -> Value {
    json!({
        "context_logits": 0.0, "cum_log_probs": 0.0, "generation_logits": 0.0, "model_name": "ensemble",
        "model_version": "1", "output_log_probs": [0.0], "sequence_end": false, "sequence_id": 0,
        "sequence_start": false, "text_output": text,
    })
}

impl AnswerWriter for Triton {
    fn headers(&self) -> Vec<(&'static str, String)> {
        vec![("content-type", "text/event-stream; charset=utf-8".to_owned())]
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        buffer.put(&format!("data: {}", event(piece.text))).close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, _: &AnswerEnd, _: &mut EventBuffer) {}

    fn whole(&mut self, piece: &AnswerPiece<'_>, _: &AnswerEnd) -> Response {
        Response::json(200, &event(piece.text))
    }
}
