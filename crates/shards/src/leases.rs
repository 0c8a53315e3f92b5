//! A limit on requests in flight that all shards share: shard 0 lends the slots.
//!
//! Pure: reports of shards go in, changes for shards come out. Every slot is held by one shard or free.
//! A shard keeps a slot for its own next request, so that a loop that is full everywhere needs no
//! message. Slots move when a shard has requests waiting: first those that are free, then those that
//! another shard does not use, then those of a shard that holds at least two more, or one where the
//! waiting shard holds none.

use std::collections::BTreeMap;

/// What a shard does with its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LeaseChange {
    /// Slots to add.
    pub granted: u32,
    /// Slots to give up as soon as they are free.
    pub recalled: u32,
    /// Slots to give up once nothing waits for them.
    pub offered: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Holder {
    held: u32,
    /// Requests that wait for a slot.
    want: u32,
    /// Slots that it was asked to give up and has not.
    recalled: u32,
    /// Slots that it was asked to offer and has not.
    offered: u32,
    /// When it last had a slot to itself: the one that waits longest is served first.
    served: u64,
}

impl Holder {
    /// Slots that will stay.
    fn kept(&self) -> u32 {
        self.held.saturating_sub(self.recalled)
    }
}

/// All slots of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeasePool {
    free: u32,
    /// Counts slots that moved.
    moves: u64,
    holders: BTreeMap<u32, Holder>,
}

impl LeasePool {
    /// A run whose shards begin with these slots, by rank. What is left of `cap` is free.
    pub(crate) fn new(cap: u32, parts: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let holder = |held| Holder { held, ..Holder::default() };
        let holders: BTreeMap<u32, Holder> =
            parts.into_iter().map(|(rank, held)| (rank, holder(held))).collect();
        let held: u32 = holders.values().map(|holder| holder.held).sum();
        Self { free: cap.saturating_sub(held), moves: 0, holders }
    }

    /// A shard gives slots back and says how many requests wait. Returns what changes, by rank.
    pub(crate) fn report(
        &mut self,
        rank: u32,
        freed: u32,
        want: u32,
    ) -> BTreeMap<u32, LeaseChange> {
        if let Some(holder) = self.holders.get_mut(&rank) {
            // A shard cannot give back more than it holds: the cap would grow.
            let freed = freed.min(holder.held);
            holder.held -= freed;
            let recalled = freed.min(holder.recalled);
            holder.recalled -= recalled;
            holder.offered = holder.offered.saturating_sub(freed - recalled);
            holder.want = want;
            if freed > 0 {
                self.moves += 1;
                holder.served = self.moves;
            }
            self.free += freed;
        }
        self.balance()
    }

    /// A shard has ended or is lost: its slots are free.
    pub(crate) fn remove(&mut self, rank: u32) -> BTreeMap<u32, LeaseChange> {
        if let Some(holder) = self.holders.remove(&rank) {
            self.free += holder.held;
        }
        self.balance()
    }

    fn balance(&mut self) -> BTreeMap<u32, LeaseChange> {
        let mut changes: BTreeMap<u32, LeaseChange> = BTreeMap::new();
        while self.free > 0 {
            let Some((rank, holder)) = neediest(&mut self.holders) else { break };
            self.free -= 1;
            self.moves += 1;
            holder.served = self.moves;
            holder.held += 1;
            holder.want -= 1;
            changes.entry(rank).or_default().granted += 1;
        }
        self.ask_for_unused(&mut changes);
        self.recall(&mut changes);
        changes
    }

    /// Asks every shard where nothing waits for as many slots as are needed elsewhere: which of them has
    /// some that it does not use is not known here.
    fn ask_for_unused(&mut self, changes: &mut BTreeMap<u32, LeaseChange>) {
        let wanted =
            self.holders.values().fold(0_u32, |sum, holder| sum.saturating_add(holder.want));
        for (rank, holder) in self.holders.iter_mut().filter(|(_, holder)| holder.want == 0) {
            let more = holder.kept().min(wanted).saturating_sub(holder.offered);
            if more > 0 {
                holder.offered += more;
                changes.entry(*rank).or_default().offered += more;
            }
        }
    }

