//! Two targets measured in turn.

use serde::{Deserialize, Serialize};

/// How two targets take turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interleave {
    /// Requests of one block; zero: chosen when the plan is made.
    #[serde(default)]
    pub block_requests: u64,
    /// Length of a block in seconds, from which its requests follow; absent: they are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_s: Option<f64>,
    /// Run with `a` or `b` before a block of the other side; absent: there are two servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_command: Option<String>,
}
