//! Settings that all requests of a run share.
//!
//! Resolved before the run and read-only afterwards. A value of `None` is not sent, unless the client
//! of the chosen conventions sends a default (see [`crate::dialect`]).

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tokometer_base::redact::{Secrets, hide_in_url};
use tokometer_base::{Conventions, IgnoreEos};

use crate::proxy::Proxy;
use crate::secret::{ApiKey, ExtraBody, Headers};
use crate::structured::{Structured, ToolSet};
use crate::url::Url;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageReports {
    Off,
    #[default]
    AtEnd,
    /// In every event: exact counts per event, at a cost for the server.
    Continuous,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// One event per token or group of tokens.
    #[default]
    Streamed,
    Whole,
}

tokometer_base::partial! {
    /// Sampling parameters. `None` leaves the value to the server.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    pub struct Sampling / PartialSampling {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub temperature: Option<f64> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub top_p: Option<f64> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub top_k: Option<i64> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub min_p: Option<f64> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub frequency_penalty: Option<f64> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub presence_penalty: Option<f64> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub repetition_penalty: Option<f64> = None,
        /// `seed` of the server's sampler.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub seed: Option<i64> = None,
    }
}

#[derive(Clone, PartialEq)]
pub struct Settings {
    pub base_url: Url,
    /// Path relative to the base URL. `None` uses the dialect's own.
    pub path: Option<String>,
    pub model: String,
    /// The tool whose client's body fields are sent. `None` uses the tool that the backend is named
    /// after, or no extra fields if there is none.
    pub conventions: Option<Conventions>,
    pub delivery: Delivery,
    pub usage: UsageReports,
    /// Whether generation may end before the requested length.
    pub ignore_eos: IgnoreEos,
    /// `None` fields are left to the server.
    pub sampling: Sampling,
    pub logprobs: Option<u32>,
    pub structured: Option<Structured>,
    pub tools: Option<ToolSet>,
    /// Merged into every body; overrides all other fields.
    pub extra_body: ExtraBody,
    /// Added to every request; override the client's own headers.
    pub headers: Headers,
    /// `x-request-id` is this prefix and the request's index. `None` sends no such header.
    pub request_id_prefix: Option<String>,
    pub api_key: Option<ApiKey>,
    pub forward: Option<Proxy>,
    /// Secrets of the process that these settings do not send. A server may still know them.
    pub other_secrets: Secrets,
    /// Filled when the first connection needs it.
    pub shared_secrets: SharedSecrets,
}

/// All secrets of a [`Settings`], collected once: every connection needs them, and collecting them
/// takes longer than opening one may. A copy collects its own, because its fields may be changed.
#[derive(Debug, Default)]
pub struct SharedSecrets(OnceLock<Arc<Secrets>>);

impl Clone for SharedSecrets {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Whether they are collected yet is no difference.
impl PartialEq for SharedSecrets {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// Without what may be a secret in the path.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("base_url", &self.base_url)
            .field("path", &self.path.as_deref().map(hide_in_url))
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Settings {
    pub fn new(base_url: Url, model: impl Into<String>) -> Self {
        Self {
            base_url,
            path: None,
            model: model.into(),
            conventions: None,
            delivery: Delivery::default(),
            usage: UsageReports::default(),
            ignore_eos: IgnoreEos::default(),
            sampling: Sampling::default(),
            logprobs: None,
            structured: None,
            tools: None,
            extra_body: ExtraBody::default(),
            headers: Headers::default(),
            request_id_prefix: None,
            api_key: None,
            forward: None,
            other_secrets: Secrets::new(),
            shared_secrets: SharedSecrets::default(),
        }
    }

    /// The same as [`Settings::secrets`], collected once.
    pub(crate) fn shared_secrets(&self) -> Arc<Secrets> {
        Arc::clone(self.shared_secrets.0.get_or_init(|| Arc::new(self.secrets())))
    }

    /// Every secret that is sent, and the others that are known.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::new();
        self.headers.add_to(&mut secrets);
        self.base_url.add_to(&mut secrets);
        secrets.add_url(self.path.as_deref().unwrap_or_default());
        secrets.extend(&self.other_secrets);
        secrets.remove_public(&self.model);
        self.extra_body.add_to(&mut secrets);
        if let Some(key) = &self.api_key {
            secrets.add(key.expose());
        }
        if let Some(value) = self.forward.as_ref().and_then(Proxy::authorization) {
            secrets.add(value.trim_start_matches("Basic "));
        }
        secrets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_never_show_their_keys() {
        let mut settings = Settings::new(Url::http("127.0.0.1", 8000), "tiny");
        settings.api_key = Some(ApiKey::Bearer("verysecret".to_owned()));
        settings.path = Some("/v1?code=pathsecret".to_owned());
        settings.base_url.query = Some("sig=urlsecret".to_owned());
        assert!(!format!("{settings:?}").contains("secret"), "{settings:?}");
        for secret in ["verysecret", "pathsecret", "urlsecret"] {
            assert_eq!(settings.secrets().redact_exact(secret), "[redacted]");
            assert_eq!(settings.shared_secrets().redact_exact(secret), "[redacted]");
        }
        let mut copy = settings.clone();
        copy.path = Some("/v1?code=othersecret".to_owned());
        assert_eq!(copy.shared_secrets().redact_exact("othersecret"), "[redacted]");
    }
}
