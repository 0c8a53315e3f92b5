//! One run from several processes: who takes part, when it begins, and one record of it all.
//!
//! In: the variables of a launcher, connections between processes, folders that they left. Out: the
//! [`Share`](tokometer_schedule::Share) of this process, a common start, and a merged run folder. The
//! rules (who joins, when a run begins, what an offset is worth) are pure and tested without sockets.
//! Nothing here sends a request or computes a figure.

mod admission;
mod attendance;
mod clock;
pub mod discover;
mod follower;
mod handover;
mod health;
mod incoming;
mod joining;
mod leader;
mod leases;
mod link;
mod local_run;
mod members;
mod merge;
mod message;
mod secret;
mod tls;
mod wire;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use discover::{Membership, RankSource, ShardFlags, discover};
pub use follower::{Follower, NextPoint, OwnRun, RecordStorage};
pub use joining::{FollowerConfig, JoinError};
pub use leader::{LeadError, Leader};
pub use leases::LeaseChange;
pub use local_run::LocalRun;
pub use members::LeaderConfig;
pub use merge::{MergeError, Merged, TargetRule, lacking, merge, stopped_by_leader};
pub use message::{LatencyBins, SendCounts, ShardCounts, StopCause, Welcome};
pub use secret::{SharedSecret, fingerprint, run_id};
pub use tls::{ShardTls, TlsFileError, TlsFiles};

/// Most shards of a run. Each has a connection and a thread in shard 0, and a folder.
pub const SHARDS_MAX: u32 = 10_000;

/// The folder with the records of the shards, below that of the run.
pub const SHARDS: &str = "shards";

/// A file in the folder of a measurement that is under way; it holds the run's name.
pub const RUN_MARK: &str = ".tokometer-run";

/// The folder of one shard's record, below that of the run.
pub fn shard_folder(run: &Path, rank: u32) -> PathBuf {
    run.join(SHARDS).join(format!("{rank:03}"))
}

/// Whether the leader's folder is this machine's as well.
pub fn storage_of(welcome: &Welcome) -> RecordStorage {
    let mark = Path::new(&welcome.folder).join(RUN_MARK);
    match std::fs::read_to_string(mark) {
        Ok(run) if run == welcome.run => RecordStorage::Shared,
        _ => RecordStorage::Own,
    }
}
