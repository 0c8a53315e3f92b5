//! Two targets measured in turn.

use serde::Serialize;

tokometer_base::partial! {
    /// How two targets take turns.
    #[derive(Debug, Clone, PartialEq, Default, Serialize)]
    pub struct Interleave / PartialInterleave {
        /// Requests of one block; zero: chosen when the plan is made.
        pub block_requests: u64 = 0,
        /// Length of a block in seconds, from which its requests follow; absent: they are given.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub block_s: Option<f64> = None,
        /// Run with `a` or `b` before a block of the other side; absent: there are two servers.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub switch_command: Option<String> = None,
    }
}
