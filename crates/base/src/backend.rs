//! The backends by their names: what `--backend` accepts, and every fact that a name implies.
//!
//! One row per name. Code that depends on the backend reads its row; nothing else tests the name.
//! How requests are written and answers are read is defined in `client`, with the protocol.

use crate::Conventions;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    Completions,
    Chat,
    Responses,
    Messages,
    SglangGenerate,
    /// Text Generation Inference's `/generate_stream`.
    TgiGenerate,
    /// Triton's `generate_stream` in front of TensorRT-LLM.
    TensorRtLlm,
    /// DeepSpeed-MII's unstreamed route.
    DeepspeedMii,
    LlamaCpp,
    /// OpenAI's `/v1/audio/transcriptions` and `/v1/audio/translations`, whose bodies are forms.
    Transcription,
    /// A route that answers with vectors, scores or classes instead of text.
    Pooling(PoolingRoute),
}

/// The routes that generate nothing, as far as their bodies differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolingRoute {
    Embeddings,
    /// The same with a conversation, as vLLM's server accepts it.
    EmbeddingsChat,
    Infinity,
    Pooling,
    Classify,
    Score,
    /// Rerank routes with `documents`: vLLM's, SGLang's, Cohere's and Jina's.
    Rerank,
    CohereEmbed,
    TeiEmbed,
    TeiRerank,
}

impl PoolingRoute {
    pub const fn is_ranking(self) -> bool {
        matches!(self, Self::Score | Self::Rerank | Self::TeiRerank)
    }

    const fn is_tei(self) -> bool {
        matches!(self, Self::TeiEmbed | Self::TeiRerank)
    }
}

struct ProtocolFacts {
    path: &'static str,
    /// The route for answers in one piece, where it is another one.
    whole_path: Option<&'static str>,
    traits: &'static [ProtocolTrait],
}

#[derive(PartialEq, Eq)]
enum ProtocolTrait {
    /// Requests are conversations, to which the server applies its chat template.
    Chat,
    Model,
    TokenIds,
    IgnoreEos,
    /// Usage has the tokens of an answer, so that its text is not needed to count them.
    Usage,
}

impl Protocol {
    const fn facts(self) -> ProtocolFacts {
        use ProtocolTrait::{Chat, IgnoreEos, Model, TokenIds, Usage};
        const fn facts(path: &'static str, traits: &'static [ProtocolTrait]) -> ProtocolFacts {
            ProtocolFacts { path, whole_path: None, traits }
        }
        match self {
            Self::Completions => facts("/v1/completions", &[Model, TokenIds, IgnoreEos, Usage]),
            Self::Chat => facts("/v1/chat/completions", &[Chat, Model, IgnoreEos, Usage]),
            Self::Responses => facts("/v1/responses", &[Chat, Model, IgnoreEos, Usage]),
            Self::Messages => facts("/v1/messages", &[Chat, Model, Usage]),
            Self::SglangGenerate => facts("/generate", &[TokenIds]),
            Self::TgiGenerate => {
                ProtocolFacts { whole_path: Some("/generate"), ..facts("/generate_stream", &[]) }
            }
            Self::TensorRtLlm => ProtocolFacts {
                whole_path: Some("/v2/models/ensemble/generate"),
                ..facts("/v2/models/ensemble/generate_stream", &[])
            },
            Self::DeepspeedMii => facts("/v1/completions", &[Model]),
            Self::LlamaCpp => facts("/completion", &[TokenIds]),
            // Only streams have usage.
            Self::Transcription => facts("/v1/audio/transcriptions", &[Model, Usage]),
            // These generate nothing, so there is no text to count.
            Self::Pooling(route) => match route {
                PoolingRoute::Embeddings => facts("/v1/embeddings", &[Model, TokenIds, Usage]),
                PoolingRoute::EmbeddingsChat => facts("/v1/embeddings", &[Chat, Model, Usage]),
                PoolingRoute::Infinity => facts("/embeddings", &[Model, Usage]),
                PoolingRoute::Pooling => facts("/pooling", &[Model, TokenIds, Usage]),
                PoolingRoute::Classify => facts("/classify", &[Model, TokenIds, Usage]),
                PoolingRoute::Score => facts("/score", &[Model, Usage]),
                PoolingRoute::Rerank => facts("/rerank", &[Model, Usage]),
                PoolingRoute::CohereEmbed => facts("/v2/embed", &[Model, Usage]),
                PoolingRoute::TeiEmbed => facts("/embed", &[TokenIds, Usage]),
                PoolingRoute::TeiRerank => facts("/rerank", &[Usage]),
            },
        }
    }
}

