//! What every request says.

use serde::{Deserialize, Serialize};
use tokometer_base::IgnoreEos;
use tokometer_client as client;
use tokometer_client::secret::ExtraBody;
use tokometer_client::settings::Delivery;

tokometer_base::partial! {
    /// What every request's body says.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Request / PartialRequest {
        /// End-of-sequence rule.
        pub ignore_eos: IgnoreEos,
        /// Stream or one piece.
        pub delivery: Delivery,
        /// Counts asked for.
        pub usage: client::UsageReports,
        /// Number of log probabilities per token; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub logprobs: Option<u32> = None,
        /// Beginning of every `x-request-id`; absent: no such header.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub request_id_prefix: Option<String> = None,
        /// What answers must be; absent: anything.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub structured: Option<client::Structured> = None,
        /// Tools that the model may call; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tools: Option<client::ToolSet> = None,
        /// Sampling parameters.
        pub sampling: client::Sampling as client::PartialSampling,
        /// Merged into every body. Values of secrets are not written.
        pub extra_body: ExtraBody as ExtraBody,
        /// Adapters that requests are spread over; absent: the model itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lora: Option<Lora> as Option<PartialLora>,
    }
}

/// Steepness of a skewed assignment when none is given, as in SGLang's tool.
const ZIPF_ALPHA: f64 = 1.5;

tokometer_base::partial! {
    /// Adapters and how they are assigned.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Lora / PartialLora {
        /// Their names.
        pub names: Vec<String>,
        /// How they are assigned.
        pub assignment: Assignment = Assignment::Random,
        /// Steepness of a skewed assignment.
        pub alpha: f64 = ZIPF_ALPHA,
    }
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
