//! What every request says.

use serde::{Deserialize, Serialize};
use tokometer_client as client;
use tokometer_client::secret::ExtraBody;
use tokometer_client::settings::Delivery;

/// What every request's body says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// End-of-sequence rule.
    pub ignore_eos: client::IgnoreEos,
    /// Stream or one piece.
    pub delivery: Delivery,
    /// Counts asked for.
    pub usage: client::UsageReports,
    /// Log probabilities per token; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u32>,
    /// Beginning of every `x-request-id`; absent: no such header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id_prefix: Option<String>,
    /// Sampling parameters.
    #[serde(default)]
    pub sampling: client::Sampling,
    /// Merged into every body. Fields that hold keys are not written.
    #[serde(default)]
    pub extra_body: ExtraBody,
    /// Adapters that requests are spread over; absent: the model itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<Lora>,
}

/// Adapters and how they are assigned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// Their names.
    pub names: Vec<String>,
    /// How they are assigned.
    pub assignment: Assignment,
    /// Steepness of a skewed assignment.
    pub alpha: f64,
}

/// How adapters are assigned to requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// Each equally likely.
    #[serde(alias = "uniform")]
    Random,
    /// In turn.
    #[serde(alias = "distinct")]
    RoundRobin,
    /// The first most often, each next one `alpha` times less.
    Skewed,
}
