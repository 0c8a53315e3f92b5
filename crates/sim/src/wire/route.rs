//! Routes: which handler serves which request.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerWriter, EngineRequest, LengthBounds, RequestedLength, uvicorn_headers,
};
use super::event_buffer::EventBuffer;
use super::metrics::Snapshot;
use super::openai::{self, OpenAiAnswer, OpenAiRoute};
use super::{
    constraint, llamacpp, messages, metrics, plain, pooling, responses, sglang, tgi, tokens,
    transcription, transformers, vllm,
};
use crate::config::{Flavour, SimConfig};
use crate::http::HttpRequest;
use crate::truth::SentKind;
use crate::vocabulary::{Vocabulary, scramble};

/// What the routes know of the server while they answer one request.
pub(crate) struct RequestContext<'a> {
    pub(crate) config: &'a SimConfig,
    pub(crate) vocabulary: &'a mut Vocabulary,
    pub(crate) max_model_len: u32,
    /// Seconds since the epoch.
    pub(crate) created: u64,
    /// The client's id of the request, or one made for it.
    pub(crate) request_id: String,
    pub(crate) snapshot: &'a Snapshot,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::typed(status, "application/json", body.to_string())
    }

    pub(crate) fn text(status: u16, body: &str) -> Self {
        Self::typed(status, "text/plain; charset=utf-8", body.to_owned())
    }

    pub(crate) fn typed(status: u16, content_type: &str, body: String) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status, headers, body: body.into_bytes() }
    }
}

pub(crate) enum Reply {
    Now(Response),
    Events {
        headers: Vec<(&'static str, String)>,
        buffer: EventBuffer,
    },
    /// The engine has work to do.
    Later(Box<EngineRequest>, Box<dyn AnswerWriter>),
    /// Changes the engine, then responds.
    ResetPrefixCache(Response),
}

impl Reply {
    fn later((ask, writer): Accepted) -> Self {
        Self::Later(Box::new(ask), writer)
    }
}

pub(super) type Accepted = (EngineRequest, Box<dyn AnswerWriter>);

impl RequestContext<'_> {
    pub(super) fn hash_text(&mut self, text: &str) -> Vec<u64> {
        let mut hashes = Vec::new();
        self.vocabulary.hash_text(text, &mut hashes);
        hashes
    }

    /// The number of an adapter, if the model asked for is one.
    pub(super) fn lora(&self, model: Option<&str>) -> Option<u32> {
        let at = self.config.loras.iter().position(|lora| Some(lora.as_str()) == model)?;
        u32::try_from(at).ok()
    }

    /// Every name that is accepted as a model.
    pub(super) fn models(&self) -> Vec<&str> {
        let loras = self.config.loras.iter().map(String::as_str);
        std::iter::once(self.config.model.as_str()).chain(loras).collect()
    }

    /// The limits of an answer, within what the model can hold.
    pub(super) fn length(
        &self,
        prompt_tokens: usize,
        requested: RequestedLength,
    ) -> Result<LengthBounds, ApiError> {
        let max = self.max_model_len;
        let prompt_tokens = u32::try_from(prompt_tokens).unwrap_or(u32::MAX);
        if prompt_tokens == 0 {
            return Err(ApiError::field("prompt", "the prompt is empty"));
        }
        let too_long = |message| ApiError {
            param: Some("max_tokens".to_owned()),
            excess: Some((prompt_tokens, max)),
            ..ApiError::new(400, message)
        };
        let room = max.saturating_sub(prompt_tokens);
        if room == 0 {
            return Err(too_long(format!(
                "The input ({prompt_tokens} tokens) is longer than the model's context length ({max} tokens)."
            )));
        }
        match requested.limit {
            Some(0) => Err(ApiError::field("max_tokens", "max_tokens must be at least 1, got 0.")),
            Some(limit) if limit > room => Err(too_long(format!(
                "max_tokens={limit} and {prompt_tokens} prompt tokens cannot be greater than max_model_len={max}. Please request fewer output tokens. (parameter=max_tokens, value={limit})"
            ))),
            _ => {
                let limit = requested.limit.unwrap_or(room);
                let least = requested.least.min(limit);
                Ok(LengthBounds { limit, least, ignores_eos: requested.ignores_eos })
            }
        }
    }
}

/// One hash per token of a prompt that came as token ids.
pub(super) fn hash_ids(ids: &[u32]) -> Vec<u64> {
    ids.iter().map(|id| scramble(u64::from(*id))).collect()
}

