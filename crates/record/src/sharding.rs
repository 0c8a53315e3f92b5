//! A run that several processes made: what each record says of its shard, and what a merged one says
//! of its parts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

use crate::end::Stop;
use crate::load::RecordedLoad;

/// The shard that made a record, in a run of several processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharding {
    /// One of them wrote it.
    Shard(ShardInfo),
    /// It was merged from theirs.
    Merged(MergedRun),
}

impl Sharding {
    /// Every text in it that comes from outside.
    pub(crate) fn texts(&mut self) -> Box<dyn Iterator<Item = &mut String> + '_> {
        match self {
            Self::Shard(shard) => Box::new(
                [&mut shard.run].into_iter().chain(&mut shard.host).chain(&mut shard.clock),
            ),
            Self::Merged(merged) => Box::new(
                std::iter::once(&mut merged.run)
                    .chain(merged.shards.iter_mut().filter_map(|shard| shard.host.as_mut())),
            ),
        }
    }
}

/// One process of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardInfo {
    /// From zero. Shard k of n sends the requests whose index leaves remainder k.
    pub rank: u32,
    pub count: u32,
    /// Equal in all shards of one run, and in no other run.
    pub run: String,
    /// The load of the whole run; that of the record is this shard's part.
    pub load: RecordedLoad,
    #[serde(default)]
    pub host: Option<String>,
    /// Identifies the monotonic clock: shards of one machine have the same one.
    #[serde(default)]
    pub clock: Option<String>,
    /// Whether the limit on requests in flight is one for all shards; otherwise each has its part.
    #[serde(default)]
    pub is_cap_shared: bool,
}

/// The content of `clock.json` in a shard's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardClock {
    pub fit: ClockFit,
    /// The common start of the measured phase; absent before it was agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<CommonStart>,
}

/// One moment on two clocks: the start of the measured phase, to which all planned times refer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonStart {
    /// As the leader set it, on its clock.
    pub leader: Nanos,
    /// As this shard used it, on its own clock.
    pub own: Nanos,
}

impl ShardClock {
    pub const fn of_leader(start: Nanos) -> Self {
        let start = Some(CommonStart { leader: start, own: start });
        Self { fit: ClockFit::SAME, start }
    }
}

/// How a shard's clock relates to the leader's.
///
/// Between its two ends the offset is a straight line, which a constant difference in speed gives.
/// Before and after, it is constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFit {
    /// First measurement, on the shard's clock.
    pub from: Nanos,
    /// What has to be added to the shard's time then, in nanoseconds.
    pub from_offset: i64,
    /// Last measurement, on the shard's clock.
    pub to: Nanos,
    /// What has to be added to the shard's time then, in nanoseconds.
    pub to_offset: i64,
    /// No measured offset differs from this line by more, its own error included.
    pub bound: Nanos,
    pub samples: u32,
}

impl ClockFit {
    /// The clock of the leader itself, or of its machine.
    pub const SAME: Self = Self {
        from: Nanos::ZERO,
        from_offset: 0,
        to: Nanos::ZERO,
        to_offset: 0,
        bound: Nanos::ZERO,
        samples: 0,
    };

    pub const fn constant(offset: i64) -> Self {
        Self { from_offset: offset, to_offset: offset, ..Self::SAME }
    }

    /// What has to be added to a time of the shard, in nanoseconds.
    pub fn offset_at(&self, at: Nanos) -> i64 {
        let span = (self.to - self.from).0;
        let into = (at - self.from).0.min(span);
        let change = i128::from(self.to_offset) - i128::from(self.from_offset);
        let moved = if span == 0 { 0 } else { change * i128::from(into) / i128::from(span) };
        i64::try_from(i128::from(self.from_offset) + moved).unwrap_or(self.from_offset)
    }

    /// A time of the shard on the leader's clock.
    pub fn on_leader(&self, at: Nanos) -> Nanos {
        Nanos(at.0.saturating_add_signed(self.offset_at(at)))
    }
}

/// A run that was merged from the records of its shards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedRun {
    pub run: String,
    /// Number of shards that the run was planned with.
    pub count: u32,
    /// Shards that had a request to send, from rank 0 on; `None` where all had, or time ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<u32>,
    /// Whether the limit on requests in flight was one for all shards; otherwise each had its part.
    #[serde(default)]
    pub is_cap_shared: bool,
    /// Those that were found, by rank.
    pub shards: Vec<MergedShard>,
}

