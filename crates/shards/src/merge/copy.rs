//! The rows of one shard, moved onto the clock of the run.

use tokometer_base::Nanos;
use tokometer_record::{
    self as record, AttemptId, CommonStart, MergedShard, Outcome, Phase, RequestedLengths, RunEnd,
    RunInfo, RunState, RunWriter, SentAttempt, Timeline,
};

use super::{MergeError, OpenShard};

/// Sent attempts that are kept in memory before they are written.
const STARTS_MAX: u64 = 100_000;

/// What was copied of one shard.
pub(super) struct CopiedShard {
    pub(super) described: MergedShard,
    pub(super) end: Option<RunEnd>,
    /// Measured rows without a response.
    pub(super) abandoned: u64,
    /// Requests that it was to send; `None` where time ends the run.
    pub(super) planned: Option<u64>,
    /// The first number that no worker thread has so far.
    pub(super) next_worker: u16,
    /// First and last time of a measured request, on the leader's clock.
    pub(super) span: Option<(Nanos, Nanos)>,
    /// What could not be read.
    pub(super) damages: Vec<record::Error>,
}

impl CopiedShard {
    pub(super) fn copy(
        shard: &OpenShard,
        writer: &mut RunWriter,
        info: &RunInfo,
        worker_base: u16,
    ) -> Result<Self, MergeError> {
        let end = match shard.reader.state()? {
            RunState::Ended(end) => Some(*end),
            RunState::Killed { .. } => None,
        };
        let load = &shard.info().load;
        let described = MergedShard {
            rank: shard.shard_info.rank,
            host: shard.shard_info.host.clone(),
            stop: end.as_ref().map(|end| end.stop),
            requests: 0,
            unwritten: end.as_ref().map_or(0, |end| end.health.rows_unwritten),
            in_flight: 0,
            unreadable: 0,
            never_sent: None,
            clock: Some(shard.fit).filter(|_| shard.is_measured),
            measured: None,
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
        for (at, start) in (1_u64..).zip(shard.reader.starts()?) {
            writer.start(start.index, start.attempt, shard.fit.on_leader(start.sent));
            if at.is_multiple_of(STARTS_MAX) {
                writer.flush().map_err(MergeError::Unwritten)?;
            }
        }
        part.damages = shard.reader.take_damages();
        for mut timeline in shard.reader.timelines()? {
            rows.apply(&mut timeline);
            part.count(&timeline);
            writer.push(timeline).map_err(MergeError::Unwritten)?;
        }
        let unread = shard.reader.take_damages();
        if !unread.is_empty() {
            // Rows are missing that were written: the record is no more whole than one that broke off.
            part.described.stop = None;
            part.damages.extend(unread);
        }
        if part.described.stop.is_none() {
            for SentAttempt { index, attempt, sent } in shard.reader.unended()? {
                let mut timeline = in_flight(index, attempt, sent);
                timeline.identity.target = (shard.target)(index);
                rows.apply(&mut timeline);
                part.count(&timeline);
                if part.end.is_some() {
                    part.described.unreadable += 1;
                } else {
                    part.described.in_flight += 1;
                }
                writer.push(timeline).map_err(MergeError::Unwritten)?;
            }
            // The same files once more: known damages.
            drop(shard.reader.take_damages());
        }
        let own = part.end.as_ref().map_or(0, worker_count);
        part.next_worker = part.next_worker.max(worker_base.saturating_add(own));
        for mut scrape in shard.reader.scrapes()? {
            scrape.at = shard.fit.on_leader(scrape.at);
            writer.scrape(&scrape).map_err(MergeError::Unwritten)?;
        }
        part.damages.extend(shard.reader.take_damages());
        let unsent = part.planned.map(|planned| planned.saturating_sub(part.described.requests));
        part.described.measured = part.measured(shard);
        part.described.never_sent = part.end.as_ref().map(|end| end.never_sent).or(unsent);
        Ok(part)
    }

    /// Start and end of the measured phase. A record that broke off ends with its last request.
    fn measured(&self, shard: &OpenShard) -> Option<(Nanos, Nanos)> {
        let of_end = |pick: fn(&RunEnd) -> Nanos| {
            self.end.as_ref().map(|end| shard.fit.on_leader(pick(end)))
        };
        let common = shard.start.map(|start| start.leader);
        let begin = common.or(of_end(|end| end.measure_begin)).or(self.span.map(|span| span.0));
        begin.zip(of_end(|end| end.measure_end).or(self.span.map(|span| span.1)))
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
        let address = |(target, own): (usize, &record::TargetInfo)| {
            let all = merged.targets.get(target).map_or(&[][..], |target| &target.addresses);
            let index = |address: &String| all.iter().position(|known| known == address);
            let index = |address| index(address).and_then(|at| u16::try_from(at).ok());
            own.addresses.iter().map(|address| index(address).unwrap_or(u16::MAX)).collect()
        };
        let addresses = shard.info().targets.iter().enumerate().map(address).collect();
        Self { shard, planned_from: shard.planned_from(), worker_base, addresses }
    }

    fn apply(&self, timeline: &mut Timeline) {
        let OpenShard { fit, shard_info, .. } = self.shard;
        let planned = timeline.times.intended;
        timeline.shift(fit.offset_at(timeline.times.admitted));
        if let (Some(planned), Some(start)) = (planned, self.planned_from) {
            // Exact: they count from the start that all shards were given.
            let offset = planned.signed_since(start.own);
            timeline.times.intended = Some(Nanos(start.leader.0.saturating_add_signed(offset)));
        }
        timeline.identity.shard = shard_info.rank;
        let connection = &mut timeline.connection;
        connection.id |= u64::from(shard_info.rank) << CONNECTION_BITS;
        connection.worker = connection.worker.saturating_add(self.worker_base);
        let own = self.addresses.get(usize::from(timeline.identity.target));
        connection.address = connection.address.and_then(|at| own?.get(usize::from(at)).copied());
    }
}
