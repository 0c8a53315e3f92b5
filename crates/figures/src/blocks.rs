//! Values grouped by blocks of time, for confidence intervals of dependent values.
//!
//! Requests that share a queue are slow together, and one engine step serves many streams, so an
//! interval from the number of values would be far too narrow. Blocks of time show how much the values
//! really vary. Values may come in any order. The number of blocks is bounded: when a run exceeds it,
//! neighbours are merged and the width doubles.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use tokometer_base::Nanos;

use crate::interval::BlockPart;

const FIRST_WIDTH: Nanos = Nanos::from_millis(4);
const MOST_BLOCKS: u64 = 32;
/// Fewer blocks of a run do not show their scatter.
pub const FEWEST_BLOCKS: usize = 8;
/// Values are counted in thousandths, so that a speed of a few tokens per second keeps its digits.
const STEPS_PER_UNIT: f64 = 1e3;
/// Largest value of a histogram, in those steps; larger ones count as this.
const CEILING: f64 = 1e18;

pub(crate) trait BlockContent: Default {
    fn join(&mut self, other: &Self);
}

#[derive(Debug, Clone)]
pub(crate) struct TimeBlocks<T> {
    width: Nanos,
    /// Number of the first block, counted from time zero.
    first: u64,
    blocks: VecDeque<T>,
}

impl<T> Default for TimeBlocks<T> {
    fn default() -> Self {
        Self { width: FIRST_WIDTH, first: 0, blocks: VecDeque::new() }
    }
}

impl<T: BlockContent> TimeBlocks<T> {
    pub(crate) fn at(&mut self, at: Nanos) -> &mut T {
        loop {
            let block = at.0 / self.width.0;
            if self.blocks.is_empty() {
                self.first = block;
            }
            let end = self.first + self.blocks.len() as u64;
            if block.max(end.saturating_sub(1)) - block.min(self.first) < MOST_BLOCKS {
                for _ in block..self.first {
                    self.blocks.push_front(T::default());
                }
                for _ in end..=block {
                    self.blocks.push_back(T::default());
                }
                self.first = self.first.min(block);
                let index = usize::try_from(block - self.first).unwrap_or(0);
                return &mut self.blocks[index];
            }
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.width = self.width + self.width;
        let mut joined = VecDeque::with_capacity(self.blocks.len());
        for (number, block) in (self.first..).zip(self.blocks.drain(..)) {
            // Two blocks become one where the first of them has an even number.
            match joined.back_mut() {
                Some(last) if number % 2 == 1 => T::join(last, &block),
                _ => joined.push_back(block),
            }
        }
        self.first /= 2;
        self.blocks = joined;
    }

    /// In order of time; blocks without anything in between included.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter()
    }

    pub(crate) fn timed(&self) -> impl Iterator<Item = (Nanos, Nanos, &T)> {
        let width = self.width.0;
        // A damaged record may have times at the end of all numbers.
        let begin = move |number: u64| Nanos(number.saturating_mul(width));
        (self.first..)
            .zip(&self.blocks)
            .map(move |(number, block)| (begin(number), begin(number.saturating_add(1)), block))
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ValueBlock {
    sum: f64,
    finite: u64,
    infinite: u64,
    /// `None` while the block has no finite value.
    values: Option<Histogram<u32>>,
}

impl BlockContent for ValueBlock {
    fn join(&mut self, other: &Self) {
        self.sum += other.sum;
        self.finite += other.finite;
        self.infinite += other.infinite;
        match (&mut self.values, &other.values) {
            // Both resize automatically, so adding cannot fail.
            (Some(values), Some(others)) => drop(values.add(others)),
            (None, Some(others)) => self.values = Some(others.clone()),
            (_, None) => {}
        }
    }
}

/// The histogram's step of a value.
fn step(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is clamped to the histogram's range first"
    )]
    let step = (value * STEPS_PER_UNIT).clamp(0.0, CEILING).round() as u64;
    step
}

pub(crate) type ValueBlocks = TimeBlocks<ValueBlock>;

impl ValueBlocks {
    /// Adds a value `weight` times, observed at `at`. Infinite values count in percentiles only; NaN is
    /// ignored.
    pub(crate) fn add(&mut self, at: Nanos, value: f64, weight: u32) {
        if value.is_nan() || weight == 0 {
            return;
        }
        let block = self.at(at);
        if value.is_infinite() {
            block.infinite += u64::from(weight);
            return;
        }
        block.sum += value * f64::from(weight);
        block.finite += u64::from(weight);
        let values = block.values.get_or_insert_with(|| {
            Histogram::new(2).expect("two significant digits are within the allowed range")
        });
        // It resizes automatically; only an unreachable total count could fail.
        let _ = values.record_n(step(value), weight);
    }

