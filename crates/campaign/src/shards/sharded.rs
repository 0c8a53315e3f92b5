//! Runs that several processes make together: what a process does before and after its part.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokometer_base::Nanos;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_measure::Coordination;
use tokometer_plan::ab_blocks;
use tokometer_record::folder::{clear, create_private, names};
use tokometer_record::{RunInfo, RunReader, RunState, Stop};
use tokometer_shards::{self as shards, MergeError, Merged, TargetRule, shard_folder};

use super::coordination::{AloneShard, FollowingShard, LeadingShard};
use crate::event::{Observer, note, problem};
use crate::executor::{Executor, RunRecord, unwritten};
use crate::folder::{Earlier, lock, shard_records};
use crate::outcome::PlannedRun;

/// How long another process may take to remove the files of its record.
const REMOVAL: Duration = Duration::from_millis(200);

/// The part of its runs that this process makes.
pub enum Role {
    /// One shard, merged by hand.
    Alone(Arc<AloneShard>),
    /// Shard 0, which leads the others and merges.
    Leader(Arc<LeadingShard>),
    /// Another shard.
    Follower(Arc<FollowingShard>),
}

impl Role {
    /// For the measurement.
    pub fn coordination(&self) -> Arc<dyn Coordination> {
        match self {
            Self::Alone(shard) => Arc::clone(shard) as Arc<dyn Coordination>,
            Self::Leader(shard) => Arc::clone(shard) as Arc<dyn Coordination>,
            Self::Follower(shard) => Arc::clone(shard) as Arc<dyn Coordination>,
        }
    }

    /// Whether this process is shard 0.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether this process merges and reports on the whole run.
    pub fn is_leader(&self) -> bool {
        matches!(self, Self::Leader(_))
    }

    /// Whether another process decides what is measured.
    pub fn is_follower(&self) -> bool {
        matches!(self, Self::Follower(_))
    }

    fn rank(&self) -> u32 {
        let identity = match self {
            Self::Alone(shard) => &shard.identity,
            Self::Leader(shard) => &shard.identity,
            Self::Follower(shard) => &shard.identity,
        };
        identity.share.rank()
    }

    /// Tells the other shards that there are no more points.
    pub fn dismiss(&self) {
        if let Self::Leader(shard) = self {
            shard.leader.dismiss();
        }
    }

    /// Whether a record is what an earlier process of this shard left when it died before the run began.
    fn left_unbegun(&self, record: &Path) -> bool {
        let Self::Follower(shard) = self else { return false };
        let Ok(reader) = RunReader::open(record) else { return false };
        let run = format!("{}.", shard.identity.run);
        reader.info().shard().is_some_and(|of| of.run.starts_with(&run)) && is_unused(&reader)
    }
}

/// Makes runs together with other processes; the inner executor makes this one's part.
pub struct Sharded<E> {
    /// Makes the part of this process.
    pub inner: E,
    /// Which part that is.
    pub role: Arc<Role>,
    /// What becomes of an earlier record of this shard.
    pub earlier: Earlier,
}

impl<E: Executor> Executor for Sharded<E> {
    /// Makes this process's part of a run. Shard 0 has all other shards make theirs, and merges the records.
    fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Result<RunRecord, Refusal> {
        let (folder, _lock) = self.record_folder(&run.folder)?;
        if let Role::Leader(shard) = &*self.role {
            shard.hand_out(run)?;
        }
        let part = PlannedRun { folder, ..run.clone() };
        let own = self.inner.run(&part, observer).inspect_err(|_| remove_empty(&part.folder))?;
        self.conclude(&run.folder, own, observer)
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn is_interrupted(&self) -> bool {
        self.inner.is_interrupted()
    }

    fn is_target_gone(&self) -> bool {
        self.inner.is_target_gone()
    }

    fn await_return(&mut self, observer: &mut dyn Observer) -> bool {
        self.inner.await_return(observer)
    }

    fn await_idle(&mut self) {
        self.inner.await_idle();
    }

    /// Merges the records of a run where all shards have ended, but nobody has merged them.
    fn recover(&mut self, folder: &Path, observer: &mut dyn Observer) -> Result<(), Refusal> {
        let records = shard_records(folder);
        let is_merged = folder.join(names::END).is_file();
        if is_merged || !self.role.is_leader() || !are_complete(&records) {
            return Ok(());
        }
        note(observer, format!("merging the shards in {}", folder.display()));
        merge(&records, folder, observer).map(|_merged| ())
    }
}

impl<E: Executor> Sharded<E> {
    /// The folder of this shard below that of the run, locked as long as the file lives.
    fn record_folder(&self, folder: &Path) -> Result<(PathBuf, File), Refusal> {
        let record = shard_folder(folder, self.role.rank());
        create_private(&record)
            .map_err(|why| unwritten(&format!("cannot write `{}`: {why}", record.display())))?;
        let locked = lock(&record)?;
        let is_there = record.join(names::PLAN).is_file();
        let is_taken = is_there && !self.role.left_unbegun(&record);
        if is_taken && self.earlier == Earlier::Refused {
            let message = format!("cannot write `{}`: it already holds a shard", record.display());
            let hint = "choose another `--run-dir`, or add `--overwrite` to remove that shard";
            return Err(Refusal::new(RefusalKind::Write, message).hint(hint));
        }
        // A point that is measured again may have more shards than before, or fewer.
        let stale = match &*self.role {
            Role::Leader(_) => shard_records(folder),
            _ if is_there => vec![record.clone()],
            _ => Vec::new(),
        };
        for stale in stale {
            let _other = if stale == record { None } else { Some(lock(&stale)?) };
            clear(&stale).map_err(|why| unwritten(&why))?;
            if stale != record {
                let _ = std::fs::remove_dir(&stale);
            }
        }
        Ok((record, locked))
    }

