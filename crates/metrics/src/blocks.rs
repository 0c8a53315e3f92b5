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

/// What a block of time holds.
pub(crate) trait BlockContent: Default {
    /// Adds the content of the next block.
    fn join(&mut self, other: &Self);
}

/// Contents by block of time.
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
    /// The block that `at` lies in.
    pub(crate) fn at(&mut self, at: Nanos) -> &mut T {
        loop {
            let place = at.0 / self.width.0;
            if self.blocks.is_empty() {
                self.first = place;
            }
            let end = self.first + self.blocks.len() as u64;
            if place.max(end.saturating_sub(1)) - place.min(self.first) < MOST_BLOCKS {
                for _ in place..self.first {
                    self.blocks.push_front(T::default());
                }
                for _ in end..=place {
                    self.blocks.push_back(T::default());
                }
                self.first = self.first.min(place);
                let index = usize::try_from(place - self.first).unwrap_or(0);
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

    /// Each block with its begin and end.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (Nanos, Nanos, &T)> {
        let width = self.width.0;
        (self.first..)
            .zip(&self.blocks)
            .map(move |(number, block)| (Nanos(number * width), Nanos((number + 1) * width), block))
    }
}

/// Values of one block.
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

/// Values by block of time.
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
        let step = if value.is_finite() { step(value) } else { u64::MAX };
        let counts: Vec<(f64, f64, f64)> = self
            .contents()
            .map(|block| {
                let all = (block.finite + block.infinite) as f64;
                let Some(values) = &block.values else { return (0.0, 0.0, all) };
                if step == u64::MAX {
                    return (block.finite as f64, block.infinite as f64, all);
                }
                let at = f64::from(values.count_at(step));
                let up_to = values.count_between(0, step) as f64;
                (up_to - at, at, all)
            })
            .collect();
        let sum = counts
            .iter()
            .fold((0.0, 0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        let part_of_step =
            if sum.1 > 0.0 { ((share * sum.2 - sum.0) / sum.1).clamp(0.0, 1.0) } else { 0.0 };
        counts
            .into_iter()
            .map(|(below, at, all)| BlockPart { amount: below + part_of_step * at, weight: all })
            .collect()
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
}
