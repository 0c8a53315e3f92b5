//! Flags that say when a run ends.

use clap::Args;

use super::Values;

/// When a run ends.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Stop")]
pub(crate) struct StopArgs {
    /// Requests to send; a list makes a sweep [default: 1000]
    #[arg(long, value_name = "N")]
    pub(crate) num_prompts: Option<Values<u64>>,
    /// Stop sending after this time, such as 30s or 5m
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
}
