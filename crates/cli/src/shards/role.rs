//! What this process does before and after each point, by the part that it makes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokometer_measure::{Coordination, MeasuredRun, Measurement};
use tokometer_plan::Plan;
use tokometer_record::folder::{clear, create_private, names};
use tokometer_record::{self as record, RunEnd, RunReader, RunState, Stop};
use tokometer_shards::{Merged, SHARDS, shard_folder};

use super::coordination::{AloneShard, FollowingShard, LeadingShard};
use crate::bench::{Destination, Earlier, lock_folder};
use crate::commands::{merge_quietly, merge_to};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::terminal::{print_message, print_note};

/// How long another process may take to remove the files of its record.
const REMOVAL: Duration = Duration::from_millis(200);

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

/// A point that was measured, by all processes of the run.
pub(crate) struct MadePoint {
    /// The folder to report from.
    pub(crate) folder: PathBuf,
    /// How it ended.
    pub(crate) end: RunEnd,
    /// Why the record of this process could not be written to its end.
    pub(crate) write_failure: Option<record::Error>,
    /// Reads the run where its folder does not have all of it.
    pub(crate) reader: Option<RunReader>,
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

    /// Whether this process makes all of the run or shard 0 of it.
    pub(crate) fn is_first(&self) -> bool {
        self.rank().is_none_or(|rank| rank == 0)
    }

    /// Whether this process reports on the whole run: one that makes all of it, or the one that merges.
    pub(crate) fn is_reporting(&self) -> bool {
        matches!(self, Self::Whole | Self::Leader(_))
    }

    pub(super) fn rank(&self) -> Option<u32> {
        let identity = match self {
            Self::Whole => return None,
            Self::Alone(shard) => &shard.identity,
            Self::Leader(shard) => &shard.identity,
            Self::Follower(shard) => &shard.identity,
        };
        Some(identity.share.rank())
    }

    /// Measures a point. Shard 0 has all other shards measure it as well, and merges their records.
    pub(crate) fn make(
        &self,
        measurement: &mut Measurement,
        plan: &Plan,
        number: u32,
        destination: Destination<'_>,
    ) -> Result<MadePoint, Refusal> {
        let (record, _lock) = self.record_folder(destination)?;
        if let Self::Leader(shard) = self {
            shard.hand_out(plan, number, destination.folder)?;
        }
        let measured = measurement.run(plan, number, &record).inspect_err(|_| {
            if self.rank().is_some() {
                leave_if_empty(&record);
            }
        })?;
        self.conclude(destination.folder, record, measured)
    }

    /// Merges the records of a point where all shards have ended, but nobody has merged them.
    pub(crate) fn recover(&self, folder: &Path) -> Result<(), Refusal> {
        let records = shard_records(folder);
        let is_merged = folder.join(names::END).is_file();
        if is_merged || !matches!(self, Self::Leader(_)) || !are_complete(&records) {
            return Ok(());
        }
        print_note(&format!("merging the shards in {}", folder.display()));
        merge_to(&records, folder).map(|_merged| ())
    }

    /// Tells the other shards that there are no more points.
    pub(crate) fn dismiss(&self) {
        if let Self::Leader(shard) = self {
            shard.leader.dismiss();
            shard.end_remote();
        }
    }

    /// Where this process records a point: in its folder, or in that of its shard below it, which is locked
    /// as long as the file lives.
    fn record_folder(
        &self,
        Destination { folder, earlier }: Destination<'_>,
    ) -> Result<(PathBuf, Option<File>), Refusal> {
        let Some(rank) = self.rank() else { return Ok((folder.to_owned(), None)) };
        let record = shard_folder(folder, rank);
        let unwritable = |why: std::io::Error| {
            Refusal::new(RefusalKind::Write, format!("cannot write `{}`: {why}", record.display()))
        };
        create_private(&record).map_err(unwritable)?;
        let lock = lock_folder(&record)?;
        let is_taken = record.join(names::PLAN).is_file() && !self.left_unbegun(&record);
        if is_taken && earlier == Earlier::Refused {
            let message = format!("cannot write `{}`: it already holds a shard", record.display());
            let hint = "choose another `--run-dir`, or add `--overwrite` to remove that shard";
            return Err(Refusal::new(RefusalKind::Write, message).hint(hint));
        }
        // A point that is measured again may have more shards than before, or fewer.
        let stale = match self {
            Self::Leader(_) => shard_records(folder),
            _ if record.join(names::PLAN).is_file() => vec![record.clone()],
            _ => Vec::new(),
        };
        for stale in stale {
            let _other = if stale == record { None } else { Some(lock_folder(&stale)?) };
            clear(&stale).map_err(|why| Refusal::new(RefusalKind::Write, why.to_string()))?;
            if stale != record {
                let _ = std::fs::remove_dir(&stale);
            }
        }
        Ok((record, Some(lock)))
    }

