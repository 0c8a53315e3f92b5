//! Scrapes of the server's metrics: lines of `server.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use tokometer_base::Nanos;

/// Key under which a scrape stores the accept length from SGLang's `/server_info`: the mean since the
/// server started, which SGLang's own benchmark prints.
pub const SERVER_INFO_ACCEPT_LENGTH: &str = "server_info:avg_spec_accept_length";

/// The metric with which servers report when their process started, in seconds since 1970. It
/// distinguishes a restarted server from the same one.
pub const PROCESS_START: &str = "process_start_time_seconds";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scrape {
    /// When the response had arrived, on the client's monotonic clock.
    pub at: Nanos,
    /// Index in the list of scraped endpoints.
    pub endpoint: u16,
    /// Metric name with its labels, to value. Empty when the scrape failed. A metric whose value is
    /// `NaN` is absent after reading: JSON has no such number.
    #[serde(deserialize_with = "known")]
    pub values: BTreeMap<String, f64>,
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
    /// written and none could be read back.
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
