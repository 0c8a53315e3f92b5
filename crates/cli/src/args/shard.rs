//! Flags that divide a run among several processes.

use std::path::PathBuf;

use clap::Args;

/// One run from several processes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Many machines")]
pub(crate) struct ShardArgs {
    /// Make part K of N of the run, counted from 0; part 0 leads
    #[arg(long, value_name = "K/N", conflicts_with = "shards")]
    pub(crate) shard: Option<String>,
    /// Number of parts; the launcher's variables say which one this is. 1 ignores the launcher
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<u32>,
    /// Where part 0 listens for the others
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) leader: Option<String>,
    /// File with the secret that all parts share [default: `TOKOMETER_SHARD_SECRET`]
    #[arg(long, value_name = "FILE")]
    pub(crate) shard_secret_file: Option<PathBuf>,
    /// Time for all parts to become ready; the run then begins without those that are not [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(crate) shard_wait: Option<String>,
    /// Hold `--max-concurrency` for all parts together: places move to the parts that need them. Without it the limit is split
    #[arg(long)]
    pub(crate) global_cap: bool,
    /// Also start a part on each of these machines over ssh; `tokometer` must be installed there
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',', conflicts_with_all = ["shard", "shards"])]
    pub(crate) workers_on: Vec<String>,
}

impl ShardArgs {
    /// Whether one of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.shard.is_some()
            || self.shards.is_some()
            || self.leader.is_some()
            || !self.workers_on.is_empty()
    }
}