/// The server product that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServerKind {
    Vllm,
    Sglang,
    Tgi,
    LlamaCpp,
    /// Any server with this protocol.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// `POST /reset_prefix_cache`: vLLM's server in its development mode.
    ResetPrefixCache,
    /// `POST /flush_cache` with the time to wait for running requests: SGLang's server.
    FlushCacheWithin,
    /// `POST /flush_cache`: other servers by SGLang's conventions.
    FlushCache,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backend {
    name: &'static str,
    protocol: Protocol,
    server: ServerKind,
    conventions: Option<Conventions>,
    path: &'static str,
    sglang_port: u16,
}

const fn row(name: &'static str, protocol: Protocol, server: ServerKind) -> Backend {
    let path = protocol.facts().path;
    Backend { name, protocol, server, conventions: None, path, sglang_port: 30000 }
}

const fn pooling(name: &'static str, route: PoolingRoute, server: ServerKind) -> Backend {
    row(name, Protocol::Pooling(route), server)
}

impl Backend {
    /// The row of a name that is `conventions`' own.
    const fn of(self, conventions: Conventions) -> Self {
        Self { conventions: Some(conventions), ..self }
    }

    const fn at(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    const fn port(self, sglang_port: u16) -> Self {
        Self { sglang_port, ..self }
    }
}

use Conventions::{Sglang, Vllm};

/// Every backend name. A name that both known clients use (`vllm`, `lmdeploy`) means vLLM's.
static BACKENDS: &[Backend] = &[
    row("openai", Protocol::Completions, ServerKind::Any).of(Vllm),
    row("vllm", Protocol::Completions, ServerKind::Vllm).of(Vllm).port(8000),
    row("openai-chat", Protocol::Chat, ServerKind::Any).of(Vllm),
    row("openai-responses", Protocol::Responses, ServerKind::Any).of(Vllm),
    row("anthropic", Protocol::Messages, ServerKind::Any),
    row("vllm-chat", Protocol::Chat, ServerKind::Vllm).of(Sglang),
    row("sglang", Protocol::SglangGenerate, ServerKind::Sglang).of(Sglang),
    row("sglang-native", Protocol::SglangGenerate, ServerKind::Sglang).of(Sglang),
    row("sglang-oai", Protocol::Completions, ServerKind::Sglang).of(Sglang),
    row("sglang-oai-chat", Protocol::Chat, ServerKind::Sglang).of(Sglang),
    row("tgi", Protocol::TgiGenerate, ServerKind::Tgi).of(Vllm).port(8000),
    row("tensorrt-llm", Protocol::TensorRtLlm, ServerKind::Any).of(Vllm).port(8000),
    row("trt", Protocol::TensorRtLlm, ServerKind::Any).of(Sglang).port(8000),
    row("lmdeploy", Protocol::Completions, ServerKind::Any).of(Vllm).port(23333),
    row("lmdeploy-chat", Protocol::Chat, ServerKind::Any).of(Sglang),
    row("scalellm", Protocol::Completions, ServerKind::Any).of(Vllm).port(8000),
    row("deepspeed-mii", Protocol::DeepspeedMii, ServerKind::Any).of(Vllm).port(8000),
    row("truss", Protocol::Completions, ServerKind::Any)
        .of(Sglang)
        .at("/v1/models/model:predict")
        .port(8080),
    row("openai-audio", Protocol::Transcription, ServerKind::Any).of(Vllm),
    row("llamacpp", Protocol::LlamaCpp, ServerKind::LlamaCpp).port(8080),
    row("llamacpp-oai", Protocol::Completions, ServerKind::LlamaCpp).port(8080),
    row("llamacpp-oai-chat", Protocol::Chat, ServerKind::LlamaCpp).port(8080),
    pooling("openai-embeddings", PoolingRoute::Embeddings, ServerKind::Any).of(Vllm),
    pooling("openai-embeddings-chat", PoolingRoute::EmbeddingsChat, ServerKind::Any).of(Vllm),
    pooling("infinity-embeddings", PoolingRoute::Infinity, ServerKind::Any).of(Vllm),
    pooling("vllm-pooling", PoolingRoute::Pooling, ServerKind::Vllm).of(Vllm),
    pooling("vllm-rerank", PoolingRoute::Rerank, ServerKind::Vllm).of(Vllm),
    pooling("vllm-classify", PoolingRoute::Classify, ServerKind::Vllm),
    pooling("vllm-score", PoolingRoute::Score, ServerKind::Vllm),
    pooling("sglang-embedding", PoolingRoute::Embeddings, ServerKind::Sglang).of(Sglang),
    pooling("vllm-embedding", PoolingRoute::Embeddings, ServerKind::Vllm).of(Sglang),
    pooling("cohere-embed", PoolingRoute::CohereEmbed, ServerKind::Any),
    pooling("cohere-rerank", PoolingRoute::Rerank, ServerKind::Any).at("/v2/rerank"),
    pooling("jina-rerank", PoolingRoute::Rerank, ServerKind::Any).at("/v1/rerank"),
    pooling("tei-embed", PoolingRoute::TeiEmbed, ServerKind::Any),
    pooling("tei-rerank", PoolingRoute::TeiRerank, ServerKind::Any),
];

impl Backend {
    pub fn named(name: &str) -> Option<&'static Self> {
        BACKENDS.iter().find(|backend| backend.name == name)
    }