    /// Sum and number of the finite values of each block.
    pub(crate) fn means(&self) -> Vec<BlockPart> {
        self.contents()
            .map(|block| BlockPart { amount: block.sum, weight: block.finite as f64 })
            .collect()
    }

    /// Number of values up to the one of rank `share`, and number of all values, of each block.
    ///
    /// Values that fall into the same step of the histogram as that one count in proportion, so that
    /// over all blocks exactly `share` of the values lie below.
    pub(crate) fn shares(&self, share: f64, value: f64) -> Vec<BlockPart> {
        let counts: Vec<RankCounts> = self.contents().map(|block| block.around(value)).collect();
        let sum = |of: fn(&RankCounts) -> f64| counts.iter().map(of).sum::<f64>();
        let (below, at, all) = (sum(|one| one.below), sum(|one| one.at), sum(|one| one.all));
        let part_of_step =
            if at > 0.0 { ((share * all - below) / at).clamp(0.0, 1.0) } else { 0.0 };
        let part = |one: &RankCounts| BlockPart {
            amount: one.below + part_of_step * one.at,
            weight: one.all,
        };
        counts.iter().map(part).collect()
    }
}

/// The values of a block by whether they lie below or above one value.
struct RankCounts {
    /// In lower steps of the histogram.
    below: f64,
    at: f64,
    all: f64,
}

impl ValueBlock {
    /// Infinite values have a step of their own, above all others.
    fn around(&self, value: f64) -> RankCounts {
        let all = (self.finite + self.infinite) as f64;
        if value.is_infinite() {
            return RankCounts { below: self.finite as f64, at: self.infinite as f64, all };
        }
        let Some(values) = &self.values else { return RankCounts { below: 0.0, at: 0.0, all } };
        let step = step(value);
        let at = f64::from(values.count_at(step));
        // From the least value on: the thousands of empty steps before it need not be visited.
        RankCounts { below: values.count_between(values.min(), step) as f64 - at, at, all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_any_order_give_the_same_blocks() {
        let times: Vec<u64> = (0..3_600).map(|second| 40_000 + second).collect();
        let blocks = |times: &mut dyn Iterator<Item = &u64>| {
            let mut blocks = ValueBlocks::default();
            times.for_each(|second| blocks.add(Nanos::from_secs(*second), 1e7, 1));
            assert!(blocks.blocks.len() as u64 <= MOST_BLOCKS);
            blocks.means()
        };
        let forward = blocks(&mut times.iter());
        assert!((forward.iter().map(|part| part.weight).sum::<f64>() - 3_600.0).abs() < 1e-9);
        assert!(forward.len() as u64 > MOST_BLOCKS / 2, "a late start must not cost blocks");
        let shares = |parts: &[BlockPart]| parts.iter().map(|part| part.weight).collect::<Vec<_>>();
        assert_eq!(shares(&forward), shares(&blocks(&mut times.iter().rev())));
    }

    #[test]
    fn values_in_the_step_of_a_percentile_count_in_proportion() {
        let mut blocks = ValueBlocks::default();
        for at in 0..10 {
            blocks.add(Nanos::from_millis(at * 4), 1e6, 3);
            blocks.add(Nanos::from_millis(at * 4), f64::INFINITY, 1);
        }
        let first = |share: f64, value: f64| blocks.shares(share, value)[0];
        assert_eq!(first(0.5, 1e6), BlockPart { amount: 2.0, weight: 4.0 });
        assert_eq!(first(0.875, f64::INFINITY), BlockPart { amount: 3.5, weight: 4.0 });
    }

    /// An outage: one block has failed requests only. They were not counted among the infinite values, so
    /// that more than the asked share of all values lay below the percentile.
    #[test]
    fn a_block_of_failed_requests_counts_among_those_of_the_percentile() {
        let mut blocks = ValueBlocks::default();
        blocks.add(Nanos::from_millis(0), 1e6, 6);
        blocks.add(Nanos::from_millis(0), f64::INFINITY, 2);
        blocks.add(Nanos::from_millis(4), f64::INFINITY, 8);
        let found = blocks.shares(0.75, f64::INFINITY);
        assert_eq!(found[1], BlockPart { amount: 4.8, weight: 8.0 });
        let below: f64 = found.iter().map(|part| part.amount).sum();
        assert!((below - 0.75 * 16.0).abs() < 1e-9, "{found:?}");
    }
}