    /// Takes slots from shards that hold more than those that wait.
    fn recall(&mut self, changes: &mut BTreeMap<u32, LeaseChange>) {
        // What each will hold once the slots on their way have arrived; they go to those with fewest.
        let mut expected: BTreeMap<u32, (u32, u32)> = self
            .holders
            .iter()
            // A shard that gives its last slot to another one waits until its turn comes again.
            .filter(|(_, holder)| holder.want > 0 && (holder.kept() > 0 || holder.recalled == 0))
            .map(|(rank, holder)| (*rank, (holder.kept(), holder.want)))
            .collect();
        let mut coming: u32 = self.holders.values().map(|holder| holder.recalled).sum();
        loop {
            let waiting = expected.iter_mut().filter(|(_, (_, want))| *want > 0);
            let Some((poor, entry)) = waiting.min_by_key(|(_, (kept, _))| *kept) else { return };
            let (poor, least) = (*poor, entry.0);
            *entry = (entry.0 + 1, entry.1 - 1);
            if coming > 0 {
                coming -= 1;
                continue;
            }
            let others = self.holders.iter_mut().filter(|(rank, _)| **rank != poor);
            let Some((rich, holder)) = others.max_by_key(|(_, holder)| holder.kept()) else {
                return;
            };
            let most = holder.kept();
            if most <= least + 1 && (least > 0 || most == 0) {
                return;
            }
            holder.recalled += 1;
            changes.entry(*rich).or_default().recalled += 1;
            if holder.kept() == 0 {
                let _ = expected.remove(rich);
            }
        }
    }
}