    pub fn all() -> impl Iterator<Item = &'static Self> {
        BACKENDS.iter()
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    fn has(&self, wanted: &ProtocolTrait) -> bool {
        self.protocol.facts().traits.contains(wanted)
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub fn server(&self) -> ServerKind {
        self.server
    }

    /// The tool that the name comes from, which implies its conventions. `None`: no tool has this
    /// name, and a request contains only what it needs.
    pub fn conventions(&self) -> Option<Conventions> {
        self.conventions
    }

    /// The measured route, unless the user sets another one.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The same route for answers in one piece: TGI and Triton have a second one for them.
    pub fn whole_path(&self) -> &'static str {
        self.protocol.facts().whole_path.unwrap_or(self.path)
    }

    /// The default port. vLLM's client always uses 8000.
    pub fn port_by(&self, conventions: Conventions) -> u16 {
        match conventions {
            Vllm => 8000,
            Sglang => self.sglang_port,
        }
    }

    /// The route of the check whether the server is up. Triton has no `/v1/models`; SGLang's tool
    /// requests its root instead. Text Embeddings Inference has only `/health`.
    pub fn up_path_by(&self, conventions: Conventions) -> &'static str {
        if self.pooling().is_some_and(PoolingRoute::is_tei) {
            return "/health";
        }
        let is_triton = self.protocol == Protocol::TensorRtLlm;
        if is_triton && conventions == Sglang { "/" } else { "/v1/models" }
    }

    pub fn flush_by(&self, conventions: Conventions) -> Flush {
        match (conventions, self.server) {
            (Vllm, _) | (Sglang, ServerKind::Vllm) => Flush::ResetPrefixCache,
            (Sglang, ServerKind::Sglang) => Flush::FlushCacheWithin,
            (Sglang, ServerKind::Tgi | ServerKind::LlamaCpp | ServerKind::Any) => Flush::FlushCache,
        }
    }

    pub fn has_server_info(&self) -> bool {
        self.server == ServerKind::Sglang
    }

    /// The flavour of the simulated server whose streams fit it.
    pub fn flavour(&self) -> &'static str {
        match self.server {
            ServerKind::Sglang => "sglang",
            ServerKind::Tgi => "tgi",
            ServerKind::LlamaCpp => "llamacpp",
            ServerKind::Vllm | ServerKind::Any => "vllm",
        }
    }

    /// Whether it sends conversations and so lets the server apply its chat template.
    pub fn is_chat(&self) -> bool {
        self.has(&ProtocolTrait::Chat)
    }

    /// The route without generation that it measures. `None`: its answers are text.
    pub fn pooling(&self) -> Option<PoolingRoute> {
        match self.protocol {
            Protocol::Pooling(route) => Some(route),
            _ => None,
        }
    }

    pub fn is_pooling(&self) -> bool {
        self.pooling().is_some()
    }

    pub fn is_ranking(&self) -> bool {
        self.pooling().is_some_and(PoolingRoute::is_ranking)
    }

    /// Whether a request is an audio clip, sent as a file of a form.
    pub fn is_audio(&self) -> bool {
        self.protocol == Protocol::Transcription
    }

    pub fn is_openai(&self) -> bool {
        matches!(self.protocol, Protocol::Completions | Protocol::Chat)
    }

    /// Whether its requests may have `ignore_eos`, which makes an answer go on to its full length.
    pub fn takes_ignore_eos(&self) -> bool {
        self.has(&ProtocolTrait::IgnoreEos)
    }

    pub fn is_anthropic(&self) -> bool {
        self.protocol == Protocol::Messages
    }

    /// Whether the tokens of an answer are known from its usage, so that its text is not needed to
    /// count them.
    pub fn is_counted_by_usage(&self) -> bool {
        self.has(&ProtocolTrait::Usage)
    }

    pub fn sends_model(&self) -> bool {
        self.has(&ProtocolTrait::Model)
    }

    /// Whether its server refuses a model name that it does not list. llama.cpp's server accepts any name.
    pub fn checks_model(&self) -> bool {
        self.sends_model() && self.server != ServerKind::LlamaCpp
    }

    pub fn takes_token_ids(&self) -> bool {
        self.has(&ProtocolTrait::TokenIds)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn every_name_leads_to_itself() {
        for backend in Backend::all() {
            assert_eq!(Backend::named(backend.name()), Some(backend));
        }
        assert_eq!(Backend::named("vlm"), None);
    }

    /// Every name with every fact, as one page: a new row or a changed fact is seen here.
    #[test]
    fn every_fact_of_every_name() {
        let mut page = String::new();
        for backend in Backend::all() {
            let ports = [Vllm, Sglang].map(|conventions| backend.port_by(conventions));
            let up = [Vllm, Sglang].map(|conventions| backend.up_path_by(conventions));
            let flush = [Vllm, Sglang].map(|conventions| backend.flush_by(conventions));
            let short = |flush: Flush| match flush {
                Flush::ResetPrefixCache => "reset",
                Flush::FlushCacheWithin => "flush-within",
                Flush::FlushCache => "flush",
            };
            let tool = backend.conventions().map_or("-", Conventions::name);
            write!(page, "{} {tool} {} {} ", backend.name(), backend.path(), backend.whole_path())
                .unwrap();
            write!(page, "{}/{} {}|{} ", ports[0], ports[1], up[0], up[1]).unwrap();
            write!(page, "{}|{} {} ", short(flush[0]), short(flush[1]), backend.flavour()).unwrap();
            let yes = [
                backend.is_chat(),
                backend.is_openai(),
                backend.is_counted_by_usage(),
                backend.sends_model(),
                backend.checks_model(),
                backend.takes_token_ids(),
                backend.has_server_info(),
            ];
            writeln!(page, "{}", yes.map(|is_so| if is_so { "yes" } else { "-" }).join(" "))
                .unwrap();
        }
        assert_eq!(page, FACTS, "{page}");
    }

    /// name, tool, path, path of whole answers, ports by vLLM and by SGLang, up path by both, flush by both,
    /// simulator flavour; then: chat, a route of OpenAI's, counted by usage, sends a model, the server
    /// checks it, takes token ids, has `/server_info`.
    const FACTS: &str = "\
openai vllm /v1/completions /v1/completions 8000/30000 /v1/models|/v1/models reset|flush vllm - yes yes yes yes yes -
vllm vllm /v1/completions /v1/completions 8000/8000 /v1/models|/v1/models reset|reset vllm - yes yes yes yes yes -
openai-chat vllm /v1/chat/completions /v1/chat/completions 8000/30000 /v1/models|/v1/models reset|flush vllm yes yes yes yes yes - -
openai-responses vllm /v1/responses /v1/responses 8000/30000 /v1/models|/v1/models reset|flush vllm yes - yes yes yes - -
anthropic - /v1/messages /v1/messages 8000/30000 /v1/models|/v1/models reset|flush vllm yes - yes yes yes - -
vllm-chat sglang /v1/chat/completions /v1/chat/completions 8000/30000 /v1/models|/v1/models reset|reset vllm yes yes yes yes yes - -
sglang sglang /generate /generate 8000/30000 /v1/models|/v1/models reset|flush-within sglang - - - - - yes yes
sglang-native sglang /generate /generate 8000/30000 /v1/models|/v1/models reset|flush-within sglang - - - - - yes yes
sglang-oai sglang /v1/completions /v1/completions 8000/30000 /v1/models|/v1/models reset|flush-within sglang - yes yes yes yes yes yes
sglang-oai-chat sglang /v1/chat/completions /v1/chat/completions 8000/30000 /v1/models|/v1/models reset|flush-within sglang yes yes yes yes yes - yes
tgi vllm /generate_stream /generate 8000/8000 /v1/models|/v1/models reset|flush tgi - - - - - - -
tensorrt-llm vllm /v2/models/ensemble/generate_stream /v2/models/ensemble/generate 8000/8000 /v1/models|/ reset|flush vllm - - - - - - -
trt sglang /v2/models/ensemble/generate_stream /v2/models/ensemble/generate 8000/8000 /v1/models|/ reset|flush vllm - - - - - - -
lmdeploy vllm /v1/completions /v1/completions 8000/23333 /v1/models|/v1/models reset|flush vllm - yes yes yes yes yes -
lmdeploy-chat sglang /v1/chat/completions /v1/chat/completions 8000/30000 /v1/models|/v1/models reset|flush vllm yes yes yes yes yes - -
scalellm vllm /v1/completions /v1/completions 8000/8000 /v1/models|/v1/models reset|flush vllm - yes yes yes yes yes -
deepspeed-mii vllm /v1/completions /v1/completions 8000/8000 /v1/models|/v1/models reset|flush vllm - - - yes yes - -
truss sglang /v1/models/model:predict /v1/models/model:predict 8000/8080 /v1/models|/v1/models reset|flush vllm - yes yes yes yes yes -
openai-audio vllm /v1/audio/transcriptions /v1/audio/transcriptions 8000/30000 /v1/models|/v1/models reset|flush vllm - - yes yes yes - -
llamacpp - /completion /completion 8000/8080 /v1/models|/v1/models reset|flush llamacpp - - - - - yes -
llamacpp-oai - /v1/completions /v1/completions 8000/8080 /v1/models|/v1/models reset|flush llamacpp - yes yes yes - yes -
llamacpp-oai-chat - /v1/chat/completions /v1/chat/completions 8000/8080 /v1/models|/v1/models reset|flush llamacpp yes yes yes yes - - -
openai-embeddings vllm /v1/embeddings /v1/embeddings 8000/30000 /v1/models|/v1/models reset|flush vllm - - yes yes yes yes -
openai-embeddings-chat vllm /v1/embeddings /v1/embeddings 8000/30000 /v1/models|/v1/models reset|flush vllm yes - yes yes yes - -
infinity-embeddings vllm /embeddings /embeddings 8000/30000 /v1/models|/v1/models reset|flush vllm - - yes yes yes - -
vllm-pooling vllm /pooling /pooling 8000/30000 /v1/models|/v1/models reset|reset vllm - - yes yes yes yes -
vllm-rerank vllm /rerank /rerank 8000/30000 /v1/models|/v1/models reset|reset vllm - - yes yes yes - -
vllm-classify - /classify /classify 8000/30000 /v1/models|/v1/models reset|reset vllm - - yes yes yes yes -
vllm-score - /score /score 8000/30000 /v1/models|/v1/models reset|reset vllm - - yes yes yes - -
sglang-embedding sglang /v1/embeddings /v1/embeddings 8000/30000 /v1/models|/v1/models reset|flush-within sglang - - yes yes yes yes yes
vllm-embedding sglang /v1/embeddings /v1/embeddings 8000/30000 /v1/models|/v1/models reset|reset vllm - - yes yes yes yes -
cohere-embed - /v2/embed /v2/embed 8000/30000 /v1/models|/v1/models reset|flush vllm - - yes yes yes - -
cohere-rerank - /v2/rerank /v2/rerank 8000/30000 /v1/models|/v1/models reset|flush vllm - - yes yes yes - -
jina-rerank - /v1/rerank /v1/rerank 8000/30000 /v1/models|/v1/models reset|flush vllm - - yes yes yes - -
tei-embed - /embed /embed 8000/30000 /health|/health reset|flush vllm - - yes - - yes -
tei-rerank - /rerank /rerank 8000/30000 /health|/health reset|flush vllm - - yes - - - -
";
}
