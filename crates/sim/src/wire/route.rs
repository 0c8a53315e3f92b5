//! Routes: which handler serves which request.

use serde_json::{Value, json};

use super::ask::{AnswerDelivery, AnswerWriter, EngineRequest, LengthBounds, RequestedLength};
use super::complaint::Complaint;
use super::metrics::Snapshot;
use super::openai::{self, OpenAiRoute};
use super::sheet::Sheet;
use super::{
    constraint, llamacpp, messages, metrics, mii, pooling, responses, sglang, tgi, tokens,
    transcription, transformers, triton, vllm,
};
use crate::config::{Flavour, SimConfig};
use crate::front::HttpRequest;
use crate::truth::SentKind;
use crate::vocabulary::{Vocabulary, scramble};

/// What the routes know of the server while they answer one request.
pub(crate) struct Desk<'a> {
    pub(crate) config: &'a SimConfig,
    pub(crate) vocabulary: &'a mut Vocabulary,
    pub(crate) max_model_len: u32,
    /// Seconds since the epoch.
    pub(crate) created: u64,
    /// The client's id of the request, or one made for it.
    pub(crate) request_id: String,
    pub(crate) snapshot: &'a Snapshot,
}

/// A whole answer.
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

/// What happens to a request.
pub(crate) enum Reply {
    /// It is answered at once.
    Now(Response),
    /// It is answered at once with events.
    Events { headers: Vec<(&'static str, String)>, sheet: Sheet },
    /// The engine has work to do.
    Later(Box<EngineRequest>, Box<dyn AnswerWriter>),
    /// Changes the engine, then responds.
    Control(ControlRequest, Response),
}

/// What a client may request of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlRequest {
    ResetPrefixCache,
}

/// An ask and its script.
pub(super) type Accepted = (EngineRequest, Box<dyn AnswerWriter>);

impl Desk<'_> {
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
    ) -> Result<LengthBounds, Complaint> {
        let max = self.max_model_len;
        let prompt_tokens = u32::try_from(prompt_tokens).unwrap_or(u32::MAX);
        if prompt_tokens == 0 {
            return Err(Complaint::field("prompt", "the prompt is empty"));
        }
        let too_long = |message| Complaint {
            param: Some("max_tokens".to_owned()),
            excess: Some((prompt_tokens, max)),
            ..Complaint::new(400, message)
        };
        let room = max.saturating_sub(prompt_tokens);
        if room == 0 {
            return Err(too_long(format!(
                "The input ({prompt_tokens} tokens) is longer than the model's context length ({max} tokens)."
            )));
        }
        match requested.limit {
            Some(0) => Err(Complaint::field("max_tokens", "max_tokens must be at least 1, got 0.")),
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

/// Answers a request or prepares its answer.
pub(crate) fn route(desk: &mut Desk<'_>, request: &HttpRequest) -> Reply {
    let flavour = desk.config.flavour;
    if !is_allowed(desk.config, request) {
        let complaint = Complaint::new(401, "Invalid or missing API key");
        return Reply::Now(complaint.response(flavour));
    }
    if desk.config.faults.broken_paths.contains(&request.path) {
        let complaint = Complaint::new(500, "injected fault on this route");
        return Reply::Now(complaint.response(flavour));
    }
    if request.method == "GET" {
        return get(desk, &request.path)
            .unwrap_or_else(|| Reply::Now(Complaint::not_found().response(flavour)));
    }
    if let Some(reply) = control(&request.path) {
        return reply;
    }
    if let Some(task) = transcription::task(&request.path) {
        return match transcription::respond(desk, task, request) {
            Ok((ask, script)) => Reply::Later(Box::new(ask), script),
            Err(complaint) => Reply::Now(complaint.response(flavour)),
        };
    }
    let body: Value = match serde_json::from_slice(&request.body) {
        Ok(body) => body,
        Err(error) => {
            return refuse(
                flavour,
                &request.path,
                &Complaint::bad_json(&error),
                AnswerDelivery::Whole,
            );
        }
    };
    match post(desk, &request.path, &body) {
        Ok(reply) => reply,
        Err(complaint) => refuse(flavour, &request.path, &complaint, openai::delivery(&body)),
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
    complaint: &Complaint,
    delivery: AnswerDelivery,
) -> Reply {
    let is_json = complaint.param.as_deref() != Some("body");
    let mut sheet = Sheet::default();
    match path {
        "/generate_stream" if is_json => {
            let body = complaint.tgi_body();
            sheet.put(&format!("data: {body}")).close(SentKind::Error, 0);
            Reply::Events { headers: tgi::stream_headers(0), sheet }
        }
        "/generate" if delivery == AnswerDelivery::Streamed && is_json => {
            let (message, code) = (&complaint.message, complaint.status);
            let error = json!({ "message": message, "type": "invalid_request_error", "code": code, "retryable": false });
            sheet.put(&format!("data: {}", json!({ "error": error }))).close(SentKind::Error, 0);
            sheet.done();
            Reply::Events { headers: vllm::headers(), sheet }
        }
        "/generate_stream" => Reply::Now(complaint.tgi_response()),
        "/generate" if flavour == Flavour::Tgi => Reply::Now(complaint.tgi_response()),
        "/generate" => Reply::Now(complaint.response(Flavour::Sglang)),
        "/v1/messages" => Reply::Now(complaint.messages_response()),
        _ => Reply::Now(complaint.response(flavour)),
    }
}

fn control(path: &str) -> Option<Reply> {
    match path {
        "/reset_prefix_cache" => {
            Some(Reply::Control(ControlRequest::ResetPrefixCache, Response::text(200, "")))
        }
        "/flush_cache" => {
            let response = Response::text(200, "Cache flushed.\n");
            Some(Reply::Control(ControlRequest::ResetPrefixCache, response))
        }
        "/start_profile" | "/stop_profile" => Some(Reply::Now(Response::text(200, ""))),
        _ => None,
    }
}

fn get(desk: &Desk<'_>, path: &str) -> Option<Reply> {
    let response = match path {
        "/health" | "/ping" | "/health_generate" => match desk.config.flavour {
            Flavour::Llamacpp => Response::json(200, &json!({ "status": "ok" })),
            _ => Response::text(200, ""),
        },
        "/v1/models" | "/models" => Response::json(200, &model_list(desk)),
        "/metrics" => {
            let text = metrics::render(desk.config.flavour, &desk.config.model, desk.snapshot);
            Response::typed(200, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        "/version" => Response::json(200, &json!({ "version": env!("CARGO_PKG_VERSION") })),
        "/info" => Response::json(200, &tgi::info(desk)),
        "/server_info" | "/get_server_info" => Response::json(200, &server_info(desk)),
        "/model_info" | "/get_model_info" => {
            let model = &desk.config.model;
            let body =
                json!({ "model_path": model, "tokenizer_path": model, "is_generation": true });
            Response::json(200, &body)
        }
        _ => return control(path),
    };
    Some(Reply::Now(response))
}

fn model_list(desk: &Desk<'_>) -> Value {
    let entry = |name: &str| {
        json!({
            "id": name, "object": "model", "created": desk.created, "owned_by": "tokometer-sim",
            "root": desk.config.model, "parent": null, "max_model_len": desk.max_model_len,
        })
    };
    let data: Vec<Value> = desk.models().into_iter().map(entry).collect();
    json!({ "object": "list", "data": data })
}

fn server_info(desk: &Desk<'_>) -> Value {
    let lateness = desk.snapshot.lateness;
    json!({
        "server": "tokometer-sim",
        "version": env!("CARGO_PKG_VERSION"),
        "model_path": desk.config.model,
        "max_model_len": desk.max_model_len,
        "pace": desk.config.pace,
        "flavour": desk.config.flavour,
        "lateness_ms_mean": lateness.mean_ms,
        "lateness_ms_max": lateness.max_ms,
    })
}

fn post(desk: &mut Desk<'_>, path: &str, body: &Value) -> Result<Reply, Complaint> {
    for field in &desk.config.faults.refused_fields {
        if body.get(field).is_some() {
            let message = format!("Unknown field `{field}` in the request");
            return Err(Complaint::field(field, message));
        }
    }
    if let Some(accepted) = pooling::respond(desk, path, body) {
        check_model(desk, body)?;
        let (ask, script) = accepted?;
        return Ok(Reply::Later(Box::new(ask), script));
    }
    let (ask, script) = match path {
        "/v1/completions" | "/v1/models/model:predict" => {
            openai(desk, body, OpenAiRoute::Completions)?
        }
        "/v1/chat/completions" => openai(desk, body, OpenAiRoute::Chat)?,
        "/v1/responses" => {
            check_model(desk, body)?;
            responses::respond(desk, body)?
        }
        "/v1/messages" => {
            check_model(desk, body)?;
            messages::respond(desk, body)?
        }
        "/generate" if body.get("inputs").is_some() => tgi::generate(desk, body)?,
        "/generate" => sglang::generate(desk, body)?,
        "/generate_stream" => tgi::generate_stream(desk, body)?,
        "/completion" | "/completions" => llamacpp::completion(desk, body)?,
        "/v2/models/ensemble/generate_stream" | "/v2/models/ensemble/generate" => {
            triton::generate(desk, body, path)?
        }
        path if path == desk.config.mii_path => mii::generate(desk, body)?,
        "/tokenize" => return Ok(Reply::Now(tokens::tokenize(desk, body)?)),
        "/detokenize" => return Ok(Reply::Now(tokens::detokenize(body)?)),
        _ => return Err(Complaint::not_found()),
    };
    Ok(Reply::Later(Box::new(ask), script))
}

/// Refuses a model that the server does not have, where the imitated server does so.
pub(super) fn check_model(desk: &Desk<'_>, body: &Value) -> Result<(), Complaint> {
    let checks_model = matches!(desk.config.flavour, Flavour::Vllm | Flavour::Transformers);
    let model = body.get("model").and_then(Value::as_str);
    match model.filter(|model| checks_model && !desk.models().contains(model)) {
        Some(model) => Err(Complaint::unknown_model(model, &desk.models())),
        None => Ok(()),
    }
}

fn openai(desk: &mut Desk<'_>, body: &Value, route: OpenAiRoute) -> Result<Accepted, Complaint> {
    let flavour = desk.config.flavour;
    if flavour == Flavour::Transformers {
        transformers::check_fields(body)?;
    }
    check_model(desk, body)?;
    let model = body.get("model").and_then(Value::as_str);
    let model = model.unwrap_or(&desk.config.model).to_owned();
    let (mut ask, extras) = openai::read(desk, body, route)?;
    let script = match flavour {
        Flavour::Vllm => {
            let constraint = constraint::of_chat(body).filter(|_| route == OpenAiRoute::Chat);
            let (pieces, tool) = constraint.map(|one| (one.pieces, one.tool)).unzip();
            ask.constrained = pieces;
            vllm::script(desk, route, (&model, tool.flatten()), extras)
        }
        Flavour::Sglang => sglang::script(desk, route, &model, extras.usage),
        Flavour::Llamacpp => llamacpp::script(desk, route, &model, extras.usage),
        Flavour::Tgi => tgi::script(desk, route, extras.usage),
        Flavour::Transformers => transformers::script(desk, route, &model),
    };
    Ok((ask, script))
}
