//! The OpenAI routes as `transformers serve` has them: a role event and a finish event of their own,
//! usage in the finish event, no announced end, and no field that it does not know.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, ReportedUsage};
use super::event_buffer::EventBuffer;
use super::openai::{OpenAiAnswer, OpenAiRoute};
use super::route::Response;
use crate::truth::SentKind;

const KNOWN_FIELDS: &str = "model messages prompt max_tokens max_completion_tokens temperature top_p stream \
                            stream_options stop seed frequency_penalty presence_penalty logit_bias \
                            tools tool_choice response_format user n best_of echo generation_config";

pub(super) fn check_fields(body: &Value) -> Result<(), ApiError> {
    let fields = body.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    let unknown: Vec<String> = fields
        .filter(|field| !KNOWN_FIELDS.split_whitespace().any(|known| known == *field))
        .map(|field| format!("'{field}'"))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let message = format!("Unexpected fields in the request: {{{}}}", unknown.join(", "));
    Err(ApiError::new(400, message))
}

pub(super) struct Transformers(OpenAiAnswer);

impl Transformers {
    pub(super) fn new(answer: OpenAiAnswer) -> Self {
        Self(OpenAiAnswer { model: format!("{}@main", answer.model), ..answer })
    }

    fn event(&self, choice: Value) -> Value {
        let mut event = self.0.chunk(&[choice]);
        if self.0.route == OpenAiRoute::Chat {
            event["system_fingerprint"] = "".into();
        }
        event
    }
}

impl AnswerWriter for Transformers {
    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        if self.0.begins() && self.0.route == OpenAiRoute::Chat {
            let role = json!({ "delta": { "role": "assistant" }, "index": 0 });
            buffer.event(&self.event(role), SentKind::Role);
        }
        let choice = match self.0.route {
            OpenAiRoute::Completions => json!({ "index": 0, "text": piece.text }),
            OpenAiRoute::Chat => json!({ "delta": { "content": piece.text }, "index": 0 }),
        };
        buffer.event(&self.event(choice), SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let (name, content) = match self.0.route {
            OpenAiRoute::Completions => ("text", json!("")),
            OpenAiRoute::Chat => ("delta", json!({})),
        };
        let choice = json!({ "finish_reason": ending.reason.name(), "index": 0, name: content });
        let mut event = self.event(choice);
        if let Some(usage) = ending.usage {
            event["usage"] = usage.json();
        }
        buffer.event(&event, SentKind::Finish);
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let (name, content) = match self.0.route {
            OpenAiRoute::Completions => ("text", json!(piece.text)),
            OpenAiRoute::Chat => ("message", json!({ "content": piece.text, "role": "assistant" })),
        };
        let choice = json!({ "finish_reason": ending.reason.name(), "index": 0, name: content });
        Response::json(200, &self.0.whole(choice, ending.usage.map(ReportedUsage::json)))
    }
}
