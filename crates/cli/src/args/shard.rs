//! Flags that divide a run among several processes.

use std::path::PathBuf;

use clap::Args;

/// One run from several processes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Many machines")]
pub(crate) struct ShardArgs {
    /// Make shard K of N of the run, counted from 0; shard 0 leads
    #[arg(long, value_name = "K/N", conflicts_with = "shards")]
    pub(crate) shard: Option<String>,
    /// Number of shards; the launcher's variables say which one this is. 1 ignores the launcher
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<u32>,
    /// Address at which shard 0 listens for the others
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) leader: Option<String>,
    /// File with the secret that all shards share [default: `TOKOMETER_SHARD_SECRET`]
    #[arg(long, value_name = "FILE")]
    pub(crate) shard_secret_file: Option<PathBuf>,
    /// Certificate of this shard in PEM format: the shards then connect with TLS, besides the secret
    #[arg(long, value_name = "FILE", requires = "shard_tls_key", requires = "shard_tls_ca")]
    pub(crate) shard_tls_cert: Option<PathBuf>,
    /// Private key of `--shard-tls-cert`
    #[arg(long, value_name = "FILE", requires = "shard_tls_cert")]
    pub(crate) shard_tls_key: Option<PathBuf>,
    /// Authorities that have signed the certificates of all shards
    #[arg(long, value_name = "FILE", requires = "shard_tls_cert")]
    pub(crate) shard_tls_ca: Option<PathBuf>,
    /// Time for all shards to become ready; the run then begins without those that are not [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(crate) shard_wait: Option<String>,
    /// Apply `--max-concurrency` to all shards together: places move to the shards that need them. Without it the limit is split
    #[arg(long)]
    pub(crate) global_cap: bool,
}

impl ShardArgs {
    /// Whether one of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.shard.is_some() || self.shards.is_some() || self.leader.is_some()
    }

    /// Flags that only several shards can use, of those that are given.
    pub(crate) fn for_several(&self) -> Vec<&'static str> {
        let given = [
            (self.shard_secret_file.is_some(), "--shard-secret-file"),
            (self.shard_tls_cert.is_some(), "--shard-tls-cert"),
            (self.shard_wait.is_some(), "--shard-wait"),
            (self.global_cap, "--global-cap"),
        ];
        given.into_iter().filter_map(|(is_given, flag)| is_given.then_some(flag)).collect()
    }
}
