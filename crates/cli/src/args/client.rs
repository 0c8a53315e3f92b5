//! Flags that change how this client works.

use clap::Args;

/// How this client works.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Client")]
pub(crate) struct ClientArgs {
    /// When connections are opened [default: auto, before a burst and otherwise on demand; SGLang's conventions: per-request]
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "preopen", "on-demand", "per-request"])]
    pub(crate) connections: Option<String>,
    /// When sockets are read: as soon as they are readable, or about once per millisecond where no two events can merge [default: adaptive]
    #[arg(long, value_name = "HOW", value_parser = ["eager", "adaptive"])]
    pub(crate) harvest: Option<String>,
    /// Source of arrival timestamps; `user` shows what a client without kernel timestamps reports [default: kernel]
    #[arg(long, value_name = "CLOCK", value_parser = ["kernel", "user"])]
    pub(crate) stamps: Option<String>,
    /// Measure this client's own timing error at this load first, and omit digits below it
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Number of worker threads [default: depends on the number of cores]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<u16>,
    /// Timeout of a request; 0 disables it [default: 6h]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Timeout for opening a connection [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(crate) connect_timeout: Option<String>,
    /// Timeout from one token of a stream to the next; 0 disables it [default: 120s]
    #[arg(long, value_name = "TIME")]
    pub(crate) stall_timeout: Option<String>,
    /// Retries of a failed request; every attempt is recorded [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Longest wait before a retry, whatever `Retry-After` says [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) retry_max_wait: Option<String>,
    /// Seconds between scrapes of the server's /metrics; 0 disables them [default: 1]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) scrape_interval: Option<f64>,
    /// Do not scrape the server's /metrics
    #[arg(long, conflicts_with = "scrape_interval")]
    pub(crate) no_scrape: bool,
    /// URL to scrape metrics from; repeat it for each replica [default: the server itself]
    #[arg(long, value_name = "URL")]
    pub(crate) metrics_url: Vec<String>,
}
