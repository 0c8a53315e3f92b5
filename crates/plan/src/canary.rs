//! Prompts with known answers, sent beside the load.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Canaries per request of the load, unless the user says otherwise.
const SHARE: f64 = 0.02;

tokometer_base::partial! {
    /// Canaries: greedy prompts whose answers show whether the server still answers as it should.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct CanaryPlan / PartialCanaryPlan {
        /// Sent one after the other, over and over.
        pub rows: Vec<CanaryRow>,
        pub share: f64 = SHARE,
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The prompt as a conversation, for chat routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Value>>,
    /// The exact answer, blanks around it apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// A regular expression that the answer must contain.
    #[serde(default, alias = "regex", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The limit of the answer. `None` sends a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
}
