//! What every request of a run has in common.
//!
//! A `Settings` is resolved before the run and read-only after. A value of `None` is not sent,
//! except where the chosen tool's own client would send a value of its own (see
//! [`crate::dialect`]).

use serde::{Deserialize, Serialize};
use tokometer_base::Conventions;

use crate::secret::{ApiKey, ExtraBody, Headers};
use crate::url::Url;

/// Whether the model may end its answer before the asked length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoreEos {
    /// It may.
    #[default]
    Off,
    /// It may not, because the workload implies so. Left out when a server refuses the field.
    Implied,
    /// It may not, because the user asked. A refusal is then a failure.
    Asked,
}

/// The counts to ask the server for in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageReports {
    /// Not asked for.
    Off,
    /// Once, at the end.
    #[default]
    AtEnd,
    /// With every event: exact counts per event, at a cost to the server.
    Continuous,
}

/// How the answer comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Event by event.
    #[default]
    Streamed,
    /// In one piece.
    Whole,
}

tokometer_base::partial! {
    /// Sampling parameters. Absent ones are left to the server.
    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
    pub struct Sampling / PartialSampling {
        /// `temperature`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub temperature: Option<f64> = None,
        /// `top_p`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub top_p: Option<f64> = None,
        /// `top_k`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub top_k: Option<i64> = None,
        /// `min_p`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub min_p: Option<f64> = None,
        /// `frequency_penalty`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub frequency_penalty: Option<f64> = None,
        /// `presence_penalty`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub presence_penalty: Option<f64> = None,
        /// `repetition_penalty`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub repetition_penalty: Option<f64> = None,
        /// `seed` of the server's sampler.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub seed: Option<i64> = None,
    }
}

/// What every request of a run has in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The server.
    pub base_url: Url,
    /// Route below the base URL; the dialect's own when absent.
    pub path: Option<String>,
    /// Model name as the server knows it.
    pub model: String,
    /// Whose client's body fields are sent; absent: those of the tool whose name the backend is. A
    /// backend that is no tool's name sends none of either.
    pub conventions: Option<Conventions>,
    /// Event by event or in one piece.
    pub delivery: Delivery,
    /// Counts asked for.
    pub usage: UsageReports,
    /// End-of-sequence rule.
    pub ignore_eos: IgnoreEos,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Number of log probabilities per token.
    pub logprobs: Option<u32>,
    /// Merged into every body, over everything else.
    pub extra_body: ExtraBody,
    /// Sent with every request, over our own headers.
    pub headers: Headers,
    /// `x-request-id` is this and the request's index. Absent: no such header.
    pub request_id_prefix: Option<String>,
    /// Key for the server.
    pub api_key: Option<ApiKey>,
}

impl Settings {
    /// Settings that send nothing beyond what a request needs.
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
            extra_body: ExtraBody::default(),
            headers: Headers::default(),
            request_id_prefix: None,
            api_key: None,
        }
    }

    /// Every secret that these settings hold, for [`tokometer_base::redact::redact`].
    pub fn secrets(&self) -> Vec<String> {
        let key = self.api_key.as_ref().map(ApiKey::expose);
        let all = key.into_iter().chain(self.headers.secrets()).chain(self.extra_body.secrets());
        all.map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_never_show_their_keys() {
        let mut settings = Settings::new(Url::http("127.0.0.1", 8000), "tiny");
        settings.api_key = Some(ApiKey::Bearer("verysecret".to_owned()));
        assert!(!format!("{settings:?}").contains("verysecret"));
        assert_eq!(settings.secrets(), ["verysecret"]);
    }
}