/// The waiting shard with the fewest slots; of equal ones, the one that waits longest.
fn neediest(holders: &mut BTreeMap<u32, Holder>) -> Option<(u32, &mut Holder)> {
    let waiting = holders.iter_mut().filter(|(_, holder)| holder.want > 0);
    let waiting = waiting.map(|(rank, holder)| (*rank, holder));
    waiting.min_by_key(|(_, holder)| (holder.held, holder.served))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(granted: u32, recalled: u32, offered: u32) -> LeaseChange {
        LeaseChange { granted, recalled, offered }
    }

    /// A shard with its own count of slots, as its gate has it.
    #[derive(Debug, Clone, Copy, Default)]
    struct Shard {
        limit: u32,
        in_flight: u32,
        waiting: u32,
        recalled: u32,
        offered: u32,
        freed: u32,
    }

    impl Shard {
        fn apply(&mut self, change: LeaseChange) {
            self.limit += change.granted;
            self.admit();
            self.recalled += change.recalled;
            self.offered += change.offered;
            self.settle();
        }

        fn settle(&mut self) {
            let idle = self.limit - self.in_flight;
            let gone = idle.min(self.recalled);
            (self.limit, self.recalled) = (self.limit - gone, self.recalled - gone);
            self.freed += gone;
            self.admit();
            if self.waiting == 0 {
                let gone = (self.limit - self.in_flight).min(self.offered);
                (self.limit, self.offered) = (self.limit - gone, self.offered - gone);
                self.freed += gone;
            }
        }

        fn admit(&mut self) {
            while self.waiting > 0 && self.in_flight < self.limit {
                (self.waiting, self.in_flight) = (self.waiting - 1, self.in_flight + 1);
            }
        }

        fn report(&mut self) -> (u32, u32) {
            (std::mem::take(&mut self.freed), self.waiting)
        }
    }

    #[test]
    fn a_loop_that_is_full_everywhere_needs_no_message() {
        let mut pool = LeasePool::new(9, [(0, 3), (1, 3), (2, 3)]);
        for rank in 0..3 {
            // Others are asked for what they do not use until they say that they use all of it.
            let recalled = pool.report(rank, 0, 100).into_values().map(|change| change.recalled);
            assert_eq!(recalled.sum::<u32>(), 0, "shard {rank}");
        }
        for rank in 0..3 {
            assert_eq!(pool.report(rank, 0, 99), BTreeMap::new(), "shard {rank}");
        }
    }

    #[test]
    fn unused_places_move_to_a_shard_that_waits() {
        let mut pool = LeasePool::new(4, [(0, 2), (1, 2)]);
        assert_eq!(pool.report(0, 0, 3), [(1, change(0, 0, 2))].into());
        assert_eq!(pool.report(1, 2, 0), [(0, change(2, 0, 0))].into());
        // Now the other one needs some again, and holds none.
        let back = pool.report(1, 0, 5);
        assert_eq!(back, [(0, change(0, 2, 0))].into(), "half of them");
        assert_eq!(pool.report(0, 1, 9), [(1, change(1, 0, 0))].into());
    }

    /// With fewer slots than shards each request waits for a slot of another shard.
    #[test]
    fn a_shard_without_a_place_gets_one_and_gives_it_back_after_a_request() {
        let mut pool = LeasePool::new(1, [(0, 1), (1, 0)]);
        assert_eq!(pool.report(0, 0, 1), BTreeMap::new());
        assert_eq!(pool.report(1, 0, 1), [(0, change(0, 1, 0))].into());
        // It serves one request: the other one waits again.
        assert_eq!(pool.report(0, 1, 1), [(1, change(1, 1, 1))].into());
        assert_eq!(pool.report(1, 1, 1), [(0, change(1, 1, 1))].into());
    }

    #[test]
    fn the_places_of_a_lost_shard_return() {
        let mut pool = LeasePool::new(5, [(0, 2), (1, 2)]);
        assert_eq!(pool.report(0, 0, 1), [(0, change(1, 0, 0))].into(), "one was free");
        assert_eq!(pool.report(0, 0, 7), [(1, change(0, 0, 2))].into());
        assert_eq!(pool.remove(1), [(0, change(2, 0, 0))].into());
        assert_eq!(pool.report(1, 9, 9), BTreeMap::new(), "it is not known any more");
    }

    /// More would make the limit grow.
    #[test]
    fn a_shard_gives_back_no_more_than_it_holds() {
        let mut pool = LeasePool::new(4, [(0, 2), (1, 2)]);
        assert_eq!(pool.report(1, 9, 0), BTreeMap::new());
        assert_eq!(pool.report(0, 0, 9), [(0, change(2, 0, 0))].into());
    }

    /// What was asked for is on its way: further reports ask for nothing more.
    #[test]
    fn a_place_is_asked_for_once() {
        let mut pool = LeasePool::new(4, [(0, 2), (1, 2)]);
        assert_eq!(pool.report(0, 0, 3), [(1, change(0, 0, 2))].into());
        assert_eq!(pool.report(0, 0, 3), BTreeMap::new(), "offered");
        let mut pool = LeasePool::new(2, [(0, 1), (1, 1), (2, 0)]);
        for rank in 0..2 {
            let _offers = pool.report(rank, 0, 1);
        }
        let recalled = |changes: BTreeMap<u32, LeaseChange>| -> u32 {
            changes.values().map(|change| change.recalled).sum()
        };
        assert_eq!(recalled(pool.report(2, 0, 1)), 1);
        // Neither the shard that waits for it nor the one that gives its last slot gets another one.
        for rank in [2, 1, 0] {
            assert_eq!(recalled(pool.report(rank, 0, 1)), 0, "shard {rank}");
        }
    }

    proptest! {
        /// Whatever the order of messages: never more in flight than the limit, and nobody waits while
        /// slots are unused once all messages have arrived.
        #[test]
        fn the_limit_holds_and_no_place_is_lost(
            cap in 1_u32..20,
            count in 1_u32..6,
            steps in prop::collection::vec((0_u32..6, 0_u8..3, 1_u32..8), 1..200),
        ) {
            let part = |rank: u32| cap / count + u32::from(rank < cap % count);
            let mut pool = LeasePool::new(cap, (0..count).map(|rank| (rank, part(rank))));
            let mut shards: Vec<Shard> =
                (0..count).map(|rank| Shard { limit: part(rank), ..Shard::default() }).collect();
            // Messages on their way to each shard, in their order.
            let mut on_the_way: Vec<Vec<LeaseChange>> = vec![Vec::new(); shards.len()];
            let deliver = |shards: &mut Vec<Shard>, way: &mut Vec<Vec<LeaseChange>>, at: usize| {
                for change in std::mem::take(&mut way[at]) {
                    shards[at].apply(change);
                }
            };
            for (rank, what, many) in steps {
                let at = usize::try_from(rank % count).unwrap();
                match what {
                    0 => shards[at].waiting += many,
                    1 => shards[at].in_flight -= many.min(shards[at].in_flight),
                    _ => deliver(&mut shards, &mut on_the_way, at),
                }
                shards[at].settle();
                let (freed, want) = shards[at].report();
                for (rank, change) in pool.report(rank % count, freed, want) {
                    on_the_way[usize::try_from(rank).unwrap()].push(change);
                }
                prop_assert!(shards.iter().map(|shard| shard.in_flight).sum::<u32>() <= cap);
                prop_assert!(shards.iter().map(|shard| shard.limit).sum::<u32>() <= cap);
            }
            // All messages arrive, until nothing changes.
            for _ in 0..200 {
                for rank in 0..count {
                    let at = usize::try_from(rank).unwrap();
                    deliver(&mut shards, &mut on_the_way, at);
                    shards[at].settle();
                    let (freed, want) = shards[at].report();
                    for (rank, change) in pool.report(rank, freed, want) {
                        on_the_way[usize::try_from(rank).unwrap()].push(change);
                    }
                }
            }
            let in_flight: u32 = shards.iter().map(|shard| shard.in_flight).sum();
            let waiting: u32 = shards.iter().map(|shard| shard.waiting).sum();
            prop_assert!(waiting == 0 || in_flight == cap, "{shards:?} {pool:?}");
        }
    }
}
