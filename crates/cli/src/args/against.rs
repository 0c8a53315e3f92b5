//! Flags that measure a second target, alternating with the first.

use clap::Args;

/// A second target, alternating with the first.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct AgainstArgs {
    /// Address of a second server; blocks of requests alternate between the two, in random order within pairs
    #[arg(long, value_name = "URL")]
    pub(crate) against: Option<String>,
    /// Length of a block: a number of requests, or a time at a finite rate [default: 20 pairs of blocks]
    #[arg(long, value_name = "N|TIME")]
    pub(crate) block: Option<String>,
    /// Command run with the argument `a` or `b` before each change of side and every two pairs, to restart one server
    #[arg(long, value_name = "COMMAND")]
    pub(crate) switch_command: Option<String>,
}

impl AgainstArgs {
    /// Whether a second target is requested.
    pub(crate) fn is_given(&self) -> bool {
        self.against.is_some() || self.switch_command.is_some()
    }
}
