//! Values grouped by blocks of time, for confidence intervals of correlated values.
//!
//! One engine step serves many streams, so neighbouring gaps are nearly identical, and an interval
//! from their number would be far too narrow. Blocks longer than that correlation are nearly
//! independent: their means and percentiles vary as the whole run's would. The number of blocks is
//! bounded: when a run exceeds it, neighbours are merged and the width doubles.

use hdrhistogram::Histogram;
use tokometer_base::Nanos;

use crate::statistics;

const FIRST_WIDTH: Nanos = Nanos::from_millis(250);
const MOST_BLOCKS: usize = 32;
/// Fewer blocks of a run do not show their scatter.
pub const FEWEST_BLOCKS: usize = 8;

#[derive(Debug, Clone)]
struct ValueBlock {
    sum: f64,
    weight: u64,
    values: Histogram<u64>,
}

impl ValueBlock {
    fn new() -> Self {
        let values =
            Histogram::new(2).expect("two significant digits are within the allowed range");
        Self { sum: 0.0, weight: 0, values }
    }

    fn join(&mut self, other: &Self) {
        self.sum += other.sum;
        self.weight += other.weight;
        // Both resize automatically, so adding cannot fail.
        let _ = self.values.add(&other.values);
    }
}

/// Values by block of time.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    origin: Nanos,
    width: Nanos,
    blocks: Vec<Option<ValueBlock>>,
}

impl Blocks {
    /// Values before `origin` count in the first block.
    pub(crate) fn new(origin: Nanos) -> Self {
        Self { origin, width: FIRST_WIDTH, blocks: Vec::new() }
    }

    /// Adds a value in nanoseconds, observed at `at`.
    pub(crate) fn add(&mut self, at: Nanos, value: Nanos, weight: u32) {
        let mut place = (at - self.origin).0 / self.width.0;
        while place >= MOST_BLOCKS as u64 {
            self.widen();
            place = (at - self.origin).0 / self.width.0;
        }
        let place = usize::try_from(place).unwrap_or(MOST_BLOCKS - 1);
        if self.blocks.len() <= place {
            self.blocks.resize_with(place + 1, || None);
        }
        let block = self.blocks[place].get_or_insert_with(ValueBlock::new);
        block.sum += value.0 as f64 * f64::from(weight);
        block.weight += u64::from(weight);
        let _ = block.values.record_n(value.0, u64::from(weight));
    }

    fn widen(&mut self) {
        self.width = self.width + self.width;
        let mut joined: Vec<Option<ValueBlock>> = Vec::with_capacity(MOST_BLOCKS);
        for pair in self.blocks.chunks(2) {
            let mut both = pair.iter().flatten();
            joined.push(both.next().map(|first| {
                let mut block = first.clone();
                both.for_each(|other| block.join(other));
                block
            }));
        }
        self.blocks = joined;
    }

    /// Complete blocks: the first and the last are cut by the ends of the run and are left out.
    fn whole(&self) -> Option<Vec<&ValueBlock>> {
        let filled: Vec<&ValueBlock> = self.blocks.iter().flatten().collect();
        let inner = filled.get(1..filled.len().checked_sub(1)?)?;
        (inner.len() >= FEWEST_BLOCKS).then(|| inner.to_vec())
    }

    /// Half the width of the mean's 95 % confidence interval, in nanoseconds.
    pub(crate) fn mean_margin(&self) -> Option<f64> {
        let means: Vec<f64> =
            self.whole()?.iter().map(|block| block.sum / block.weight as f64).collect();
        statistics::mean_margin(&means)
    }

    /// Half the width of a percentile's 95 % confidence interval, in nanoseconds. `None` where a
    /// block has too few values for that percentile.
    pub(crate) fn percentile_margin(&self, percent: f64) -> Option<f64> {
        let blocks = self.whole()?;
        let tail = (percent / 100.0).min(1.0 - percent / 100.0);
        if blocks.iter().any(|block| (block.weight as f64) * tail < 1.0) {
            return None;
        }
        let at = |block: &&ValueBlock| block.values.value_at_quantile(percent / 100.0) as f64;
        statistics::mean_margin(&blocks.iter().map(at).collect::<Vec<f64>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten streams that stall together: a thousand gaps per second with one cause.
    #[test]
    fn an_interval_from_blocks_is_wider_than_one_from_the_number_of_gaps() {
        let mut blocks = Blocks::new(Nanos::ZERO);
        let mut sample = crate::sample::Sample::default();
        for second in 0..20_u64 {
            let gap = Nanos::from_micros(9_000 + (second * 7_919) % 2_000);
            for step in 0..100 {
                blocks.add(Nanos::from_millis(second * 1_000 + step * 10), gap, 10);
                sample.add(gap.0 as f64, 10);
            }
        }
        let naive = sample.into_ordered().distribution(&[], 1.0, 0.0).mean_margin.unwrap();
        assert!(blocks.mean_margin().unwrap() > 10.0 * naive);
        assert!(blocks.percentile_margin(50.0).is_some());
        assert!(blocks.percentile_margin(99.99).is_none(), "no block has ten thousand gaps");
    }

    #[test]
    fn a_long_run_joins_its_blocks_and_loses_no_value() {
        let mut blocks = Blocks::new(Nanos::ZERO);
        for second in 0..3_600_u64 {
            blocks.add(Nanos::from_secs(second), Nanos::from_millis(10), 1);
        }
        assert!(blocks.blocks.len() <= MOST_BLOCKS);
        assert_eq!(blocks.blocks.iter().flatten().map(|block| block.weight).sum::<u64>(), 3_600);
        assert_eq!(blocks.mean_margin(), Some(0.0));
    }

    #[test]
    fn a_short_run_has_no_interval() {
        let mut blocks = Blocks::new(Nanos::ZERO);
        blocks.add(Nanos::ZERO, Nanos(5), 1);
        assert_eq!(blocks.mean_margin(), None);
    }
}
