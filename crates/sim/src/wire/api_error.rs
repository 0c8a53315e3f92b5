//! Error responses, in the format of the imitated server.

use serde_json::json;

use super::route::Response;
use crate::config::Flavour;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    /// Prompt tokens and limit, when the prompt is too long.
    pub(crate) excess: Option<(u32, u32)>,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, excess: None }
    }

    pub(crate) fn field(param: &str, message: impl Into<String>) -> Self {
        let param = Some(param.to_owned());
        Self { status: 400, message: message.into(), param, excess: None }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(404, "Not Found")
    }

    pub(crate) fn unknown_model(model: &str, known: &[&str]) -> Self {
        let known = known.join(", ");
        let message = format!("The model `{model}` does not exist. Valid aliases: {known}.");
        Self { param: Some("model".to_owned()), ..Self::new(404, message) }
    }

    pub(crate) fn bad_json(error: &serde_json::Error) -> Self {
        let message = format!("1 validation error: JSON decode error: {error}");
        Self { param: Some("body".to_owned()), ..Self::new(400, message) }
    }

    /// The type that OpenAI-like servers put beside a message.
    fn kind(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            404 => "NotFoundError",
            429 => "rate_limit_exceeded",
            500.. => "InternalServerError",
            _ => "BadRequestError",
        }
    }

    /// The answer to a request on the flavour's OpenAI routes.
    pub(crate) fn response(&self, flavour: Flavour) -> Response {
        let (message, code) = (&self.message, self.status);
        match flavour {
            Flavour::Vllm if self.status == 404 && self.param.is_none() => {
                Response::json(404, &json!({ "detail": message }))
            }
            Flavour::Vllm => {
                let (kind, param) = (self.kind(), &self.param);
                let error =
                    json!({ "message": message, "type": kind, "param": param, "code": code });
                Response::json(code, &json!({ "error": error }))
            }
            Flavour::Sglang => {
                let kind = self.kind();
                let body = json!({ "object": "error", "message": message, "type": kind, "param": null, "code": code });
                Response::json(code, &body)
            }
            Flavour::Llamacpp => {
                let kind = match self.status {
                    404 => "not_found_error",
                    _ if self.excess.is_some() => "exceed_context_size_error",
                    500.. => "server_error",
                    _ => "invalid_request_error",
                };
                let mut error = json!({ "code": code, "message": message, "type": kind });
                if let Some((prompt_tokens, limit)) = self.excess {
                    error["n_prompt_tokens"] = prompt_tokens.into();
                    error["n_ctx"] = limit.into();
                }
                Response::json(code, &json!({ "error": error }))
            }
            Flavour::Tgi => self.tgi_response(),
            Flavour::Transformers => self.transformers_response(),
        }
    }

    /// The Messages API: fields that do not validate are refused in OpenAI's form, as by vLLM.
    pub(crate) fn messages_response(&self) -> Response {
        if matches!(self.param.as_deref(), Some("body" | "max_tokens")) && self.excess.is_none() {
            return self.response(Flavour::Vllm);
        }
        let error = json!({ "type": self.kind(), "message": self.message });
        Response::json(self.status, &json!({ "type": "error", "error": error }))
    }

    /// Text-generation-inference: a plain text for what is not JSON, a flat object for the rest.
    pub(crate) fn tgi_response(&self) -> Response {
        if self.status == 400 && self.param.as_deref() == Some("body") {
            return Response::text(400, &self.message);
        }
        let status = if self.status == 400 { 422 } else { self.status };
        Response::json(status, &self.tgi_body())
    }

    pub(crate) fn tgi_body(&self) -> serde_json::Value {
        let kind = match self.status {
            429 => "overloaded",
            500.. => "generation",
            _ => "validation",
        };
        json!({ "error": self.message, "error_type": kind })
    }

    fn transformers_response(&self) -> Response {
        match (self.status, self.param.as_deref()) {
            (404, Some("model")) => Response::text(500, "Internal Server Error"),
            (400, Some("body")) => {
                let detail = json!({
                    "type": "json_invalid", "loc": ["body", 0], "msg": "JSON decode error", "input": {},
                    "ctx": { "error": self.message },
                });
                Response::json(422, &json!({ "detail": [detail] }))
            }
            (400, _) => Response::json(422, &json!({ "detail": self.message })),
            _ => Response::json(self.status, &json!({ "detail": self.message })),
        }
    }
}