    /// Ends a run in `folder` of which this process has made its own part.
    fn conclude(
        &self,
        folder: &Path,
        own: RunRecord,
        observer: &mut dyn Observer,
    ) -> Result<RunRecord, Refusal> {
        match &*self.role {
            Role::Alone(shard) => {
                let own_share = shard.identity.share;
                let (rank, count) = (own_share.rank(), own_share.count());
                let how = "merge all shards with `tokometer merge`";
                note(observer, format!("shard {rank} of {count}: {how}"));
                Ok(own)
            }
            Role::Follower(shard) => {
                let Err(why) = shard.end() else { return Ok(own) };
                let kept = own.reader.folder().display();
                problem(
                    observer,
                    format!(
                        "error: the record was not handed to the leader: {why}\n  it is kept in {kept}; merge it with `tokometer merge`"
                    ),
                );
                Ok(RunRecord { is_withheld: true, ..own })
            }
            Role::Leader(shard) => {
                shard.leave(own.end.stop);
                // Interrupted while it waited for the others: no shard has sent anything.
                if !shard.has_begun() {
                    return Ok(unbegun(folder, own));
                }
                name_lost(folder, &shard.finish(), observer);
                let _merged = merge_present(folder, observer)?;
                merged_record(folder, own)
            }
        }
    }
}

/// The record of all shards, with what only this process knows.
fn merged_record(folder: &Path, own: RunRecord) -> Result<RunRecord, Refusal> {
    let RunRecord { write_failure, server_info, .. } = own;
    Ok(RunRecord { write_failure, server_info, ..RunRecord::open(folder)? })
}

/// A run that has not begun: that of all shards, of which nobody has sent anything. The own record alone
/// would have one part of the planned requests.
fn unbegun(folder: &Path, own: RunRecord) -> RunRecord {
    let merged = merge_quietly(&[own.reader.folder().to_owned()], folder);
    match merged.and_then(|_merged| RunRecord::open(folder)) {
        Ok(all) => RunRecord { server_info: own.server_info, ..all },
        Err(_) => own,
    }
}

/// Merges the records of shards into one, and tells what is missing.
pub fn merge(
    records: &[PathBuf],
    out: &Path,
    observer: &mut dyn Observer,
) -> Result<Merged, Refusal> {
    let merged = merge_quietly(records, out)?;
    for copy in &merged.skipped {
        let shown = copy.display();
        problem(
            observer,
            format!("note: skipping {shown}: another copy of this shard is complete"),
        );
    }
    for damage in &merged.damages {
        problem(observer, format!("error: {damage}"));
    }
    for line in shards::lacking(&merged.run) {
        problem(observer, format!("error: {line}"));
    }
    Ok(merged)
}

/// The same without a word.
pub fn merge_quietly(records: &[PathBuf], out: &Path) -> Result<Merged, Refusal> {
    shards::merge(records, out, &target_rule).map_err(|why| {
        let kind = match why {
            MergeError::Unwritten(_) => RefusalKind::Write,
            _ => RefusalKind::Usage,
        };
        Refusal::new(kind, why.to_string())
    })
}

/// The target of each request, where the plan has two that take turns.
fn target_rule(info: &RunInfo) -> TargetRule {
    match ab_blocks(info) {
        Ok(Some(blocks)) => Box::new(move |index| blocks.target(index)),
        Ok(None) | Err(_) => Box::new(|_| 0),
    }
}

/// Shards that are named one by one.
const NAMED: usize = 8;

/// Names shards whose connection was lost, with the reason.
fn name_lost(folder: &Path, lost: &[(u32, String)], observer: &mut dyn Observer) {
    for (rank, why) in lost.iter().take(NAMED) {
        let line = if has_ended(&shard_folder(folder, *rank)) {
            format!(
                "note: the connection to shard {rank} was lost ({why}); its record is complete and is merged"
            )
        } else {
            format!("error: shard {rank} was lost: {why}")
        };
        problem(observer, line);
    }
    let more = lost.len().saturating_sub(NAMED);
    if more > 0 {
        problem(observer, format!("error: the connections to {more} more shards were lost"));
    }
}

/// Whether no request was sent.
pub(super) fn is_unused(reader: &RunReader) -> bool {
    reader.timelines().is_ok_and(|mut rows| rows.next().is_none())
        && reader.starts().is_ok_and(|mut rows| rows.next().is_none())
}

/// Removes the folder of a shard that has recorded nothing, and those above it up to the run's.
pub(super) fn remove_empty(record: &Path) {
    // Only empty folders can be removed this way.
    for empty in record.ancestors().take(3) {
        let _ = std::fs::remove_dir(empty);
    }
}

/// Merges the records that are there. A shard that came too late removes its own, unused one; where that
/// happens meanwhile, the others are merged.
fn merge_present(folder: &Path, observer: &mut dyn Observer) -> Result<Merged, Refusal> {
    let mut records = shard_records(folder);
    loop {
        let refusal = match merge(&records, folder, observer) {
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
