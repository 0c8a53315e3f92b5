//! Which shards are there, ready, running or lost, as the leader sees it.
//!
//! Pure: messages and times go in, decisions come out. The rules: a run begins when every shard that is
//! not lost is ready, or when the wait is over. A shard that is late is left out. A shard that says
//! nothing for [`SILENCE_MAX`] is lost, as is one whose connection ends. What is lost stays lost, unless it
//! joins again before the first point begins.

use std::collections::BTreeMap;

use tokometer_base::Nanos;

use crate::message::{LatencyBins, ShardCounts};

/// A shard that says nothing for so long is lost. Followers say something twice a second.
pub(crate) const SILENCE_MAX: Nanos = Nanos::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShardState {
    /// Let in; it prepares its prompts.
    Joined,
    /// Waits for the start of a point.
    Ready {
        point: u32,
        /// Identifies its prompts.
        prompts: String,
    },
    /// Sends requests of a point.
    Running { point: u32 },
    /// Has ended a point, with a complete record.
    Ended { point: u32 },
    /// Takes no part in a point, and may take part in the next one.
    Unable { point: u32, why: String },
    /// Will not come back.
    Lost { why: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    state: ShardState,
    heard: Nanos,
    counts: ShardCounts,
    bins: LatencyBins,
    /// The last point that it has ended.
    ended: Option<u32>,
    /// The last block of its point that it waits for, or has begun.
    block: Option<u64>,
}

impl Member {
    fn joined(heard: Nanos) -> Self {
        let (counts, bins) = (ShardCounts::default(), LatencyBins::default());
        Self { state: ShardState::Joined, heard, counts, bins, ended: None, block: None }
    }
}

/// All shards besides the leader's own.
#[derive(Debug)]
pub(crate) struct Attendance {
    count: u32,
    members: BTreeMap<u32, Member>,
    /// Why processes that gave these ranks were refused, the last one of each.
    refused: BTreeMap<u32, String>,
    has_begun: bool,
}

impl Attendance {
    /// A run of `count` shards, the leader's own among them.
    pub(crate) fn new(count: u32) -> Self {
        Self { count, members: BTreeMap::new(), refused: BTreeMap::new(), has_begun: false }
    }

    /// Notes that a process was refused which said that it had this rank.
    pub(crate) fn refuse(&mut self, rank: u32, why: &str) {
        if (1..self.count).contains(&rank) {
            let _earlier = self.refused.insert(rank, why.to_owned());
        }
    }

    /// Lets a shard in, unless its rank is taken or does not exist. Before the first point begins, one whose
    /// connection was lost may come back: it has sent nothing.
    pub(crate) fn join(&mut self, rank: u32, now: Nanos) -> Result<(), String> {
        if rank == 0 || rank >= self.count {
            return Err(format!("there is no shard {rank} to join a run of {} shards", self.count));
        }
        if let Some(member) = self.members.get(&rank) {
            let is_lost = matches!(member.state, ShardState::Lost { .. });
            if !is_lost {
                return Err(format!("shard {rank} has joined before"));
            }
            if self.has_begun {
                return Err(format!("shard {rank} was lost, and the run has begun without it"));
            }
        }
        let _lost = self.members.insert(rank, Member::joined(now));
        Ok(())
    }

    /// Notes that a shard has said something.
    pub(crate) fn heard(&mut self, rank: u32, now: Nanos) {
        if let Some(member) = self.members.get_mut(&rank) {
            member.heard = member.heard.max(now);
        }
    }

    /// A shard's new state. What is lost stays lost.
    pub(crate) fn set(&mut self, rank: u32, state: ShardState) {
        if let Some(member) = self.members.get_mut(&rank)
            && !matches!(member.state, ShardState::Lost { .. })
        {
            if matches!(state, ShardState::Ready { .. }) {
                member.counts = ShardCounts::default();
                member.bins = LatencyBins::default();
                member.block = None;
            }
            if let ShardState::Ended { point } = state {
                member.ended = Some(point);
            }
            member.state = state;
        }
    }

    pub(crate) fn progress(&mut self, rank: u32, counts: ShardCounts) {
        if let Some(member) = self.members.get_mut(&rank) {
            member.counts = counts;
        }
    }

    /// Notes the latencies of a shard, of the point that it is making.
    pub(crate) fn spread(&mut self, rank: u32, point: u32, bins: LatencyBins) {
        if let Some(member) = self.members.get_mut(&rank)
            && member.state == (ShardState::Running { point })
        {
            member.bins = bins;
        }
    }

    /// Marks shards as lost that have been silent for too long, and returns them.
    pub(crate) fn find_silent(&mut self, now: Nanos) -> Vec<u32> {
        let is_silent = |member: &Member| {
            !matches!(member.state, ShardState::Lost { .. }) && now - member.heard > SILENCE_MAX
        };
        let silent = self.members.iter().filter(|(_, member)| is_silent(member));
        let silent: Vec<u32> = silent.map(|(rank, _)| *rank).collect();
        for rank in &silent {
            self.set(*rank, ShardState::Lost { why: format!("no message for {SILENCE_MAX}") });
        }
        silent
    }

    /// Shards that are ready for a point with other prompts than these: rank and prompts.
    pub(crate) fn with_other_prompts(&self, wanted: u32, own: &str) -> Vec<(u32, String)> {
        let differing = self.members.iter().filter_map(|(rank, member)| match &member.state {
            ShardState::Ready { point, prompts } if *point == wanted && prompts != own => {
                Some((*rank, prompts.clone()))
            }
            _ => None,
        });
        differing.collect()
    }

    /// Shards that a point waits for. It can begin when every shard that is not lost is ready.
    pub(crate) fn missing(&self, wanted: u32) -> Vec<u32> {
        let is_waited_for = |rank: &u32| match self.members.get(rank).map(|member| &member.state) {
            Some(ShardState::Ready { point, .. } | ShardState::Unable { point, .. }) => {
                *point != wanted
            }
            Some(ShardState::Lost { .. }) => false,
            _ => true,
        };
        (1..self.count).filter(is_waited_for).collect()
    }

    /// Begins a point with the shards that are ready for it, and returns them.
    pub(crate) fn begin(&mut self, wanted: u32) -> Vec<u32> {
        self.has_begun = true;
        let ready = self.members.iter_mut().filter(|(_, member)| {
            matches!(&member.state, ShardState::Ready { point, .. } if *point == wanted)
        });
        ready
            .map(|(rank, member)| {
                member.state = ShardState::Running { point: wanted };
                *rank
            })
            .collect()
    }

    /// Shards that still send requests of a point.
    pub(crate) fn running(&self, wanted: u32) -> Vec<u32> {
        let is_running = |member: &Member| member.state == ShardState::Running { point: wanted };
        self.members
            .iter()
            .filter(|(_, member)| is_running(member))
            .map(|(rank, _)| *rank)
            .collect()
    }

    /// Notes that a shard waits for a block of the point that it is making.
    pub(crate) fn wait_for_block(&mut self, rank: u32, point: u32, block: u64) {
        if let Some(member) = self.members.get_mut(&rank)
            && member.state == (ShardState::Running { point })
        {
            member.block = Some(block);
        }
    }

    /// Whether every shard that still makes its part of a point waits for a block.
    pub(crate) fn is_block_ready(&self, point: u32, block: u64) -> bool {
        let is_late = |member: &Member| {
            member.state == ShardState::Running { point } && member.block < Some(block)
        };
        !self.members.values().any(is_late)
    }

    /// Shards that were lost before they had ended a point, or never came, with the reason.
    pub(crate) fn lost(&self, point: u32) -> Vec<(u32, String)> {
        let why = |rank: u32| {
            let Some(member) = self.members.get(&rank) else {
                return Some(match self.refused.get(&rank) {
                    Some(why) => format!("it was refused: {why}"),
                    None => "it did not join".to_owned(),
                });
            };
            match &member.state {
                ShardState::Lost { why } if member.ended < Some(point) => Some(why.clone()),
                ShardState::Unable { point: of, why } if *of == point => Some(why.clone()),
                _ => None,
            }
        };
        (1..self.count).filter_map(|rank| Some((rank, why(rank)?))).collect()
    }

    /// The latencies of all shards besides the leader's own.
    pub(crate) fn latencies(&self) -> LatencyBins {
        let sum = |latency: usize| {
            let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
            for (bin, count) in self.members.values().flat_map(|member| &member.bins[latency]) {
                let sum = sums.entry(*bin).or_default();
                *sum = sum.saturating_add(*count);
            }
            sums.into_iter().collect()
        };
        [sum(0), sum(1)]
    }

    /// The counters of all shards besides the leader's own.
    pub(crate) fn counts(&self) -> ShardCounts {
        self.members
            .values()
            .map(|member| member.counts)
            .fold(ShardCounts::default(), ShardCounts::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::SendCounts;

    fn ready(point: u32) -> ShardState {
        ShardState::Ready { point, prompts: "p".to_owned() }
    }

    fn with(count: u32) -> Attendance {
        let mut attendance = Attendance::new(count);
        for rank in 1..count {
            attendance.join(rank, Nanos::ZERO).unwrap();
        }
        attendance
    }

    #[test]
    fn latencies_add_up_over_shards_and_start_again_with_a_point() {
        let mut attendance = with(4);
        for rank in 1..4 {
            attendance.set(rank, ready(0));
        }
        assert_eq!(attendance.begin(0), [1, 2, 3]);
        attendance.spread(1, 0, [vec![(3, 1)], vec![]]);
        attendance.spread(1, 0, [vec![(3, 2), (9, 1)], vec![(5, 1)]]);
        attendance.spread(2, 0, [vec![(1, 7), (9, 2)], vec![(5, 4)]]);
        // Of a point that it is not making.
        attendance.spread(3, 1, [vec![(1, 100)], vec![]]);
        assert_eq!(attendance.latencies(), [vec![(1, 7), (3, 2), (9, 3)], vec![(5, 5)]]);
        attendance.set(1, ready(1));
        assert_eq!(attendance.latencies(), [vec![(1, 7), (9, 2)], vec![(5, 4)]]);
    }

    #[test]
    fn counters_add_up_over_shards_and_start_again_with_a_point() {
        let counts = |sent, late, worst| ShardCounts {
            sent,
            succeeded: sent - 1,
            failed: 1,
            tokens: 10 * sent,
            cancelled: 0,
            sends: SendCounts { judged: sent, late, worst: Nanos::from_millis(worst) },
        };
        let mut attendance = with(3);
        attendance.progress(1, counts(4, 1, 7));
        attendance.progress(1, counts(5, 2, 30));
        attendance.progress(2, counts(6, 3, 8));
        let sum = ShardCounts { succeeded: 9, failed: 2, ..counts(11, 5, 30) };
        assert_eq!(attendance.counts(), sum);
        attendance.set(1, ready(1));
        assert_eq!(attendance.counts(), counts(6, 3, 8));
    }

    #[test]
    fn a_rank_joins_once_and_only_if_it_exists() {
        let mut attendance = Attendance::new(3);
        assert!(attendance.join(0, Nanos::ZERO).is_err(), "that is the leader itself");
        assert!(attendance.join(3, Nanos::ZERO).is_err());
        assert!(attendance.join(1, Nanos::ZERO).is_ok());
        assert!(attendance.join(1, Nanos::ZERO).unwrap_err().contains("joined before"));
        assert_eq!(attendance.lost(0), [(2, "it did not join".to_owned())]);
        attendance.refuse(2, "its secret is not that of the leader");
        attendance.refuse(9, "there is no such shard");
        let why = "it was refused: its secret is not that of the leader".to_owned();
        assert_eq!(attendance.lost(0), [(2, why)]);
    }

    /// A shard that was restarted before the start was refused, and the run was made without it.
    #[test]
    fn a_lost_shard_joins_again_until_the_first_point_begins() {
        let mut attendance = with(3);
        attendance.set(1, ready(0));
        attendance.set(1, ShardState::Lost { why: "closed".to_owned() });
        attendance.join(1, Nanos::ZERO).unwrap();
        assert_eq!(attendance.missing(0), [1, 2]);
        attendance.set(1, ready(0));
        assert_eq!(attendance.begin(0), [1]);
        attendance.set(1, ShardState::Lost { why: "closed".to_owned() });
        let why = attendance.join(1, Nanos::ZERO).unwrap_err();
        assert!(why.contains("the run has begun without it"), "{why}");
    }

    #[test]
    fn the_barrier_opens_when_all_are_ready_or_lost() {
        let mut attendance = with(4);
        attendance.set(1, ready(0));
        assert_eq!(attendance.missing(0), [2, 3]);
        attendance.set(2, ShardState::Lost { why: "gone".to_owned() });
        attendance.set(2, ready(0));
        attendance.set(3, ready(1));
        assert_eq!(attendance.missing(0), [3], "of another point");
        attendance.set(3, ready(0));
        assert!(attendance.missing(0).is_empty());
        assert_eq!(attendance.begin(0), [1, 3]);
        assert_eq!(attendance.running(0), [1, 3]);
        attendance.set(1, ShardState::Ended { point: 0 });
        assert_eq!(attendance.running(0), [3]);
        assert_eq!(attendance.lost(0), [(2, "gone".to_owned())]);
    }

    /// A shard closes its connection when it has ended: the leader named it as lost.
    #[test]
    fn a_shard_that_leaves_after_its_end_is_not_lost_for_that_point() {
        let mut attendance = with(2);
        attendance.set(1, ready(0));
        assert_eq!(attendance.begin(0), [1]);
        attendance.set(1, ShardState::Ended { point: 0 });
        attendance.set(1, ShardState::Lost { why: "closed".to_owned() });
        assert_eq!(attendance.lost(0), []);
        assert_eq!(attendance.lost(1), [(1, "closed".to_owned())]);
        assert!(attendance.missing(1).is_empty(), "nobody waits for it");
    }

    /// A point that one shard cannot make, such as one with too few slots, must not cost the others.
    #[test]
    fn a_shard_that_cannot_make_a_point_is_waited_for_at_the_next_one() {
        let mut attendance = with(3);
        attendance.set(1, ready(0));
        attendance.set(2, ShardState::Unable { point: 0, why: "no file".to_owned() });
        assert!(attendance.missing(0).is_empty());
        assert_eq!(attendance.begin(0), [1]);
        assert_eq!(attendance.lost(0), [(2, "no file".to_owned())]);
        attendance.set(1, ShardState::Ended { point: 0 });
        attendance.set(1, ready(1));
        assert_eq!(attendance.missing(1), [2]);
        attendance.set(2, ready(1));
        assert!(attendance.missing(1).is_empty());
    }

    #[test]
    fn a_block_begins_when_all_that_still_send_have_nothing_in_flight() {
        let mut attendance = with(4);
        for rank in 1..4 {
            attendance.set(rank, ready(0));
        }
        assert_eq!(attendance.begin(0).len(), 3);
        attendance.wait_for_block(1, 0, 1);
        assert!(!attendance.is_block_ready(0, 1));
        attendance.set(2, ShardState::Ended { point: 0 });
        attendance.set(3, ShardState::Lost { why: "gone".to_owned() });
        assert!(attendance.is_block_ready(0, 1));
        assert!(!attendance.is_block_ready(0, 2), "it waits for the one before");
        attendance.wait_for_block(1, 7, 2);
        assert!(!attendance.is_block_ready(0, 2), "of another point");
    }

    #[test]
    fn silence_is_loss_and_other_prompts_are_named() {
        let mut attendance = with(3);
        let late = SILENCE_MAX + Nanos(1);
        attendance.heard(1, Nanos(1));
        assert_eq!(attendance.find_silent(SILENCE_MAX), [0; 0]);
        assert_eq!(attendance.find_silent(late), [2]);
        assert_eq!(attendance.find_silent(late), [0; 0], "once");
        attendance.set(1, ready(0));
        assert_eq!(attendance.with_other_prompts(0, "p"), []);
        assert_eq!(attendance.with_other_prompts(0, "q"), [(1, "p".to_owned())]);
    }

    /// A thousand shards over links with delays of their own: barrier, end and losses, without sockets.
    #[test]
    fn a_thousand_shards_pass_two_barriers_in_virtual_time() {
        const SHARDS: u32 = 1_000;
        let mut attendance = with(SHARDS);
        let mut now = Nanos::ZERO;
        for point in 0..2 {
            for step in 0..SHARDS - 1 {
                // In an order of their own, each later than the one before.
                let rank = 1 + step * 617 % (SHARDS - 1);
                assert!(!attendance.missing(point).is_empty());
                now += Nanos::from_millis(1);
                for other in 1..SHARDS {
                    attendance.heard(other, now);
                }
                attendance.set(rank, ready(point));
            }
            assert!(attendance.missing(point).is_empty());
            assert_eq!(attendance.begin(point).len(), 999);
            for rank in 1..SHARDS {
                attendance.progress(rank, ShardCounts { sent: 3, ..ShardCounts::default() });
                attendance.set(rank, ShardState::Ended { point });
            }
            assert_eq!(attendance.counts().sent, 3 * 999);
            assert!(attendance.running(point).is_empty() && attendance.lost(point).is_empty());
        }
    }
}
