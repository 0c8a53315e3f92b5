//! A route that the backend does not support is named before anything is sent, with the backend that does.

use crate::Plan;
use tokometer_base::backend::{PoolingRoute, Protocol};
use tokometer_client::{Dialect, RequestInput, Settings, Url};

use tokometer_base::Refusal;

/// Ends of well-known routes, with the backend to use for each.
const ROUTES: [(&str, &str); 12] = [
    ("/chat/completions", "openai-chat"),
    ("/v1/completions", "openai"),
    ("/v1/responses", "openai-responses"),
    ("/v1/messages", "anthropic"),
    ("/v1/embeddings", "openai-embeddings"),
    ("/pooling", "vllm-pooling"),
    ("/classify", "vllm-classify"),
    ("/score", "vllm-score"),
    ("/rerank", "vllm-rerank"),
    ("/v2/embed", "cohere-embed"),
    ("/audio/transcriptions", "openai-audio"),
    ("/audio/translations", "openai-audio"),
];

/// Whether a backend writes bodies for a route.
fn speaks(dialect: Dialect, route: &str) -> bool {
    use PoolingRoute::{Embeddings, EmbeddingsChat, Infinity, Rerank, TeiRerank};
    match dialect.protocol() {
        Protocol::Chat => route == "/chat/completions",
        Protocol::Completions | Protocol::DeepspeedMii => route == "/v1/completions",
        Protocol::Responses => route == "/v1/responses",
        Protocol::Messages => route == "/v1/messages",
        Protocol::Transcription => route.starts_with("/audio/"),
        Protocol::Pooling(Embeddings | EmbeddingsChat | Infinity) => route == "/v1/embeddings",
        Protocol::Pooling(Rerank | TeiRerank) => route == "/rerank",
        Protocol::Pooling(PoolingRoute::Pooling) => route == "/pooling",
        Protocol::Pooling(PoolingRoute::Classify) => route == "/classify",
        Protocol::Pooling(PoolingRoute::Score) => route == "/score",
        Protocol::Pooling(PoolingRoute::CohereEmbed) => route == "/v2/embed",
        // The paths of the others are their own.
        _ => false,
    }
}

/// Refuses an endpoint that belongs to another protocol.
pub(super) fn check(plan: &Plan) -> Result<(), Refusal> {
    for target in &plan.targets {
        let Some(endpoint) = &target.endpoint else { continue };
        let path = endpoint.0.split('?').next().unwrap_or_default().trim_end_matches('/');
        let path = format!("/{}", path.trim_start_matches('/'));
        let known = ROUTES.iter().find(|(end, _)| path.ends_with(end));
        if let Some((route, backend)) = known.filter(|(route, _)| !speaks(target.backend, route)) {
            let name = target.backend.name();
            return Err(Refusal::usage(
                format!("the backend `{name}` does not support `{route}`"),
                format!("use `--backend {backend}`"),
            ));
        }
    }
    check_constraints(plan)
}

/// Refuses a constraint or tools that a backend has no field for.
fn check_constraints(plan: &Plan) -> Result<(), Refusal> {
    let request = &plan.request;
    if request.structured.is_none() && request.tools.is_none() {
        return Ok(());
    }
    let mut settings = Settings::new(Url::http("127.0.0.1", 8000), "model");
    settings.conventions = Some(plan.family);
    settings.structured.clone_from(&request.structured);
    settings.tools.clone_from(&request.tools);
    let prompt = tokometer_base::Prompt::text("Hi");
    for target in &plan.targets {
        let made = target.backend.prepare(&settings, &RequestInput::new(&prompt, 0));
        let _request = made.map_err(|why| {
            let hint = "use a backend of a chat route, such as `openai-chat`";
            Refusal::usage(why.to_string(), hint)
        })?;
    }
    Ok(())
}
