//! One run folder from the folders of its shards.
//!
//! In: folders as the shards left them, also of shards that were killed. Out: a folder that every
//! command reads like that of one process, with all rows of all shards on one clock. Rows are read
//! and written batch by batch, one shard after the other: memory does not grow with the run.

mod copy;
mod lacking;

use std::path::{Path, PathBuf};

use tokometer_base::{Nanos, WallNanos};
use tokometer_record::folder::{clear, create_private, replace};
use tokometer_record::{
    self as record, ClockFit, CommonStart, MergedRun, RunEnd, RunInfo, RunReader, RunState,
    RunWriter, ShardInfo, Sharding, Stop,
};

use self::copy::CopiedShard;
pub use self::lacking::{lacking, stopped_by_leader};
use crate::{SHARDS_MAX, clock, health};

#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Folders that are not the shards of one run.
    #[error("cannot merge{0}")]
    Unusable(String),
    #[error(transparent)]
    Unread(#[from] record::Error),
    #[error(transparent)]
    Unwritten(record::Error),
}

#[derive(Debug)]
pub struct Merged {
    /// What it was made of.
    pub run: MergedRun,
    pub end: RunEnd,
    /// Incomplete copies of shards of which a complete one was merged.
    pub skipped: Vec<PathBuf>,
    /// Batches that could not be read; their rows are missing.
    pub damages: Vec<record::Error>,
}

/// Folder below that of the run in which it is merged before it replaces that one.
const BESIDE: &str = ".merging";

/// Planned times are those of the plan, on the leader's clock, as long as a shard's clock stays as close to
/// the one that its start was given by. Further apart they move with their requests, or a latency from the
/// planned time would contain the drift of a clock.
const PLAN_APART_MAX: Nanos = Nanos::from_micros(100);

/// The target of each request of a run, by index. The plan decides it, and this crate reads no plans.
pub type TargetRule = Box<dyn Fn(u64) -> u16>;

struct OpenShard {
    target: TargetRule,
    reader: RunReader,
    shard_info: ShardInfo,
    fit: ClockFit,
    start: Option<CommonStart>,
    /// Whether the offset was measured, or is that of one clock.
    is_measured: bool,
    has_ended: bool,
}

impl OpenShard {
    fn open(path: &Path, target: &dyn Fn(&RunInfo) -> TargetRule) -> Result<Self, MergeError> {
        let reader = RunReader::open(path)?;
        let Some(shard_info) = reader.info().shard().cloned() else {
            return Err(MergeError::Unusable(format!(
                " {}: it is not the record of a shard\n  shards are written by `tokometer bench --shard K/N`",
                path.display()
            )));
        };
        if shard_info.count > SHARDS_MAX || shard_info.rank >= shard_info.count {
            return Err(MergeError::Unusable(format!(
                " {}: it says that it is shard {} of {}, and a run has at most {SHARDS_MAX}\n  its `plan.json` is damaged; leave this folder out",
                path.display(),
                shard_info.rank,
                shard_info.count
            )));
        }
        let known = reader.clock();
        let fit = known.map_or(ClockFit::SAME, |known| known.fit);
        Ok(Self {
            fit: clock::reaching(fit, last_time(&reader)?),
            start: known.and_then(|known| known.start),
            is_measured: known.is_some(),
            has_ended: matches!(reader.state()?, RunState::Ended(_)),
            target: target(reader.info()),
            reader,
            shard_info,
        })
    }

    /// The start to which planned times refer on the leader's clock, where this shard's clock kept to it.
    fn planned_from(&self) -> Option<CommonStart> {
        let start = self.start?;
        let given = start.leader.signed_since(start.own);
        let apart = |at: Nanos| self.fit.offset_at(at).abs_diff(given);
        let is_close = apart(start.own).max(apart(self.fit.to)) <= PLAN_APART_MAX.0;
        (is_close || self.fit == ClockFit::SAME).then_some(start)
    }

    fn path(&self) -> &Path {
        self.reader.folder()
    }

    fn info(&self) -> &RunInfo {
        self.reader.info()
    }

    /// Wall clock minus the run's clock when the record began, in nanoseconds.
    fn wall_offset(&self) -> i64 {
        Nanos(self.info().started.0).signed_since(self.fit.on_leader(self.info().origin))
    }
}

/// The last time in a record, about.
fn last_time(reader: &RunReader) -> Result<Nanos, MergeError> {
    Ok(match reader.state()? {
        RunState::Ended(end) => end.measure_end,
        RunState::Killed { .. } => {
            reader.starts()?.map(|attempt| attempt.sent).max().unwrap_or_default()
        }
    })
}