    /// Whether a record is what an earlier process of this shard left when it died before the run began.
    fn left_unbegun(&self, record: &Path) -> bool {
        let Self::Follower(shard) = self else { return false };
        let Ok(reader) = RunReader::open(record) else { return false };
        let run = format!("{}.", shard.identity.run);
        reader.info().shard().is_some_and(|of| of.run.starts_with(&run)) && is_unused(&reader)
    }

    /// Ends a point in `folder` that this process has recorded in `record`.
    fn conclude(
        &self,
        folder: &Path,
        record: PathBuf,
        measured: MeasuredRun,
    ) -> Result<MadePoint, Refusal> {
        let MeasuredRun { end, write_failure, reader, .. } = measured;
        let own = MadePoint { folder: record, end, write_failure, reader, exit: None };
        match self {
            Self::Whole => Ok(own),
            Self::Alone(shard) => {
                let part = shard.identity.share;
                print_note(&format!(
                    "shard {} of {}: merge all shards with `tokometer merge`",
                    part.rank(),
                    part.count()
                ));
                Ok(own)
            }
            Self::Follower(shard) => {
                let Err(why) = shard.end() else { return Ok(own) };
                print_message(&format!(
                    "error: the record was not handed to the leader: {why}\n  it is kept in {}; merge it with `tokometer merge`",
                    own.folder.display()
                ));
                Ok(MadePoint { exit: Some(Exit::Points), ..own })
            }
            Self::Leader(shard) => {
                shard.leave(own.end.stop);
                // Interrupted while it waited for the others: no shard has sent anything.
                if !shard.has_begun() {
                    return Ok(unbegun(folder, own));
                }
                name_lost(folder, &shard.finish());
                let end = merge_present(folder)?.end;
                Ok(MadePoint { folder: folder.to_owned(), end, reader: None, ..own })
            }
        }
    }
}

/// A run that has not begun: that of all shards, of which nobody has sent anything. The own record alone
/// would have one part of the planned requests.
fn unbegun(folder: &Path, own: MadePoint) -> MadePoint {
    let Ok(merged) = merge_quietly(std::slice::from_ref(&own.folder), folder) else { return own };
    MadePoint { folder: folder.to_owned(), end: merged.end, reader: None, ..own }
}

/// Shards that are named one by one.
const NAMED: usize = 8;

/// Names shards whose connection was lost, with the reason.
fn name_lost(folder: &Path, lost: &[(u32, String)]) {
    for (rank, why) in lost.iter().take(NAMED) {
        print_message(&if has_ended(&shard_folder(folder, *rank)) {
            format!(
                "note: the connection to shard {rank} was lost ({why}); its record is complete and is merged"
            )
        } else {
            format!("error: shard {rank} was lost: {why}")
        });
    }
    let more = lost.len().saturating_sub(NAMED);
    if more > 0 {
        print_message(&format!("error: the connections to {more} more shards were lost"));
    }
}

/// Whether no request was sent.
pub(super) fn is_unused(reader: &RunReader) -> bool {
    reader.timelines().is_ok_and(|mut rows| rows.next().is_none())
        && reader.starts().is_ok_and(|mut rows| rows.next().is_none())
}

/// Removes the folder of a shard that has recorded nothing, and those above it up to the point's.
fn leave_if_empty(record: &Path) {
    // Only empty folders can be removed this way.
    for empty in record.ancestors().take(3) {
        let _ = std::fs::remove_dir(empty);
    }
}

/// Merges the records that are there. A shard that came too late removes its own, unused one; where that
/// happens meanwhile, the others are merged.
fn merge_present(folder: &Path) -> Result<Merged, Refusal> {
    let mut records = shard_records(folder);
    loop {
        let refusal = match merge_to(&records, folder) {
            Ok(merged) => return Ok(merged),
            Err(refusal) => refusal,
        };
        // The files of a record are removed one after the other.
        std::thread::sleep(REMOVAL);
        let present = shard_records(folder);
        if present.is_empty() || present.len() >= records.len() {
            let again = format!("tokometer merge {} --overwrite", folder.display());
            let hint = format!("the records of the shards are kept; merge them with `{again}`");
            return Err(refusal.hint(hint));
        }
        records = present;
    }
}

/// Whether a record has its own end.
fn has_ended(record: &Path) -> bool {
    let reader = RunReader::open(record).ok();
    reader.is_some_and(|reader| matches!(reader.state(), Ok(RunState::Ended(_))))
}

/// Whether these are the records of all shards of one run, each with its own end.
fn are_complete(records: &[PathBuf]) -> bool {
    let readers: Option<Vec<RunReader>> =
        records.iter().map(|record| RunReader::open(record).ok()).collect();
    let Some(readers) = readers.filter(|readers| !readers.is_empty()) else { return false };
    let is_complete = |reader: &RunReader| matches!(reader.state(), Ok(RunState::Ended(end)) if end.stop == Stop::Complete);
    let count = readers[0].info().shard().map(|shard| shard.count);
    count.and_then(|count| usize::try_from(count).ok()) == Some(readers.len())
        && readers.iter().all(is_complete)
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
