//! The smallest request that a backend accepts, for side probes.

use serde_json::{Value, json};
use tokometer_base::{IgnoreEos, Prompt};

use crate::Error;
use crate::dialect::{Dialect, rules_of, smallest_pooling_prompt};
use crate::prepare::RequestInput;
use crate::settings::{Delivery, Sampling, Settings};

#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    pub path: String,
    /// Requests one token, without streaming.
    pub body: Value,
}

impl Dialect {
    /// The prompt `Hi` with a limit of one output token.
    pub fn probe(&self, settings: &Settings) -> Result<Probe, Error> {
        let own = if self.is_openai() { self.path() } else { self.whole_path() };
        let path = settings.path.as_deref().unwrap_or(own);
        let slash = if path.starts_with('/') { "" } else { "/" };
        let body = if self.is_chat() && self.is_openai() {
            let messages = json!([{ "role": "user", "content": "Hi" }]);
            json!({ "model": settings.model, "max_tokens": 1, "messages": messages })
        } else if self.is_openai() {
            json!({ "model": settings.model, "max_tokens": 1, "prompt": "Hi" })
        } else {
            self.own_probe(settings)?
        };
        Ok(Probe { path: format!("{slash}{path}"), body })
    }

    /// A request for the whole answer to `prompt` at temperature 0, without constraints and tools.
    pub fn greedy(&self, settings: &Settings, prompt: &Prompt) -> Result<Probe, Error> {
        let mut greedy = settings.clone();
        greedy.delivery = Delivery::Whole;
        greedy.sampling = Sampling { temperature: Some(0.0), ..Sampling::default() };
        greedy.ignore_eos = IgnoreEos::Off;
        (greedy.structured, greedy.tools, greedy.logprobs) = (None, None, None);
        let request = self.prepare(&greedy, &RequestInput::new(prompt, 0))?;
        let path = settings.path.as_deref().unwrap_or(self.whole_path());
        let slash = if path.starts_with('/') { "" } else { "/" };
        let body = serde_json::from_slice(request.body()).unwrap_or_default();
        Ok(Probe { path: format!("{slash}{path}"), body })
    }

    /// The text of an answer in one piece; empty where it has none.
    pub fn text_of(&self, body: &[u8]) -> String {
        let fields = rules_of(self.protocol()).read_whole(body).unwrap_or_default();
        let text = fields.text.or(fields.whole_text);
        text.map(|text| text.to_text()).unwrap_or_default()
    }

    /// The probe body of a protocol with its own field names, without the sampling and extra fields
    /// of the measured requests.
    fn own_probe(self, settings: &Settings) -> Result<Value, Error> {
        let mut plain = Settings::new(settings.base_url.clone(), settings.model.clone());
        plain.delivery = Delivery::Whole;
        let mut prompt = Prompt { output_tokens: Some(1), ..Prompt::text("Hi") };
        if let Some(route) = self.pooling() {
            prompt.content = smallest_pooling_prompt(route);
        }
        let request = self.prepare(&plain, &RequestInput::new(&prompt, 0))?;
        Ok(serde_json::from_slice(request.body()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::tests::settings;

    /// Probes in OpenAI's format were refused by servers without OpenAI's routes.
    #[test]
    fn a_probe_uses_the_protocol_of_its_backend() {
        let check = |name: &str, path: &str, pointer: &str, expected: Value| {
            let probe = Dialect::named(name).unwrap().probe(&settings()).unwrap();
            assert_eq!(probe.path, path, "{name}");
            assert_eq!(probe.body.pointer(pointer), Some(&expected), "{name}: {}", probe.body);
        };
        check("vllm", "/v1/completions", "/prompt", json!("Hi"));
        check("openai-chat", "/v1/chat/completions", "/messages/0/content", json!("Hi"));
        check("openai-responses", "/v1/responses", "/input", json!("Hi"));
        check("anthropic", "/v1/messages", "/messages/0/content", json!("Hi"));
        check("sglang", "/generate", "/text", json!("Hi"));
        check("sglang", "/generate", "/sampling_params/max_new_tokens", json!(1));
        check("tgi", "/generate", "/inputs", json!("Hi"));
        check("trt", "/v2/models/ensemble/generate", "/text_input", json!("Hi"));
        check("llamacpp", "/completion", "/n_predict", json!(1));
        check("openai-embeddings", "/v1/embeddings", "/input", json!("Hi"));
        check("vllm-rerank", "/rerank", "/documents/0", json!("Hi"));
        for name in Dialect::names().filter(|name| *name != "openai-audio") {
            let probe = Dialect::named(name).unwrap().probe(&settings()).unwrap();
            assert!(probe.body.to_string().contains("\"Hi\""), "{name}");
            assert_ne!(probe.body.get("stream"), Some(&json!(true)), "{name}");
        }
    }
}
