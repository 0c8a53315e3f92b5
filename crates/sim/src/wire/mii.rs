//! DeepSpeed-MII's plain answer: not streamed, a list of texts.

use serde_json::{Value, json};

use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, RequestedLength,
};
use super::complaint::Complaint;
use super::openai::whole_number;
use super::route::{Accepted, Desk, Response};
use super::sheet::Sheet;

pub(super) fn generate(desk: &mut Desk<'_>, body: &Value) -> Result<Accepted, Complaint> {
    let prompt = body.get("prompt").or_else(|| body.get("prompts")).and_then(Value::as_str);
    let prompt = prompt.ok_or_else(|| Complaint::field("prompt", "`prompt` must be a text"))?;
    let prompt = desk.hash_text(prompt);
    let asked = match whole_number(body, "max_tokens")? {
        Some(limit) => Some(limit),
        None => whole_number(body, "max_new_tokens")?,
    };
    let requested = RequestedLength { limit: asked.or(Some(128)), least: 0, ignores_eos: true };
    let length = desk.length(prompt.len(), requested)?;
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

    fn speak(&mut self, _: &AnswerPiece<'_>, _: &mut Sheet) {}

    fn end(&mut self, _: &AnswerEnd, _: &mut Sheet) {}

    fn whole(&mut self, piece: &AnswerPiece<'_>, _: &AnswerEnd) -> Response {
        Response::json(200, &json!({ "text": [piece.text] }))
    }
}
