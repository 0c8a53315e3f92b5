//! How this client works: connections, threads, timeouts, the reading of metrics.

use serde::Serialize;
use tokometer_client::conn::Stamps;
use tokometer_drive as drive;

use crate::secret::UrlText;

tokometer_base::partial! {
    /// How this client works.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Client / PartialClient {
        /// When connections are opened.
        pub connections: drive::Connections,
        /// How sockets are read.
        pub harvest: drive::Harvest,
        /// Which clock stamps received data.
        pub stamps: Stamps = Stamps::default(),
        /// Worker threads; absent: by the number of cores.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub workers: Option<u16> = None,
        /// Seconds for a whole request; absent: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_s: Option<f64> = None,
        /// Seconds for a connection.
        pub connect_timeout_s: f64,
        /// Seconds from one piece of content to the next; zero or absent: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stall_timeout_s: Option<f64> = None,
        /// Further attempts of a failed request.
        pub retries: u32,
        /// Longest wait before another attempt, in seconds.
        pub retry_max_wait_s: f64 = drive::config::RETRY_MAX_WAIT.as_secs_f64(),
        /// Seconds between readings of the server's metrics; zero: none.
        pub scrape_interval_s: f64,
        /// Where metrics are read, one for each replica; empty: at the server itself.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub metrics_urls: Vec<UrlText> = Vec::new(),
    }
}