/// What a merged run knows of one shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergedShard {
    pub rank: u32,
    pub host: Option<String>,
    /// Why it stopped; `None` where its record was not finished.
    pub stop: Option<Stop>,
    /// Measured requests that it sent, as far as they are in its record.
    pub requests: u64,
    /// Requests that ended after its record could not be written any further.
    #[serde(default)]
    pub unwritten: u64,
    /// Of these, requests in flight when its record broke off.
    pub in_flight: u64,
    /// Requests of a finished record whose rows cannot be read; they count as abandoned.
    #[serde(default)]
    pub unreadable: u64,
    /// Planned requests that it did not send; `None` where time ends the run and its record was not
    /// finished.
    pub never_sent: Option<u64>,
    /// Offset and drift of its clock; `None` where only wall clocks could be compared.
    pub clock: Option<ClockFit>,
    /// Start and end of its measured phase on the leader's clock; `None` where its record does not have
    /// both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<(Nanos, Nanos)>,
}

impl MergedRun {
    /// Ranks without a record that had a request to send.
    pub fn missing(&self) -> Vec<u32> {
        let found: BTreeSet<u32> = self.shards.iter().map(|shard| shard.rank).collect();
        let sending = self.sending.map_or(self.count, |sending| sending.min(self.count));
        (0..sending).filter(|rank| !found.contains(rank)).collect()
    }

    pub fn unfinished(&self) -> Vec<u32> {
        let unfinished = self.shards.iter().filter(|shard| shard.stop.is_none());
        unfinished.map(|shard| shard.rank).collect()
    }

    /// Shards that ended before their part was sent, unless shard 0 ended for the same reason: it then
    /// ended all of them.
    pub fn ended_early(&self) -> impl Iterator<Item = &MergedShard> {
        let leader = self.shards.iter().find(|shard| shard.rank == 0).and_then(|shard| shard.stop);
        self.shards.iter().filter(move |shard| {
            shard.rank != 0 && shard.stop.is_some_and(Stop::is_early_end) && shard.stop != leader
        })
    }

    /// Shard 0 where it ended before its part was sent, which ends the others as well: no shard is missing,
    /// but requests are.
    pub fn leader_ended_early(&self) -> Option<&MergedShard> {
        let is_early = |shard: &&MergedShard| shard.stop.is_some_and(Stop::is_early_end);
        self.shards.iter().find(|shard| shard.rank == 0).filter(is_early)
    }

    /// Whether every shard is there and has finished its record, with all of its part.
    pub fn is_whole(&self) -> bool {
        self.missing().is_empty()
            && self.unfinished().is_empty()
            && self.ended_early().next().is_none()
    }

    /// No time of one shard is further from the leader's clock than this. `None` where an offset is not
    /// known.
    pub fn clock_bound(&self) -> Option<Nanos> {
        self.shards.iter().try_fold(Nanos::ZERO, |worst, shard| Some(worst.max(shard.clock?.bound)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_follows_the_drift_and_stays_at_its_ends() {
        let fit = ClockFit {
            from: Nanos::from_secs(10),
            from_offset: 1_000,
            to: Nanos::from_secs(20),
            to_offset: -1_000,
            bound: Nanos(5),
            samples: 2,
        };
        let check = |seconds, offset| {
            assert_eq!(fit.offset_at(Nanos::from_secs(seconds)), offset, "{seconds} s");
        };
        check(0, 1_000);
        check(10, 1_000);
        check(15, 0);
        check(20, -1_000);
        check(90, -1_000);
        assert_eq!(fit.on_leader(Nanos::from_secs(20)), Nanos(19_999_999_000));
        assert_eq!(ClockFit::SAME.on_leader(Nanos(7)), Nanos(7));
        assert_eq!(ClockFit::constant(-9).on_leader(Nanos(7)), Nanos::ZERO);
    }

    #[test]
    fn a_merged_run_names_what_it_lacks() {
        let shard = |rank, stop, clock| MergedShard {
            rank,
            host: None,
            stop,
            requests: 0,
            unwritten: 0,
            in_flight: 0,
            unreadable: 0,
            never_sent: None,
            clock,
            measured: None,
        };
        let fit = ClockFit { bound: Nanos(70), ..ClockFit::SAME };
        let mut merged = MergedRun {
            run: "r".to_owned(),
            count: 4,
            sending: None,
            is_cap_shared: false,
            shards: vec![
                shard(0, Some(Stop::Complete), Some(ClockFit::SAME)),
                shard(2, None, Some(fit)),
            ],
        };
        assert_eq!((merged.missing(), merged.unfinished()), (vec![1, 3], vec![2]));
        assert_eq!(merged.clock_bound(), Some(Nanos(70)));
        // A run of three requests leaves the last shard nothing to send.
        merged.sending = Some(3);
        assert_eq!(merged.missing(), [1]);
        merged.shards[0].clock = None;
        assert_eq!((merged.clock_bound(), merged.is_whole()), (None, false));
    }
}
