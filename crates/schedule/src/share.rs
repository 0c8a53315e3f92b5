//! The part of a run that one of several processes sends.
//!
//! Requests are dealt out by index: of n parts, part k has the indexes with remainder k. Every
//! process computes the whole schedule and keeps its own times, so that all parts together are the
//! run that one process would make.

use serde::{Deserialize, Serialize};

/// One of several equal parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    rank: u32,
    count: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Share {
    /// The only part of a run that one process makes.
    pub const WHOLE: Self = Self { rank: 0, count: 1 };

    /// Part `rank` of `count`, counted from zero. `None` for a part that does not exist.
    pub fn new(rank: u32, count: u32) -> Option<Self> {
        (rank < count).then_some(Self { rank, count })
    }

    /// Which part it is, from zero.
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// Number of parts.
    pub fn count(self) -> u32 {
        self.count.max(1)
    }

    /// Whether it is all of the run.
    pub fn is_whole(self) -> bool {
        self.count() == 1
    }

    /// Whether it is the part that does what a run needs once: warm-up, cache flush, scrapes.
    pub fn is_first(self) -> bool {
        self.rank == 0
    }

    /// Whether request `index` of the run belongs to it.
    pub fn has(self, index: u64) -> bool {
        index % u64::from(self.count()) == u64::from(self.rank)
    }

    /// The run's index of its request `number`, counted from zero.
    pub fn index(self, number: u64) -> u64 {
        number.saturating_mul(u64::from(self.count())).saturating_add(u64::from(self.rank))
    }

    /// How many of `all` it gets when they are dealt out one by one.
    pub fn of(self, all: u64) -> u64 {
        let count = u64::from(self.count());
        all / count + u64::from(u64::from(self.rank) < all % count)
    }

    /// Its part of a limit on requests in flight. Zero where there are more parts than slots.
    pub fn of_cap(self, cap: u32) -> u32 {
        u32::try_from(self.of(u64::from(cap))).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokometer_base::{Nanos, Seed};

    use super::*;
    use crate::{Arrivals, First, Length, Offsets, Pace, SendLimit, Stage, StageLoad};

    fn parts(count: u32) -> impl Iterator<Item = Share> {
        (0..count).filter_map(move |rank| Share::new(rank, count))
    }

    #[test]
    fn a_part_beyond_the_last_does_not_exist() {
        assert_eq!(Share::new(2, 2), None);
        assert_eq!(Share::new(0, 0), None);
        assert_eq!(Share::new(0, 1), Some(Share::WHOLE));
    }

    fn load() -> impl Strategy<Value = StageLoad> {
        prop_oneof![
            (0.1..2_000.0).prop_map(|rate| StageLoad::Flat { rate }),
            (0.1..10.0, 10.0..500.0).prop_map(|(from, to)| StageLoad::Linear { from, to }),
            (0.1..10.0, 10.0..500.0).prop_map(|(from, to)| StageLoad::Exponential { from, to }),
        ]
    }

    /// A stage as long as the run, or stages of requests and of times, with some left over.
    fn stages() -> impl Strategy<Value = Vec<Stage>> {
        let length = prop_oneof![
            (1_u64..60).prop_map(Length::Requests),
            (1_u64..40).prop_map(|tenths| Length::Time(Nanos::from_millis(tenths * 100))),
        ];
        let own = (length, load()).prop_map(|(length, load)| Stage { length, load });
        prop_oneof![
            load().prop_map(|load| vec![Stage::whole_run(load)]),
            proptest::collection::vec(own, 1..5),
        ]
    }

    fn pace() -> impl Strategy<Value = Pace> {
        let burstiness = prop_oneof![Just(None), (0.2..5.0).prop_map(Some)];
        let first = prop_oneof![Just(First::Waits), Just(First::Immediate)];
        (stages(), burstiness, first).prop_map(|(stages, burstiness, first)| Pace {
            stages,
            burstiness,
            first,
        })
    }

    proptest! {
        /// The law that merged runs rest on: the parts are the run, request by request.
        #[test]
        fn all_parts_together_have_the_times_of_the_whole_run_to_the_nanosecond(
            pace in pace(),
            requests in 0_u64..200,
            shards in 1_u32..12,
            seed in any::<u64>(),
        ) {
            let arrivals = Arrivals::Paced(pace);
            let extent = SendLimit { count: Some(requests), duration: None };
            let offsets = Offsets::new(&arrivals, extent, Seed(seed)).unwrap();
            let mut whole = offsets.clone();
            let expected: Vec<Option<Nanos>> = (0..requests).map(|_| whole.advance()).collect();
            let mut together = vec![None; expected.len()];
            for share in parts(shards) {
                let mut own = offsets.clone().of_share(share);
                for number in 0..share.of(requests) {
                    let index = usize::try_from(share.index(number)).unwrap();
                    prop_assert!(together[index].is_none());
                    together[index] = own.advance();
                }
            }
            prop_assert_eq!(together, expected);
        }

        #[test]
        fn every_index_and_every_slot_of_a_limit_belongs_to_one_part(
            all in 0_u64..5_000,
            shards in 1_u32..40,
        ) {
            prop_assert_eq!(parts(shards).map(|share| share.of(all)).sum::<u64>(), all);
            let cap = u32::try_from(all).unwrap();
            prop_assert_eq!(parts(shards).map(|share| share.of_cap(cap)).sum::<u32>(), cap);
            for share in parts(shards) {
                for number in 0..share.of(all) {
                    let index = share.index(number);
                    prop_assert!(index < all && share.has(index));
                    prop_assert_eq!(parts(shards).filter(|part| part.has(index)).count(), 1);
                }
                prop_assert!(share.index(share.of(all)) >= all);
            }
        }
    }
}