/// Writes the run of these shards to `out`, instead of a run that is there. Ranks without a folder are
/// named in the result.
pub fn merge(
    folders: &[PathBuf],
    out: &Path,
    target: &dyn Fn(&RunInfo) -> TargetRule,
) -> Result<Merged, MergeError> {
    let (shards, skipped) = open_all(folders, target)?;
    let info = merged_info(&shards)?;
    create_private(out).map_err(|source| {
        let (action, path) = ("create", out.to_owned());
        MergeError::Unwritten(record::Error::File { action, path, source })
    })?;
    // Beside the earlier run, which stays where a record cannot be read or the disk is full.
    let beside = out.join(BESIDE);
    let merged = write_all(&shards, info, &beside).and_then(|merged| {
        replace(&beside, out).map_err(MergeError::Unwritten)?;
        Ok(Merged { skipped, ..merged })
    });
    if merged.is_err() {
        let _ = clear(&beside);
    }
    let _ = std::fs::remove_dir(&beside);
    merged
}

/// Writes the run of these shards to a folder of its own.
fn write_all(shards: &[OpenShard], mut info: RunInfo, folder: &Path) -> Result<Merged, MergeError> {
    let mut writer = RunWriter::create(folder, &info).map_err(MergeError::Unwritten)?;
    let mut parts = Vec::new();
    let mut worker_base = 0;
    for shard in shards {
        let part = CopiedShard::copy(shard, &mut writer, &info, worker_base)?;
        worker_base = worker_base.max(part.next_worker);
        parts.push(part);
    }
    let run = MergedRun {
        run: shards[0].shard_info.run.clone(),
        count: shards[0].shard_info.count,
        sending: sending(&shards[0].shard_info),
        is_cap_shared: shards[0].shard_info.is_cap_shared,
        shards: parts.iter().map(|part| part.described.clone()).collect(),
    };
    info.sharding = Some(Sharding::Merged(run.clone()));
    writer.amend(info).map_err(MergeError::Unwritten)?;
    let end = merged_end(shards, &parts, &run);
    let _ = writer.finish(&end).map_err(MergeError::Unwritten)?;
    let damages = parts.into_iter().flat_map(|part| part.damages).collect();
    Ok(Merged { run, end, skipped: Vec::new(), damages })
}

/// The shards by rank, each with its clock, and incomplete copies of them.
fn open_all(
    folders: &[PathBuf],
    target: &dyn Fn(&RunInfo) -> TargetRule,
) -> Result<(Vec<OpenShard>, Vec<PathBuf>), MergeError> {
    let opened: Result<Vec<OpenShard>, MergeError> =
        folders.iter().map(|path| OpenShard::open(path, target)).collect();
    let mut shards = opened?;
    shards.sort_by_key(|shard| (shard.shard_info.rank, !shard.has_ended));
    for pair in shards.windows(2) {
        let [one, other] = pair else { continue };
        let (path, second) = (one.path().display(), other.path().display());
        let (first, later) = (&one.shard_info, &other.shard_info);
        if (&first.run, first.count) != (&later.run, later.count) {
            return Err(MergeError::Unusable(format!(
                " {second} with {path}: they are shards of different runs ({} and {})",
                later.run, first.run
            )));
        }
        if first.rank == later.rank && one.has_ended == other.has_ended {
            return Err(MergeError::Unusable(format!(
                " {path} and {second}: both are shard {}\n  name the one that has `end.json` or, of two that broke off, the larger one",
                first.rank
            )));
        }
    }
    // Of two copies the complete one, which comes first, has what the other one has.
    let mut skipped = Vec::new();
    shards.dedup_by(|other, one| {
        let is_copy = other.shard_info.rank == one.shard_info.rank;
        skipped.extend(is_copy.then(|| other.path().to_owned()));
        is_copy
    });
    set_clocks(&mut shards);
    Ok((shards, skipped))
}

/// Gives every shard the best offset that its record allows: none on the leader's own machine, else the
/// measured one, else that of the wall clocks.
fn set_clocks(shards: &mut [OpenShard]) {
    let leader = shards.first().filter(|shard| shard.shard_info.rank == 0);
    if let Some(clock) = leader.and_then(|leader| leader.shard_info.clock.clone()) {
        for shard in
            shards.iter_mut().filter(|shard| shard.shard_info.clock.as_ref() == Some(&clock))
        {
            (shard.fit, shard.is_measured) = (ClockFit::SAME, true);
        }
    }
    let measured = shards.iter().position(|shard| shard.is_measured);
    let Some(reference) = shards.get(measured.unwrap_or(0)) else { return };
    let (rank, fit, clock) =
        (reference.shard_info.rank, reference.fit, reference.shard_info.clock.clone());
    let wall_offset = reference.wall_offset();
    for shard in shards.iter_mut().filter(|shard| !shard.is_measured) {
        if shard.shard_info.rank == rank || (clock.is_some() && shard.shard_info.clock == clock) {
            shard.fit = fit;
            shard.is_measured = true;
        } else {
            shard.fit = ClockFit::constant(shard.wall_offset().saturating_sub(wall_offset));
        }
    }
}

