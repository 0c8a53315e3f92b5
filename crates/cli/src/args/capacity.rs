//! Flags of `tokometer capacity`.

use clap::{Args, ValueEnum};
use tokometer_decide::capacity::LoadKind;
use tokometer_twin::Routing;

use super::{AddressArgs, BenchArgs};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Over {
    /// Requests per second (open loop)
    #[default]
    RequestRate,
    /// Requests in flight (closed loop)
    Concurrency,
}

impl From<Over> for LoadKind {
    fn from(over: Over) -> Self {
        match over {
            Over::RequestRate => Self::RequestRate,
            Over::Concurrency => Self::Concurrency,
        }
    }
}

/// Flags of `tokometer capacity`, besides those of `bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CapacityArgs {
    /// Objectives, such as "p99 ttft < 2s, p99 tpot < 100ms, goodput > 99%"
    #[arg(long, value_name = "OBJECTIVES", help_heading = "Search")]
    pub(crate) slo: String,
    /// Kind of load to vary
    #[arg(long, value_enum, default_value_t, help_heading = "Search")]
    pub(crate) over: Over,
    /// First load to try [default: 1; with --budget: 78 % of the highest throughput of a short staircase]
    #[arg(long, value_name = "LOAD", help_heading = "Search", hide_short_help = true)]
    pub(crate) start: Option<f64>,
    /// Highest load to try
    #[arg(
        long,
        default_value_t = 4096.0,
        value_name = "LOAD",
        help_heading = "Search",
        hide_short_help = true
    )]
    pub(crate) max: f64,
    /// Precision to aim for: half width of the 95 % confidence interval, relative to the result
    #[arg(
        long,
        default_value = "5%",
        value_name = "SHARE",
        help_heading = "Search",
        hide_short_help = true
    )]
    pub(crate) resolution: String,
    /// Maximum number of points to measure [default: 20; with --budget: as many as fit]
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) points: Option<usize>,
    /// Minimum duration of a point [default: 10s; with --budget: depends on the budget]
    #[arg(long, value_name = "TIME", help_heading = "Search", hide_short_help = true)]
    pub(crate) min_duration: Option<String>,
    /// Maximum duration of a point, without its preload; one third of it while the limit is bracketed [default: 180s; with --budget: depends on the budget]
    #[arg(long, value_name = "TIME", help_heading = "Search", hide_short_help = true)]
    pub(crate) max_duration: Option<String>,
    /// Number of GPUs behind the endpoint, for tokens per second per GPU
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) gpus: Option<u32>,
    #[command(flatten)]
    pub(crate) at: AddressArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

/// Flags of a search in virtual time.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Prediction instead of measurement")]
pub(crate) struct EngineArgs {
    /// Search in virtual time with this engine profile: the name of a built-in one, or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) engine: Option<String>,
    /// What-if: change a value of the profile; a list gives one search per value, such as cost.scale=1,1.1
    #[arg(long, value_name = "KEY=VALUES", requires = "engine", hide_short_help = true)]
    pub(crate) set: Vec<String>,
    /// Number of servers behind a router; a list gives one search per number [default: 1]
    #[arg(
        long,
        value_name = "LIST",
        requires = "engine",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(crate) replicas: Vec<usize>,
    /// Routing policy: round-robin, least-loaded, prefix-affinity or random2
    #[arg(
        long,
        value_name = "HOW",
        default_value = "round-robin",
        requires = "engine",
        hide_short_help = true
    )]
    pub(crate) router: Routing,
}
