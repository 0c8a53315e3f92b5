//! Routes whose answers are one kind of event, or one document: a row each.
//!
//! A row says where a request has its prompt and its length, and what is written. A protocol that needs more has
//! a file of its own.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, RequestedLength,
};
use super::event_buffer::EventBuffer;
use super::openai::{hash_conversation, is_set, whole_number};
use super::route::{Accepted, RequestContext, Response};
use crate::truth::SentKind;

struct PlainRoute {
    paths: &'static [&'static str],
    /// The field of the prompt: a text, or a list of messages.
    prompt: &'static str,
    /// The answer's limit without `max_tokens`.
    default_limit: u32,
    ignores_eos: fn(&Value) -> bool,
    /// Whether the answer to this body is streamed, on the route at this path.
    is_streamed: fn(&Value, &str) -> bool,
    event: fn(&AnswerPiece<'_>) -> Value,
    whole: fn(&AnswerPiece<'_>) -> Value,
}

static ROUTES: &[PlainRoute] = &[
    // DeepSpeed-MII: not streamed, a list of texts.
    PlainRoute {
        paths: &["mii"],
        prompt: "prompt",
        default_limit: 128,
        ignores_eos: |_| true,
        is_streamed: |_, _| false,
        event: |_| Value::Null,
        whole: |piece| json!({ "text": [piece.text] }),
    },
    // TensorRT-LLM behind Triton's generate extension: no announced end.
    PlainRoute {
        paths: &["/v2/models/ensemble/generate_stream", "/v2/models/ensemble/generate"],
        prompt: "text_input",
        default_limit: 16,
        // A client that wants the whole length asks for an end token that no vocabulary has.
        ignores_eos: |body| body.get("end_id").is_some(),
        is_streamed: |body, path| {
            path.ends_with("_stream") && body.get("stream") != Some(&json!(false))
        },
        event: triton_event,
        whole: triton_event,
    },
];

fn triton_event(piece: &AnswerPiece<'_>) -> Value {
    json!({
        "context_logits": 0.0, "cum_log_probs": 0.0, "generation_logits": 0.0, "model_name": "ensemble",
        "model_version": "1", "output_log_probs": [0.0], "sequence_end": false, "sequence_id": 0,
        "sequence_start": false, "text_output": piece.text,
    })
}

/// Answers the route at `path`; `None` when it is none of these.
pub(super) fn respond(
    context: &mut RequestContext<'_>,
    path: &str,
    body: &Value,
) -> Option<Result<Accepted, ApiError>> {
    let path = if path == context.config.mii_path { "mii" } else { path };
    let route = ROUTES.iter().find(|route| route.paths.contains(&path))?;
    Some(route.accept(context, path, body))
}

impl PlainRoute {
    fn accept(
        &'static self,
        context: &mut RequestContext<'_>,
        path: &str,
        body: &Value,
    ) -> Result<Accepted, ApiError> {
        let prompt = match &body[self.prompt] {
            Value::String(text) => context.hash_text(text),
            messages @ Value::Array(_) => hash_conversation(context, messages)?,
            _ => {
                let message = format!("`{}` must be a text or messages", self.prompt);
                return Err(ApiError::field(self.prompt, message));
            }
        };
        let requested = RequestedLength {
            limit: whole_number(body, "max_tokens")?.or(Some(self.default_limit)),
            least: whole_number(body, "min_length")?.unwrap_or(0),
            ignores_eos: (self.ignores_eos)(body) || is_set(body, "ignore_eos"),
        };
        let length = context.length(prompt.len(), requested)?;
        let delivery = if (self.is_streamed)(body, path) {
            AnswerDelivery::Streamed
        } else {
            AnswerDelivery::Whole
        };
        Ok((EngineRequest { prompt, length, delivery, ..EngineRequest::default() }, Box::new(self)))
    }
}

impl AnswerWriter for &'static PlainRoute {
    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        buffer.event(&(self.event)(piece), SentKind::Text).tokens = piece.tokens;
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, _: &AnswerEnd) -> Response {
        Response::json(200, &(self.whole)(piece))
    }
}