pub(crate) fn route(context: &mut RequestContext<'_>, request: &HttpRequest) -> Reply {
    let flavour = context.config.flavour;
    if !is_allowed(context.config, request) {
        let api_error = ApiError::new(401, "Invalid or missing API key");
        return Reply::Now(api_error.response(flavour));
    }
    if context.config.faults.broken_paths.contains(&request.path) {
        let api_error = ApiError::new(500, "injected fault on this route");
        return Reply::Now(api_error.response(flavour));
    }
    if request.method == "GET" {
        return get(context, &request.path)
            .unwrap_or_else(|| Reply::Now(ApiError::not_found().response(flavour)));
    }
    if let Some(reply) = control(&request.path) {
        return reply;
    }
    if let Some(task) = transcription::task(&request.path) {
        let accepted = transcription::respond(context, task, request);
        return accepted
            .map_or_else(|api_error| Reply::Now(api_error.response(flavour)), Reply::later);
    }
    let body: Value = match serde_json::from_slice(&request.body) {
        Ok(body) => body,
        Err(error) => {
            return refuse(
                flavour,
                &request.path,
                &ApiError::bad_json(&error),
                AnswerDelivery::Whole,
            );
        }
    };
    match post(context, &request.path, &body) {
        Ok(reply) => reply,
        Err(api_error) => refuse(flavour, &request.path, &api_error, openai::delivery(&body)),
    }
}

fn is_allowed(config: &SimConfig, request: &HttpRequest) -> bool {
    let Some(key) = &config.api_key else { return true };
    let is_open = matches!(request.path.as_str(), "/health" | "/metrics" | "/ping");
    let given = request.authorization.as_deref().unwrap_or_default();
    is_open || given.strip_prefix("Bearer ").unwrap_or(given) == key
}

/// A refusal in the format of the route: native routes of some servers refuse inside the stream.
pub(crate) fn refuse(
    flavour: Flavour,
    path: &str,
    api_error: &ApiError,
    delivery: AnswerDelivery,
) -> Reply {
    let is_json = api_error.param.as_deref() != Some("body");
    let mut buffer = EventBuffer::default();
    match path {
        "/generate_stream" if is_json => {
            buffer.event(&api_error.tgi_body(), SentKind::Error);
            Reply::Events { headers: tgi::stream_headers(0), buffer }
        }
        "/generate" if delivery == AnswerDelivery::Streamed && is_json => {
            let (message, code) = (&api_error.message, api_error.status);
            let error = json!({ "message": message, "type": "invalid_request_error", "code": code, "retryable": false });
            buffer.event(&json!({ "error": error }), SentKind::Error);
            buffer.done();
            Reply::Events { headers: uvicorn_headers(), buffer }
        }
        "/generate_stream" => Reply::Now(api_error.tgi_response()),
        "/generate" if flavour == Flavour::Tgi => Reply::Now(api_error.tgi_response()),
        "/generate" => Reply::Now(api_error.response(Flavour::Sglang)),
        "/v1/messages" => Reply::Now(api_error.messages_response()),
        _ => Reply::Now(api_error.response(flavour)),
    }
}

fn control(path: &str) -> Option<Reply> {
    match path {
        "/reset_prefix_cache" => Some(Reply::ResetPrefixCache(Response::text(200, ""))),
        "/flush_cache" => Some(Reply::ResetPrefixCache(Response::text(200, "Cache flushed.\n"))),
        "/start_profile" | "/stop_profile" => Some(Reply::Now(Response::text(200, ""))),
        _ => None,
    }
}

