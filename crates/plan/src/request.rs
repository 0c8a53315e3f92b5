//! What every request says.

use serde::Serialize;
use tokometer_base::IgnoreEos;
use tokometer_client as client;
use tokometer_client::secret::ExtraBody;
use tokometer_client::settings::Delivery;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Request / PartialRequest {
        pub ignore_eos: IgnoreEos,
        pub delivery: Delivery,
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
        pub sampling: client::Sampling as client::PartialSampling,
        /// Merged into every body. Values of secrets are not written.
        pub extra_body: ExtraBody as ExtraBody,
    }
}
