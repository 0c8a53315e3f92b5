//! Questions outside the measurement.
use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::Value;
use tokometer_base::Nanos;

use crate::Error;
use crate::settings::Settings;
use crate::url::Url;

/// One answer to a control request, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers in their order.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// A model that the server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The name to send.
    pub id: String,
    /// Where its weights come from, such as a hub id.
    pub root: Option<String>,
    /// Longest prompt and answer together.
    pub max_model_len: Option<u32>,
}

/// Whether the server's own special tokens are part of a tokenization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// As in a request.
    Add,
    /// Only the text.
    Skip,
}

/// A blocking client of one server.
#[derive(Debug, Clone)]
pub struct Control {
    url: Url,
    tls: Option<Arc<ClientConfig>>,
    model: String,
    timeout: Nanos,
}

impl Control {
    /// A client with the run's address, headers and key. `tls` is needed for https only.
    pub fn new(settings: &Settings, tls: Option<Arc<ClientConfig>>, timeout: Nanos) -> Self {
        Self { url: settings.base_url.clone(), tls, model: settings.model.clone(), timeout }
    }

    /// `GET path`, whatever the status of the answer.
    pub fn get(&self, _path: &str) -> Result<Answer, Error> {
        let _unused = (&self.url, &self.tls, &self.model, self.timeout);
        Err(Error::Tls(String::new()))
    }

    /// `POST path` with a JSON body or none, whatever the status of the answer.
    pub fn post(&self, _path: &str, _body: Option<&Value>) -> Result<Answer, Error> {
        self.get("")
    }

    /// Whether `GET path` answers 200.
    pub fn ready(&self, path: &str) -> Result<(), Error> {
        self.get(path).map(|_| ())
    }

    /// `GET /v1/models`.
    pub fn models(&self) -> Result<Vec<Model>, Error> {
        self.get("").map(|_| Vec::new())
    }

    /// Token ids of a text, by the server.
    pub fn tokenize(&self, _text: &str, _special: SpecialTokens) -> Result<Vec<u32>, Error> {
        self.get("").map(|_| Vec::new())
    }

    /// The text of token ids, by the server.
    pub fn detokenize(&self, _ids: &[u32]) -> Result<String, Error> {
        self.get("").map(|_| String::new())
    }

    /// `GET /metrics`, in Prometheus' text form.
    pub fn metrics_text(&self) -> Result<String, Error> {
        self.get("").map(|_| String::new())
    }

    /// vLLM's `POST /reset_prefix_cache`.
    pub fn reset_prefix_cache(&self) -> Result<(), Error> {
        self.get("").map(|_| ())
    }

    /// SGLang's `POST /flush_cache`.
    pub fn flush_cache(&self) -> Result<(), Error> {
        self.get("").map(|_| ())
    }

    /// What the server says of itself: SGLang's `/server_info`, llama.cpp's `/props`, TGI's `/info`,
    /// vLLM's `/version`; the first that answers.
    pub fn server_info(&self) -> Result<Value, Error> {
        self.get("").map(|_| Value::Null)
    }

    /// `POST /start_profile`, with a body for SGLang.
    pub fn start_profile(&self, _options: Option<&Value>) -> Result<(), Error> {
        self.get("").map(|_| ())
    }

    /// `POST /stop_profile`.
    pub fn stop_profile(&self) -> Result<(), Error> {
        self.get("").map(|_| ())
    }
}
