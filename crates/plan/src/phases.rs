//! What happens around the measured phase.

use serde::{Deserialize, Serialize};
use tokometer_client::secret::ExtraBody;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Phases / PartialPhases {
        pub ready_timeout_s: f64,
        pub warmups: u64,
        /// Longest answer of such a request; absent: as in the run.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub warmup_output_max: Option<u32> = None,
        pub cache: Cache,
        /// Seconds to wait for that.
        pub flush_timeout_s: f64,
        pub profiler: Profiler,
        /// Body of the request that starts it; absent: by the rules of the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub profile_request: Option<ExtraBody> as Option<ExtraBody>,
        /// One-token side requests per second.
        pub probe_rate: f64,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    Keep,
    Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profiler {
    Off,
    On,
}
