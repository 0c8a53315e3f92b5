//! Flags of `tokometer predict`.

use clap::Args;
use tokometer_twin::Routing;

use super::BenchArgs;

/// Flags of `tokometer predict`, besides those of `bench`, of which the target's have no effect.
#[derive(Debug, Clone, Args)]
pub(crate) struct PredictArgs {
    /// Engine profile: the name of a built-in profile, or a file
    #[arg(
        long,
        value_name = "NAME|FILE",
        required_unless_present = "roofline",
        help_heading = "Engine"
    )]
    pub(crate) engine: Option<String>,
    /// Engine from a data sheet, without measurements: "params=70e9 bytes=2 gpus=8 tflops=800 gbs=3350"
    #[arg(long, value_name = "DATA SHEET", help_heading = "Engine")]
    pub(crate) roofline: Option<String>,
    /// What-if: change a value of the profile, such as cost.scale=1.1
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Engine")]
    pub(crate) set: Vec<String>,
    /// Number of servers behind a router
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Engine")]
    pub(crate) replicas: usize,
    /// Routing policy: round-robin, least-loaded, prefix-affinity or random2
    #[arg(
        long,
        value_name = "HOW",
        default_value = "round-robin",
        help_heading = "Engine",
        hide_short_help = true
    )]
    pub(crate) router: Routing,
    /// Add the overhead of the older single-threaded clients [default: 1.5,0.05]
    #[arg(
        long,
        value_name = "REQUEST_MS,EVENT_MS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1.5,0.05",
        help_heading = "Engine",
        hide_short_help = true
    )]
    pub(crate) old_client: Option<String>,
    /// Explain what limited the run
    #[arg(long, help_heading = "Engine")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}
