//! How this client works: connections, threads, timeouts, the reading of metrics.

use serde::{Deserialize, Serialize};
use tokometer_client::conn::Stamps;
use tokometer_drive as drive;

/// How this client works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// When connections are opened.
    pub connections: drive::Connections,
    /// How sockets are read.
    pub harvest: drive::Harvest,
    /// Whose clock stamps what arrives.
    #[serde(default)]
    pub stamps: Stamps,
    /// Worker threads; absent: by the number of cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// Seconds for a whole request; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Seconds for a connection.
    pub connect_timeout_s: f64,
    /// Seconds of silence in an answer; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_timeout_s: Option<f64>,
    /// Further attempts of a failed request.
    pub retries: u32,
    /// Seconds between readings of the server's metrics; zero: none.
    pub scrape_interval_s: f64,
    /// Where metrics are read, one for each replica; empty: at the server itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics_urls: Vec<String>,
}
