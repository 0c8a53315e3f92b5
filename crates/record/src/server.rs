//! What the server said about itself while it was measured: lines of `server.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

/// One scrape of one metrics endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scrape {
    /// When the answer had arrived, on the client's monotonic clock.
    pub at: Nanos,
    /// Index into the list of scraped endpoints.
    pub endpoint: u16,
    /// Metric name, with its labels as printed, to value. Empty when the scrape failed.
    pub values: BTreeMap<String, f64>,
    /// Why the scrape failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
