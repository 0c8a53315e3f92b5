//! Backend names as users type them, and what each name implies.

use serde::{Deserialize, Serialize};

use super::protocol::Protocol;

/// Whose client's rules hold where the known clients disagree about bodies and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// `vllm bench serve` and its ancestors.
    Vllm,
    /// SGLang's `bench_serving`.
    Sglang,
    /// Nobody's: only what the request needs.
    Plain,
}

/// One backend name: a protocol and the habits that come with the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    name: &'static str,
    protocol: Protocol,
    family: Family,
    path: &'static str,
    /// Port in SGLang's client; vLLM's always means 8000.
    sglang_port: u16,
}

const fn row(
    name: &'static str,
    protocol: Protocol,
    family: Family,
    path: &'static str,
    sglang_port: u16,
) -> Dialect {
    Dialect { name, protocol, family, path, sglang_port }
}

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";
const TRITON: &str = "/v2/models/ensemble/generate_stream";

/// Every backend name. A name that both known clients use (`vllm`, `lmdeploy`) means vLLM's.
static BACKENDS: [Dialect; 19] = [
    row("openai", Protocol::Completions, Family::Vllm, COMPLETIONS, 30000),
    row("vllm", Protocol::Completions, Family::Vllm, COMPLETIONS, 8000),
    row("openai-chat", Protocol::Chat, Family::Vllm, CHAT, 30000),
    row("vllm-chat", Protocol::Chat, Family::Sglang, CHAT, 30000),
    row("sglang", Protocol::SglangGenerate, Family::Sglang, "/generate", 30000),
    row("sglang-native", Protocol::SglangGenerate, Family::Sglang, "/generate", 30000),
    row("sglang-oai", Protocol::Completions, Family::Sglang, COMPLETIONS, 30000),
    row("sglang-oai-chat", Protocol::Chat, Family::Sglang, CHAT, 30000),
    row("tgi", Protocol::TgiGenerate, Family::Vllm, "/generate_stream", 8000),
    row("tensorrt-llm", Protocol::TensorRtLlm, Family::Vllm, TRITON, 8000),
    row("trt", Protocol::TensorRtLlm, Family::Sglang, TRITON, 8000),
    row("lmdeploy", Protocol::Completions, Family::Vllm, COMPLETIONS, 23333),
    row("lmdeploy-chat", Protocol::Chat, Family::Sglang, CHAT, 30000),
    row("scalellm", Protocol::Completions, Family::Vllm, COMPLETIONS, 8000),
    row("deepspeed-mii", Protocol::DeepspeedMii, Family::Vllm, COMPLETIONS, 8000),
    row("truss", Protocol::Completions, Family::Sglang, "/v1/models/model:predict", 8080),
    row("llamacpp", Protocol::LlamaCpp, Family::Plain, "/completion", 8080),
    row("llamacpp-oai", Protocol::Completions, Family::Plain, COMPLETIONS, 8080),
    row("llamacpp-oai-chat", Protocol::Chat, Family::Plain, CHAT, 8080),
];

impl Dialect {
    /// The dialect behind a backend name.
    pub fn named(name: &str) -> Option<Self> {
        BACKENDS.iter().find(|dialect| dialect.name == name).copied()
    }

    /// All backend names, the most used first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BACKENDS.iter().map(|dialect| dialect.name)
    }

    /// The backend name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its wire protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whose rules the name implies.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The route it is measured at unless the user names another.
    pub fn default_path(&self) -> &'static str {
        self.path
    }

    /// The port meant when none is given.
    pub fn default_port(&self, family: Family) -> u16 {
        match family {
            Family::Vllm => 8000,
            Family::Sglang | Family::Plain => self.sglang_port,
        }
    }

    /// Whether it sends conversations and so lets the server apply its chat template.
    pub fn is_chat(&self) -> bool {
        self.protocol == Protocol::Chat
    }

    /// Whether it speaks one of OpenAI's routes, whose servers tell counts when asked.
    pub fn is_openai(&self) -> bool {
        matches!(self.protocol, Protocol::Completions | Protocol::Chat)
    }

    /// Whether a prompt may be sent as token ids.
    pub fn takes_token_ids(&self) -> bool {
        matches!(
            self.protocol,
            Protocol::Completions | Protocol::SglangGenerate | Protocol::LlamaCpp
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_itself_and_names_have_their_clients_ports() {
        for name in Dialect::names() {
            assert_eq!(Dialect::named(name).unwrap().name(), name);
        }
        assert_eq!(Dialect::named("vlm"), None);
        let port = |name| {
            let dialect = Dialect::named(name).unwrap();
            (dialect.default_port(dialect.family()), dialect.default_port(Family::Sglang))
        };
        assert_eq!(port("vllm"), (8000, 8000));
        assert_eq!(port("lmdeploy"), (8000, 23333));
        assert_eq!(port("sglang"), (30000, 30000));
        assert_eq!(port("truss"), (8080, 8080));
        assert_eq!(port("llamacpp"), (8080, 8080));
    }
}
