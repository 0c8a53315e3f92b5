//! The OpenAI routes as `transformers serve` has them: a role event and a finish event of their own,
//! usage in the finish event, no announced end, and no field that it does not know.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{AnswerEnd, AnswerPiece, AnswerWriter, ReportedUsage};
use super::event_buffer::EventBuffer;
use super::openai::OpenAiRoute;
use super::route::{RequestContext, Response};
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

struct Transformers {
    route: OpenAiRoute,
    /// `{"id":…,"choices":[`
    opening: String,
    /// `],"created":…,"model":…,"object":…`
    closing: String,
    request_id: String,
    has_begun: bool,
}

pub(super) fn writer(
    context: &RequestContext<'_>,
    route: OpenAiRoute,
    model: &str,
) -> Box<dyn AnswerWriter> {
    let (id, created) = (json!(context.request_id), context.created);
    let model = json!(format!("{model}@main"));
    let (object, extra) = match route {
        OpenAiRoute::Completions => ("text_completion", ""),
        OpenAiRoute::Chat => ("chat.completion.chunk", ",\"system_fingerprint\":\"\""),
    };
    Box::new(Transformers {
        route,
        opening: format!("{{\"id\":{id},\"choices\":["),
        closing: format!(
            "],\"created\":{created},\"model\":{model},\"object\":\"{object}\"{extra}"
        ),
        request_id: context.request_id.clone(),
        has_begun: false,
    })
}

fn usage_json(usage: ReportedUsage) -> Value {
    let (completion, prompt) = (usage.completion_tokens, usage.prompt_tokens);
    json!({ "completion_tokens": completion, "prompt_tokens": prompt, "total_tokens": usage.total() })
}

impl AnswerWriter for Transformers {
    fn headers(&self) -> Vec<(&'static str, String)> {
        vec![
            ("server", "uvicorn".to_owned()),
            ("content-type", "text/event-stream; charset=utf-8".to_owned()),
            ("x-request-id", self.request_id.clone()),
        ]
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let (opening, closing) = (&self.opening, &self.closing);
        if self.route == OpenAiRoute::Chat && !self.has_begun {
            let role = "{\"delta\":{\"role\":\"assistant\"},\"index\":0}";
            buffer
                .put("data: ")
                .put(opening)
                .put(role)
                .put(closing)
                .put("}")
                .close(SentKind::Role, 0);
        }
        self.has_begun = true;
        let (before, after) = match self.route {
            OpenAiRoute::Completions => ("{\"index\":0,\"text\":\"", "\"}"),
            OpenAiRoute::Chat => ("{\"delta\":{\"content\":\"", "\"},\"index\":0}"),
        };
        buffer.put("data: ").put(opening).put(before).put(piece.text).put(after);
        buffer.put(closing).put("}").close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        let reason = ending.reason.name();
        let choice = match self.route {
            OpenAiRoute::Completions => {
                format!("{{\"finish_reason\":\"{reason}\",\"index\":0,\"text\":\"\"}}")
            }
            OpenAiRoute::Chat => {
                format!("{{\"delta\":{{}},\"index\":0,\"finish_reason\":\"{reason}\"}}")
            }
        };
        buffer.put("data: ").put(&self.opening).put(&choice).put(&self.closing);
        if let Some(usage) = ending.usage {
            buffer.put(&format!(",\"usage\":{}", usage_json(usage)));
        }
        buffer.put("}").close(SentKind::Finish, 0);
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let reason = ending.reason.name();
        let choice = match self.route {
            OpenAiRoute::Completions => {
                json!({ "finish_reason": reason, "index": 0, "text": piece.text })
            }
            OpenAiRoute::Chat => {
                let message = json!({ "content": piece.text, "role": "assistant" });
                json!({ "finish_reason": reason, "index": 0, "message": message })
            }
        };
        let closing = self.closing.replace("chat.completion.chunk", "chat.completion");
        let usage = json!(ending.usage.map(usage_json));
        let body = format!("{}{choice}{closing},\"usage\":{usage}}}", self.opening);
        Response::typed(200, "application/json", body)
    }
}
