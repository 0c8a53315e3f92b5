//! How this client works: connections, threads, timeouts, the reading of metrics.

use serde::Serialize;
use tokometer_client::conn::Stamps;
use tokometer_client::secret::Headers;
use tokometer_drive as drive;

use crate::secret::UrlText;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Client / PartialClient {
        pub connections: drive::Connections,
        pub socket_reads: drive::SocketReads,
        pub stamps: Stamps = Stamps::default(),
        /// Worker threads; absent: by the number of cores.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub workers: Option<u16> = None,
        /// Seconds for a whole request; absent: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_s: Option<f64> = None,
        pub connect_timeout_s: f64,
        /// Seconds from one piece of content to the next; zero or absent: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub stall_timeout_s: Option<f64> = None,
        pub retries: u32,
        pub retry_max_wait_s: f64 = drive::config::RETRY_MAX_WAIT.as_secs_f64(),
        /// Seconds between readings of the server's metrics; zero: none.
        pub scrape_interval_s: f64,
        /// Where metrics are read, one for each replica; empty: at the server itself.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub metrics_urls: Vec<UrlText> = Vec::new(),
        /// Sent to these addresses only. Only values of public headers are written.
        #[serde(skip_serializing_if = "Headers::is_empty")]
        pub metrics_headers: Headers = Headers::default(),
    }
}
