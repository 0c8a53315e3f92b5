//! Flags that say when a run ends.

use clap::Args;
use tokometer_plan::FlagValues;

/// When a run ends.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Stop")]
pub(crate) struct StopArgs {
    /// Requests to send; a list makes a sweep [default: 1000]
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) num_prompts: Option<FlagValues<u64>>,
    /// Stop sending after this time, such as 30s or 5m
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Stop once a figure is known this precisely, such as "p99 ttft ±10%"; --duration is then the maximum
    #[arg(long, value_name = "RULE")]
    pub(crate) until: Option<String>,
    /// With --until: minimum duration [default: 5s]
    #[arg(long, value_name = "TIME", requires = "until")]
    pub(crate) at_least: Option<String>,
    /// Stop when the server is overloaded and its backlog keeps growing
    #[arg(long)]
    pub(crate) stop_when_overloaded: bool,
}
