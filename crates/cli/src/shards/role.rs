//! What this process does before and after each point, by the part that it makes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokometer_measure::Coordination;
use tokometer_record::RunEnd;
use tokometer_record::folder::{clear, names};
use tokometer_shards::{SHARDS, shard_folder};

use super::coordination::{AloneShard, FollowingShard, LeadingShard};
use crate::bench::Earlier;
use crate::commands::merge_to;
use crate::exit::{Exit, Refusal};
use crate::terminal::print_message;

/// The part of a run that this process makes.
pub(crate) enum Role {
    /// All of it.
    Whole,
    /// One shard, merged by hand.
    Alone(Arc<AloneShard>),
    /// Shard 0, which leads the others and merges.
    Leader(Arc<LeadingShard>),
    /// Another shard.
    Follower(Arc<FollowingShard>),
}

/// What became of a point.
pub(crate) struct PointEnd {
    /// The folder to report from.
    pub(crate) folder: PathBuf,
    /// The end of the merged run; `None` where that of this process counts.
    pub(crate) merged: Option<RunEnd>,
    /// A reason for an exit code of its own.
    pub(crate) exit: Option<Exit>,
}

impl Role {
    /// For the measurement; `None` where this process makes all of the run.
    pub(crate) fn coordination(&self) -> Option<Arc<dyn Coordination>> {
        match self {
            Self::Whole => None,
            Self::Alone(shard) => Some(Arc::clone(shard) as Arc<dyn Coordination>),
            Self::Leader(shard) => Some(Arc::clone(shard) as Arc<dyn Coordination>),
            Self::Follower(shard) => Some(Arc::clone(shard) as Arc<dyn Coordination>),
        }
    }

    fn rank(&self) -> Option<u32> {
        let identity = match self {
            Self::Whole => return None,
            Self::Alone(shard) => &shard.identity,
            Self::Leader(shard) => &shard.identity,
            Self::Follower(shard) => &shard.identity,
        };
        Some(identity.share.rank())
    }

    /// Where this process records a point whose folder is `folder`.
    pub(crate) fn record_folder(
        &self,
        folder: &Path,
        earlier: Earlier,
    ) -> Result<PathBuf, Refusal> {
        let Some(rank) = self.rank() else { return Ok(folder.to_owned()) };
        let record = shard_folder(folder, rank);
        if record.join(names::PLAN).is_file() {
            if earlier != Earlier::Removed {
                let message =
                    format!("cannot write `{}`: it already holds a shard", record.display());
                let hint = "choose another `--run-dir`, or add `--overwrite` to remove that shard";
                return Err(Refusal::new(Exit::Write, message).hint(hint));
            }
            clear(&record).map_err(|why| Refusal::new(Exit::Write, why.to_string()))?;
        }
        Ok(record)
    }

    /// Ends a point that this process has recorded in `record`.
    pub(crate) fn conclude(
        &self,
        point: u32,
        (folder, record): (&Path, &Path),
        end: &RunEnd,
    ) -> Result<PointEnd, Refusal> {
        let own = |exit| PointEnd { folder: record.to_owned(), merged: None, exit };
        match self {
            Self::Whole => Ok(own(None)),
            Self::Alone(shard) => {
                let part = shard.identity.share;
                print_message(&format!(
                    "shard {} of {}: merge all shards with `tokometer merge`",
                    part.rank(),
                    part.count()
                ));
                Ok(own(None))
            }
            Self::Follower(shard) => {
                let Err(why) = shard.follower.end(point, shard.storage) else {
                    return Ok(own(None));
                };
                print_message(&format!(
                    "error: the record was not handed to the leader: {why}\n  it is kept in {}; merge it with `tokometer merge`",
                    record.display()
                ));
                Ok(own(Some(Exit::Points)))
            }
            Self::Leader(shard) => {
                shard.leave(point, end.stop);
                for (rank, why) in shard.finish(point) {
                    print_message(&format!("error: shard {rank} was lost: {why}"));
                }
                let merged = merge_to(&shard_records(folder), folder)?;
                let merged = Some(merged.end);
                Ok(PointEnd { folder: folder.to_owned(), merged, exit: None })
            }
        }
    }
}

/// The records of all shards below a run's folder, as far as they are there.
pub(crate) fn shard_records(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(SHARDS)).into_iter().flatten().flatten();
    let mut records: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|entry| entry.join(names::PLAN).is_file())
        .collect();
    records.sort();
    records
}
