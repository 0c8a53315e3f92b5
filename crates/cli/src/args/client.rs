//! Flags that change how this client works.

use clap::Args;

/// How this client works.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Client")]
pub(crate) struct ClientArgs {
    /// When connections are opened [default: the family's way]
    #[arg(long, value_name = "WHEN", value_parser = ["preopen", "on-demand", "per-request"])]
    pub(crate) connections: Option<String>,
    /// How sockets are read [default: adaptive]
    #[arg(long, value_name = "HOW", value_parser = ["eager", "adaptive"])]
    pub(crate) harvest: Option<String>,
    /// Whose clock stamps arrivals; `user` shows what a client without kernel stamps would report [default: kernel]
    #[arg(long, value_name = "CLOCK", value_parser = ["kernel", "user"])]
    pub(crate) stamps: Option<String>,
    /// Measure this client's own error at this load first, and print no digits below it
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Worker threads [default: by the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u16>,
    /// Give up on a request after this time [default: 6h]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Give up on a connection after this time [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(crate) connect_timeout: Option<String>,
    /// Give up on a stream that is silent for this time [default: never]
    #[arg(long, value_name = "TIME")]
    pub(crate) stall_timeout: Option<String>,
    /// Try failed requests again, this often; each attempt is recorded [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Seconds between readings of the server's /metrics; 0 switches them off [default: 1]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) scrape_interval: Option<f64>,
    /// Do not read the server's /metrics
    #[arg(long, conflicts_with = "scrape_interval")]
    pub(crate) no_scrape: bool,
    /// Where to read metrics, once for each replica [default: the server itself]
    #[arg(long, value_name = "URL")]
    pub(crate) metrics_url: Vec<String>,
}