/// What was known before the first request of any shard.
fn merged_info(shards: &[OpenShard]) -> Result<RunInfo, MergeError> {
    let first =
        shards.first().ok_or_else(|| MergeError::Unusable(": no shard was given".to_owned()))?;
    let begin = |shard: &OpenShard| shard.fit.on_leader(shard.info().origin);
    let origin = shards.iter().map(begin).min().unwrap_or_default();
    let mut info = RunInfo {
        origin,
        started: WallNanos(origin.0.saturating_add_signed(first.wall_offset())),
        load: first.shard_info.load.clone(),
        sharding: None,
        ..first.info().clone()
    };
    for shard in &shards[1..] {
        for remark in &shard.info().remarks {
            if !info.remarks.contains(remark) {
                info.remarks.push(remark.clone());
            }
        }
        for (target, other) in info.targets.iter_mut().zip(&shard.info().targets) {
            let known = target.addresses.clone();
            let new = other.addresses.iter().filter(|address| !known.contains(address));
            target.addresses.extend(new.cloned());
        }
    }
    Ok(info)
}

fn merged_end(shards: &[OpenShard], parts: &[CopiedShard], run: &MergedRun) -> RunEnd {
    let on_leader = |pick: fn(&RunEnd) -> Nanos| {
        let ends = shards.iter().zip(parts);
        ends.filter_map(move |(shard, part)| Some(shard.fit.on_leader(pick(part.end.as_ref()?))))
    };
    let first = parts.iter().filter_map(|part| Some(part.span?.0)).min();
    let last = parts.iter().filter_map(|part| Some(part.span?.1)).max();
    let started = shards.iter().filter_map(|shard| Some(shard.start?.leader)).min();
    let begin = started.or(on_leader(|end| end.measure_begin).min()).or(first);
    let begin = begin.unwrap_or_else(|| shards[0].fit.on_leader(shards[0].info().origin));
    let end = on_leader(|end| end.measure_end).chain(last).max().unwrap_or(begin);
    let abandoned =
        |part: &CopiedShard| part.abandoned.max(part.end.as_ref().map_or(0, |end| end.abandoned));
    let ends = shards.iter().zip(parts);
    let ends: Vec<(&ClockFit, u32, &RunEnd)> = ends
        .filter_map(|(shard, part)| Some((&shard.fit, shard.shard_info.rank, part.end.as_ref()?)))
        .collect();
    RunEnd {
        stop: stop(&ends, run),
        measure_begin: begin,
        measure_end: end.max(begin),
        abandoned: parts.iter().map(abandoned).sum(),
        never_sent: never_sent(&shards[0].shard_info, parts),
        health: health::merged(&ends),
    }
}

/// Requests that no shard has sent: those that shards report, and all of shards without a record.
fn never_sent(shard: &ShardInfo, parts: &[CopiedShard]) -> u64 {
    let reported: u64 = parts.iter().filter_map(|part| part.described.never_sent).sum();
    let whole = shard.load.planned_requests.filter(|_| shard.load.duration.is_none());
    let found: u64 = parts.iter().filter_map(|part| part.planned).sum();
    reported + whole.map_or(0, |whole| whole.saturating_sub(found))
}

/// Shards of a run that have a request to send, where some have none.
fn sending(shard: &ShardInfo) -> Option<u32> {
    let planned = shard.load.planned_requests.filter(|_| shard.load.duration.is_none())?;
    u32::try_from(planned).ok().filter(|planned| *planned < shard.count)
}

/// The gravest reason of any shard. A lost shard is graver than one that ended as planned or by a rule.
fn stop(ends: &[(&ClockFit, u32, &RunEnd)], run: &MergedRun) -> Stop {
    let has = |stop: &Stop| ends.iter().any(|(_, _, end)| end.stop == *stop);
    // Shard 0 ends the others. One that ends by itself is a shard that is missing from then on.
    let leader = ends.iter().find(|(_, rank, _)| *rank == 0).map(|(_, _, end)| end.stop);
    if let Some(stop) = leader.filter(|stop| stop.is_early_end()) {
        return stop;
    }
    if !run.is_whole() || has(&Stop::ShardsLost) {
        return Stop::ShardsLost;
    }
    if has(&Stop::Overloaded) { Stop::Overloaded } else { Stop::Complete }
}

#[cfg(test)]
mod tests;
