//! What the server said about itself while it was measured: lines of `server.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use tokometer_base::Nanos;

/// Name under which a scrape keeps the accept length that SGLang's `/server_info` reports: the mean over
/// the server's life, which is what SGLang's own benchmark prints.
pub const SERVER_INFO_ACCEPT_LENGTH: &str = "server_info:avg_spec_accept_length";

/// One scrape of one metrics endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scrape {
    /// When the answer had arrived, on the client's monotonic clock.
    pub at: Nanos,
    /// Index into the list of scraped endpoints.
    pub endpoint: u16,
    /// Metric name, with its labels as printed, to value. Empty when the scrape failed. A metric that
    /// the server knows no value of (`NaN`) is absent after reading: JSON has no such number.
    #[serde(deserialize_with = "known")]
    pub values: BTreeMap<String, f64>,
    /// Why the scrape failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn known<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let all: BTreeMap<String, Option<f64>> = Deserialize::deserialize(from)?;
    Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SGLang reports an occupancy of `NaN` until it has one. Every scrape of such a server was
    /// written and none could be read again.
    #[test]
    fn a_metric_without_a_value_does_not_lose_the_others() {
        let scrape = Scrape {
            at: Nanos(5),
            endpoint: 0,
            values: [("occupancy".to_owned(), f64::NAN), ("running".to_owned(), 4.0)].into(),
            error: None,
        };
        let line = serde_json::to_string(&scrape).unwrap();
        let again: Scrape = serde_json::from_str(&line).unwrap();
        assert_eq!(again.values, [("running".to_owned(), 4.0)].into());
    }
}
