//! Flags that say when requests are sent.

use clap::Args;
use tokometer_plan::{FlagValues, Rate};

/// When requests are sent.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Arrivals")]
pub(crate) struct ArrivalArgs {
    /// Requests per second, or inf; a list makes a sweep [default: inf]
    #[arg(long, short = 'r', value_name = "RATE")]
    pub(crate) request_rate: Option<FlagValues<Rate>>,
    /// Burstiness of arrivals: 1 is a Poisson process, below 1 burstier, inf constant intervals [default: 1]
    #[arg(long, value_name = "SHAPE")]
    pub(crate) burstiness: Option<Rate>,
    /// Maximum number of requests in flight; a list makes a sweep [default: no limit]
    #[arg(long, short = 'c', value_name = "N")]
    pub(crate) max_concurrency: Option<FlagValues<u64>>,
    /// Ramp the request rate up, linearly or exponentially
    #[arg(long, value_name = "HOW", value_parser = ["linear", "exponential"])]
    pub(crate) ramp_up_strategy: Option<String>,
    /// Request rate at the start of the ramp-up
    #[arg(long, value_name = "RATE")]
    pub(crate) ramp_up_start_rps: Option<f64>,
    /// Request rate at the end of the ramp-up
    #[arg(long, value_name = "RATE")]
    pub(crate) ramp_up_end_rps: Option<f64>,
    /// Warm-up requests, sent before the measured phase with different content [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) num_warmups: Option<u64>,
    /// Warm-up requests of at most 32 output tokens, as in SGLang's `bench_serving`
    #[arg(long, value_name = "N")]
    pub(crate) warmup_requests: Option<u64>,
    /// Rate of one-token probe requests, sent in addition to the load [default: 0]
    #[arg(long, value_name = "RATE")]
    pub(crate) probe_request_rate: Option<f64>,
    /// Random seed; if given, the prompts are also the same in every run [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}