fn get(context: &RequestContext<'_>, path: &str) -> Option<Reply> {
    let response = match path {
        "/health" | "/ping" | "/health_generate" => match context.config.flavour {
            Flavour::Llamacpp => Response::json(200, &json!({ "status": "ok" })),
            _ => Response::text(200, ""),
        },
        "/v1/models" | "/models" => Response::json(200, &model_list(context)),
        "/metrics" => {
            let text =
                metrics::render(context.config.flavour, &context.config.model, context.snapshot);
            Response::typed(200, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        "/version" => Response::json(200, &json!({ "version": env!("CARGO_PKG_VERSION") })),
        "/info" => Response::json(200, &tgi::info(context)),
        "/server_info" | "/get_server_info" => Response::json(200, &server_info(context)),
        "/model_info" | "/get_model_info" => {
            let model = &context.config.model;
            let body =
                json!({ "model_path": model, "tokenizer_path": model, "is_generation": true });
            Response::json(200, &body)
        }
        _ => return control(path),
    };
    Some(Reply::Now(response))
}

fn model_list(context: &RequestContext<'_>) -> Value {
    let entry = |name: &str| {
        json!({
            "id": name, "object": "model", "created": context.created, "owned_by": "tokometer-sim",
            "root": context.config.model, "parent": null, "max_model_len": context.max_model_len,
        })
    };
    let data: Vec<Value> = context.models().into_iter().map(entry).collect();
    json!({ "object": "list", "data": data })
}

fn server_info(context: &RequestContext<'_>) -> Value {
    let lateness = context.snapshot.lateness;
    json!({
        "server": "tokometer-sim",
        "version": env!("CARGO_PKG_VERSION"),
        "model_path": context.config.model,
        "max_model_len": context.max_model_len,
        "pace": context.config.pace,
        "flavour": context.config.flavour,
        "lateness_ms_mean": lateness.mean_ms,
        "lateness_ms_max": lateness.max_ms,
    })
}

fn post(context: &mut RequestContext<'_>, path: &str, body: &Value) -> Result<Reply, ApiError> {
    for field in &context.config.faults.refused_fields {
        if body.get(field).is_some() {
            let message = format!("Unknown field `{field}` in the request");
            return Err(ApiError::field(field, message));
        }
    }
    if let Some(accepted) = pooling::respond(context, path, body) {
        check_model(context, body)?;
        return accepted.map(Reply::later);
    }
    if let Some(accepted) = plain::respond(context, path, body) {
        return accepted.map(Reply::later);
    }
    let accepted = match path {
        "/v1/completions" | "/v1/models/model:predict" => {
            openai(context, body, OpenAiRoute::Completions)?
        }
        "/v1/chat/completions" => openai(context, body, OpenAiRoute::Chat)?,
        "/v1/responses" => {
            check_model(context, body)?;
            responses::respond(context, body)?
        }
        "/v1/messages" => {
            check_model(context, body)?;
            messages::respond(context, body)?
        }
        "/generate" if body.get("inputs").is_some() => {
            tgi::generate(context, body, openai::delivery(body))?
        }
        "/generate" => sglang::generate(context, body)?,
        "/generate_stream" => tgi::generate(context, body, AnswerDelivery::Streamed)?,
        "/completion" | "/completions" => llamacpp::completion(context, body)?,
        "/tokenize" => return Ok(Reply::Now(tokens::tokenize(context, body)?)),
        "/detokenize" => return Ok(Reply::Now(tokens::detokenize(body)?)),
        _ => return Err(ApiError::not_found()),
    };
    Ok(Reply::later(accepted))
}

/// Refuses a model that the server does not have, where the imitated server does so.
pub(super) fn check_model(context: &RequestContext<'_>, body: &Value) -> Result<(), ApiError> {
    let checks_model = matches!(context.config.flavour, Flavour::Vllm | Flavour::Transformers);
    let model = body.get("model").and_then(Value::as_str);
    match model.filter(|model| checks_model && !context.models().contains(model)) {
        Some(model) => Err(ApiError::unknown_model(model, &context.models())),
        None => Ok(()),
    }
}

fn openai(
    context: &mut RequestContext<'_>,
    body: &Value,
    route: OpenAiRoute,
) -> Result<Accepted, ApiError> {
    let flavour = context.config.flavour;
    if flavour == Flavour::Transformers {
        transformers::check_fields(body)?;
    }
    check_model(context, body)?;
    let model = body.get("model").and_then(Value::as_str);
    let model = model.unwrap_or(&context.config.model).to_owned();
    let (mut ask, mut extras) = openai::read(context, body, route)?;
    let constraint = constraint::of_chat(body)
        .filter(|_| route == OpenAiRoute::Chat && flavour == Flavour::Vllm);
    if let Some(constraint) = constraint {
        (ask.constrained, extras.tool) = (Some(constraint.pieces), constraint.tool);
    }
    let (id, created) = (context.request_id.clone(), context.created);
    let answer = OpenAiAnswer { route, id, created, model, extras, has_begun: false };
    let writer: Box<dyn AnswerWriter> = match flavour {
        Flavour::Vllm => Box::new(vllm::Vllm::new(answer)),
        Flavour::Sglang => Box::new(sglang::SglangOpenAi(answer)),
        Flavour::Llamacpp => Box::new(llamacpp::LlamaCppOpenAi::new(answer)),
        Flavour::Tgi => Box::new(tgi::TgiOpenAi::new(context, answer)),
        Flavour::Transformers => Box::new(transformers::Transformers::new(answer)),
    };
    Ok((ask, writer))
}
