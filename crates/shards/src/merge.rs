//! One run folder from the folders of its shards.
//!
//! In: folders as the shards left them, also of shards that were killed. Out: a folder that every
//! command reads like that of one process, with all rows of all shards on one clock. Rows are read
//! and written batch by batch, one shard after the other: memory does not grow with the run.

use std::path::{Path, PathBuf};

use tokometer_base::{Nanos, WallNanos};
use tokometer_record::{
    self as record, AttemptId, ClockFit, CommonStart, MergedRun, MergedShard, Outcome, Phase,
    RequestedLengths, RunEnd, RunInfo, RunReader, RunState, RunWriter, ShardInfo, Sharding, Stop,
    Timeline,
};

use crate::{clock, health};

/// Why shards cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A folder of another kind.
    #[error(
        "cannot merge {}: it is not the record of a shard\n  shards are written by `tokometer bench --shard K/N`",
        path.display()
    )]
    NotAShard {
        /// The folder.
        path: PathBuf,
    },
    /// Two folders that do not belong together.
    #[error(
        "cannot merge {} with {}: they are shards of different runs ({other_run} and {run})",
        other.display(),
        path.display()
    )]
    OtherRun {
        /// The first folder.
        path: PathBuf,
        /// Its run.
        run: String,
        /// The folder that differs.
        other: PathBuf,
        /// Its run.
        other_run: String,
    },
    /// One shard twice.
    #[error(
        "cannot merge {} and {}: both are shard {rank}\n  name the one that has `end.json` or, of two that broke off, the larger one",
        path.display(),
        other.display()
    )]
    Twice {
        /// Their rank.
        rank: u32,
        /// One folder.
        path: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// There is nothing to merge.
    #[error("cannot merge: no shard was given")]
    Nothing,
    /// A folder cannot be read or written.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// A merged run.
#[derive(Debug)]
pub struct Merged {
    /// What it was made of.
    pub run: MergedRun,
    /// How it ended.
    pub end: RunEnd,
    /// Batches that could not be read; their rows are missing.
    pub damages: Vec<record::Error>,
}

/// Sent attempts that are kept in memory before they are written.
const STARTS_MAX: u64 = 100_000;

/// Planned times are those of the plan, on the leader's clock, as long as a shard's clock stays as close to
/// the one that its start was given by. Further apart they move with their requests, or a latency from the
/// planned time would contain the drift of a clock.
const PLAN_APART_MAX: Nanos = Nanos::from_micros(100);

/// A shard's record and its clock.
struct OpenShard {
    reader: RunReader,
    place: ShardInfo,
    fit: ClockFit,
    start: Option<CommonStart>,
    /// Whether the offset was measured, or is that of one clock.
    is_measured: bool,
}

impl OpenShard {
    fn open(path: &Path) -> Result<Self, MergeError> {
        let reader = RunReader::open(path)?;
        let Some(place) = reader.info().shard().cloned() else {
            return Err(MergeError::NotAShard { path: path.to_owned() });
        };
        let known = reader.clock();
        let fit = known.map_or(ClockFit::SAME, |known| known.fit);
        Ok(Self {
            fit: clock::reaching(fit, last_time(&reader)?),
            start: known.and_then(|known| known.start),
            is_measured: known.is_some(),
            reader,
            place,
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
            reader.starts()?.map(|(_, _, sent)| sent).max().unwrap_or_default()
        }
    })
}

/// Writes the run of these shards to `out`. Ranks without a folder are named in the result.
pub fn merge(folders: &[PathBuf], out: &Path) -> Result<Merged, MergeError> {
    let shards = open_all(folders)?;
    let mut info = merged_info(&shards)?;
    let mut writer = RunWriter::create(out, &info)?;
    let mut parts = Vec::new();
    let mut worker_base = 0;
    for shard in &shards {
        let part = CopiedShard::copy(shard, &mut writer, (&info, worker_base))?;
        worker_base = worker_base.max(part.next_worker);
        parts.push(part);
    }
    let run = MergedRun {
        run: shards[0].place.run.clone(),
        count: shards[0].place.count,
        shards: parts.iter().map(|part| part.described.clone()).collect(),
    };
    info.sharding = Some(Sharding::Merged(run.clone()));
    writer.amend(info)?;
    let end = merged_end(&shards, &parts, &run);
    writer.finish(&end)?;
    let damages = parts.into_iter().flat_map(|part| part.damages).collect();
    Ok(Merged { run, end, damages })
}

/// The shards by rank, each with its clock.
fn open_all(folders: &[PathBuf]) -> Result<Vec<OpenShard>, MergeError> {
    let opened: Result<Vec<OpenShard>, MergeError> =
        folders.iter().map(|path| OpenShard::open(path)).collect();
    let mut shards = opened?;
    shards.sort_by_key(|shard| shard.place.rank);
    for pair in shards.windows(2) {
        let [one, other] = pair else { continue };
        let (path, second) = (one.path().to_owned(), other.path().to_owned());
        if (&one.place.run, one.place.count) != (&other.place.run, other.place.count) {
            return Err(MergeError::OtherRun {
                path,
                run: one.place.run.clone(),
                other: second,
                other_run: other.place.run.clone(),
            });
        }
        if one.place.rank == other.place.rank {
            return Err(MergeError::Twice { rank: one.place.rank, path, other: second });
        }
    }
    set_clocks(&mut shards);
    Ok(shards)
}

/// Gives every shard the best offset that its record allows: none on the leader's own machine, else the
/// measured one, else that of the wall clocks.
fn set_clocks(shards: &mut [OpenShard]) {
    let leader = shards.first().filter(|shard| shard.place.rank == 0);
    if let Some(clock) = leader.and_then(|leader| leader.place.clock.clone()) {
        for shard in shards.iter_mut().filter(|shard| shard.place.clock.as_ref() == Some(&clock)) {
            (shard.fit, shard.is_measured) = (ClockFit::SAME, true);
        }
    }
    let measured = shards.iter().position(|shard| shard.is_measured);
    let Some(reference) = shards.get(measured.unwrap_or(0)) else { return };
    let (rank, fit, clock) = (reference.place.rank, reference.fit, reference.place.clock.clone());
    let wall_offset = reference.wall_offset();
    for shard in shards.iter_mut().filter(|shard| !shard.is_measured) {
        if shard.place.rank == rank || (clock.is_some() && shard.place.clock == clock) {
            shard.fit = fit;
            shard.is_measured = true;
        } else {
            shard.fit = ClockFit::constant(shard.wall_offset().saturating_sub(wall_offset));
        }
    }
}

/// What was known before the first request of any shard.
fn merged_info(shards: &[OpenShard]) -> Result<RunInfo, MergeError> {
    let first = shards.first().ok_or(MergeError::Nothing)?;
    let begin = |shard: &OpenShard| shard.fit.on_leader(shard.info().origin);
    let origin = shards.iter().map(begin).min().unwrap_or_default();
    let mut info = RunInfo {
        origin,
        started: WallNanos(origin.0.saturating_add_signed(first.wall_offset())),
        load: first.place.load.clone(),
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

/// What was copied of one shard.
struct CopiedShard {
    described: MergedShard,
    end: Option<RunEnd>,
    /// Measured rows without a response.
    abandoned: u64,
    /// Requests that it was to send; `None` where time ends the run.
    planned: Option<u64>,
    /// The first number that no worker thread has so far.
    next_worker: u16,
    /// First and last time of a measured request, on the leader's clock.
    span: Option<(Nanos, Nanos)>,
    /// What could not be read.
    damages: Vec<record::Error>,
}

impl CopiedShard {
    /// Copies all rows of a shard.
    fn copy(
        shard: &OpenShard,
        writer: &mut RunWriter,
        (info, worker_base): (&RunInfo, u16),
    ) -> Result<Self, MergeError> {
        let end = match shard.reader.state()? {
            RunState::Ended(end) => Some(*end),
            RunState::Killed { .. } => None,
        };
        let load = &shard.info().load;
        let described = MergedShard {
            rank: shard.place.rank,
            host: shard.place.host.clone(),
            stop: end.as_ref().map(|end| end.stop),
            requests: 0,
            unwritten: end.as_ref().map_or(0, |end| end.health.rows_unwritten),
            in_flight: 0,
            unreadable: 0,
            never_sent: None,
            clock: Some(shard.fit).filter(|_| shard.is_measured),
        };
        let mut part = Self {
            described,
            end,
            abandoned: 0,
            planned: load.planned_requests.filter(|_| load.duration.is_none()),
            next_worker: worker_base,
            span: None,
            damages: Vec::new(),
        };
        let rows = RowMoves::new(shard, info, worker_base);
        for (at, (index, attempt, sent)) in (1_u64..).zip(shard.reader.starts()?) {
            writer.start(index, attempt, shard.fit.on_leader(sent));
            if at.is_multiple_of(STARTS_MAX) {
                writer.flush()?;
            }
        }
        part.damages = shard.reader.take_damages();
        for mut timeline in shard.reader.timelines()? {
            rows.apply(&mut timeline);
            part.count(&timeline);
            writer.push(timeline)?;
        }
        let unread = shard.reader.take_damages();
        if !unread.is_empty() {
            // Rows are missing that were written: the record is no more whole than one that broke off.
            part.described.stop = None;
            part.damages.extend(unread);
        }
        if part.described.stop.is_none() {
            for (index, attempt, sent) in shard.reader.unended()? {
                let mut timeline = in_flight(index, attempt, sent);
                rows.apply(&mut timeline);
                part.count(&timeline);
                if part.end.is_some() {
                    part.described.unreadable += 1;
                } else {
                    part.described.in_flight += 1;
                }
                writer.push(timeline)?;
            }
            // The same files once more: known damages.
            drop(shard.reader.take_damages());
        }
        let own = part.end.as_ref().map_or(0, worker_count);
        part.next_worker = part.next_worker.max(worker_base.saturating_add(own));
        for mut scrape in shard.reader.scrapes()? {
            scrape.at = shard.fit.on_leader(scrape.at);
            writer.scrape(&scrape)?;
        }
        part.damages.extend(shard.reader.take_damages());
        let unsent = part.planned.map(|planned| planned.saturating_sub(part.described.requests));
        part.described.never_sent = part.end.as_ref().map(|end| end.never_sent).or(unsent);
        Ok(part)
    }

    fn count(&mut self, timeline: &Timeline) {
        self.next_worker = self.next_worker.max(timeline.connection.worker.saturating_add(1));
        if timeline.identity.phase != Phase::Measure {
            return;
        }
        self.described.requests += u64::from(timeline.identity.attempt == 0);
        self.abandoned += u64::from(timeline.outcome == Outcome::Abandoned);
        let begin = timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted);
        let end = timeline.times.end.unwrap_or(begin);
        let (first, last) = self.span.unwrap_or((begin, end));
        self.span = Some((first.min(begin), last.max(end)));
    }
}

fn worker_count(end: &RunEnd) -> u16 {
    u16::try_from(end.health.workers.len()).unwrap_or(u16::MAX)
}

/// A request that a shard had sent when its record broke off.
fn in_flight(index: u64, attempt: u32, sent: Nanos) -> Timeline {
    let identity = AttemptId { attempt, ..AttemptId::new(index, Phase::Measure) };
    let mut timeline = Timeline::new(identity, RequestedLengths::default(), sent);
    timeline.times.first_byte_sent = Some(sent);
    timeline
}

/// How the rows of one shard become rows of the whole run.
struct RowMoves<'a> {
    shard: &'a OpenShard,
    planned_from: Option<CommonStart>,
    worker_base: u16,
    /// For each target, the merged index of each address.
    addresses: Vec<Vec<u16>>,
}

/// Connections of one shard have numbers below this power of two.
const CONNECTION_BITS: u32 = 40;

impl<'a> RowMoves<'a> {
    fn new(shard: &'a OpenShard, merged: &RunInfo, worker_base: u16) -> Self {
        let place = |(target, own): (usize, &record::TargetInfo)| {
            let all = merged.targets.get(target).map_or(&[][..], |target| &target.addresses);
            let index = |address: &String| all.iter().position(|known| known == address);
            let index = |address| index(address).and_then(|at| u16::try_from(at).ok());
            own.addresses.iter().map(|address| index(address).unwrap_or(u16::MAX)).collect()
        };
        let addresses = shard.info().targets.iter().enumerate().map(place).collect();
        Self { shard, planned_from: shard.planned_from(), worker_base, addresses }
    }

    fn apply(&self, timeline: &mut Timeline) {
        let OpenShard { fit, place, .. } = self.shard;
        let planned = timeline.times.intended;
        timeline.shift(fit.offset_at(timeline.times.admitted));
        if let (Some(planned), Some(start)) = (planned, self.planned_from) {
            // Exact: they count from the start that all shards were given.
            let offset = planned.signed_since(start.own);
            timeline.times.intended = Some(Nanos(start.leader.0.saturating_add_signed(offset)));
        }
        timeline.identity.shard = place.rank;
        let connection = &mut timeline.connection;
        connection.id |= u64::from(place.rank) << CONNECTION_BITS;
        connection.worker = connection.worker.saturating_add(self.worker_base);
        let own = self.addresses.get(usize::from(timeline.identity.target));
        connection.address = connection.address.and_then(|at| own?.get(usize::from(at)).copied());
    }
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
        .filter_map(|(shard, part)| Some((&shard.fit, shard.place.rank, part.end.as_ref()?)))
        .collect();
    RunEnd {
        stop: stop(&ends, run),
        measure_begin: begin,
        measure_end: end.max(begin),
        abandoned: parts.iter().map(abandoned).sum(),
        never_sent: never_sent(&shards[0].place, parts),
        health: health::merged(&ends),
    }
}

/// Requests that no shard has sent: those that shards report, and all of shards without a record.
fn never_sent(place: &ShardInfo, parts: &[CopiedShard]) -> u64 {
    let reported: u64 = parts.iter().filter_map(|part| part.described.never_sent).sum();
    let whole = place.load.planned_requests.filter(|_| place.load.duration.is_none());
    let found: u64 = parts.iter().filter_map(|part| part.planned).sum();
    reported + whole.map_or(0, |whole| whole.saturating_sub(found))
}

/// The gravest reason of any shard. A lost shard is graver than one that ended as planned or by a rule.
fn stop(ends: &[(&ClockFit, u32, &RunEnd)], run: &MergedRun) -> Stop {
    let has = |stop: &Stop| ends.iter().any(|(_, _, end)| end.stop == *stop);
    // Shard 0 ends the others. One that ends by itself is a shard that is missing from then on.
    let leader = ends.iter().find(|(_, rank, _)| *rank == 0).map(|(_, _, end)| end.stop);
    if let Some(stop @ (Stop::DiskFull | Stop::Interrupted | Stop::TargetLost)) = leader {
        return stop;
    }
    if !run.is_whole() || has(&Stop::ShardsLost) {
        return Stop::ShardsLost;
    }
    if has(&Stop::Overloaded) { Stop::Overloaded } else { Stop::Complete }
}

/// One line for each shard that is not whole, with the requests that are missing for it.
pub fn lacking(run: &MergedRun) -> Vec<String> {
    let count = run.count;
    let missing = run.missing().into_iter().map(|rank| {
        format!(
            "shard {rank} of {count} has no record: requests {rank}, {}, {} and so on are missing",
            u64::from(rank) + u64::from(count),
            u64::from(rank) + 2 * u64::from(count)
        )
    });
    let unfinished = run.shards.iter().filter(|shard| shard.stop.is_none()).map(|shard| {
        let MergedShard { rank, requests, in_flight, unreadable, never_sent, .. } = shard;
        if *unreadable > 0 {
            return format!(
                "the record of shard {rank} of {count} is damaged: the rows of {unreadable} of its {requests} requests cannot be read; they count as abandoned"
            );
        }
        let unsent = match never_sent {
            Some(unsent) => format!("{unsent} were never sent"),
            None => "an unknown number was never sent".to_owned(),
        };
        format!(
            "the record of shard {rank} of {count} breaks off: {requests} requests were sent, {in_flight} of them were in flight, {unsent}"
        )
    });
    let early = run.ended_early().filter_map(|shard| {
        let MergedShard { rank, requests, unwritten, never_sent, .. } = shard;
        let (unsent, reason) = (never_sent.unwrap_or(0), shard.stop?.reason());
        let sent = requests + unwritten;
        let missing = match unwritten {
            0 => String::new(),
            many => format!(", {many} of them are missing from the record"),
        };
        Some(format!(
            "shard {rank} of {count} ended early ({reason}): {sent} requests were sent{missing}, {unsent} were never sent"
        ))
    });
    missing.chain(unfinished).chain(early).collect()
}

#[cfg(test)]
mod tests;
