//! Flags that say when requests are sent.

use clap::Args;
use tokometer_plan::{Rate, Values};

/// When requests are sent.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Arrivals")]
pub(crate) struct ArrivalArgs {
    /// Requests per second, or inf; a list makes a sweep [default: inf]
    #[arg(long, value_name = "RATE")]
    pub(crate) request_rate: Option<Values<Rate>>,
    /// Shape of the gaps: 1 is a Poisson process, below burstier, inf constant [default: 1]
    #[arg(long, value_name = "SHAPE")]
    pub(crate) burstiness: Option<Rate>,
    /// Most requests in flight; a list makes a sweep [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrency: Option<Values<u64>>,
    /// Let the rate rise from a first to a last value
    #[arg(long, value_name = "HOW", value_parser = ["linear", "exponential"])]
    pub(crate) ramp_up_strategy: Option<String>,
    /// First rate of the ramp
    #[arg(long, value_name = "RATE")]
    pub(crate) ramp_up_start_rps: Option<f64>,
    /// Last rate of the ramp
    #[arg(long, value_name = "RATE")]
    pub(crate) ramp_up_end_rps: Option<f64>,
    /// Requests before the measured phase, with content of their own [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) num_warmups: Option<u64>,
    /// The same, with answers of at most 32 tokens, as SGLang's tool does
    #[arg(long, value_name = "N")]
    pub(crate) warmup_requests: Option<u64>,
    /// One-token side requests per second, besides the load [default: 0]
    #[arg(long, value_name = "RATE")]
    pub(crate) probe_request_rate: Option<f64>,
    /// Root of all randomness; given explicitly it also repeats the content [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}
