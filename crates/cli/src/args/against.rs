//! Flags that measure a second target in turn with the first.

use clap::Args;

/// A second target, measured in turn with the first.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct AgainstArgs {
    /// Address of a second server: blocks of requests go to both in turn, A B B A
    #[arg(long, value_name = "URL")]
    pub(crate) against: Option<String>,
    /// Length of a block: requests, or a time at a finite rate [default: one that gives 20 pairs]
    #[arg(long, value_name = "N|TIME")]
    pub(crate) block: Option<String>,
    /// Command run with `a` or `b` before a block of the other side, to switch one server over
    #[arg(long, value_name = "COMMAND")]
    pub(crate) switch_command: Option<String>,
}

impl AgainstArgs {
    /// Whether a second target is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.against.is_some() || self.switch_command.is_some()
    }
}
