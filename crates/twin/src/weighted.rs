//! Weighted samples: exact while they are few, a histogram of stated precision beyond.
//!
//! One engine step gives the same gap to all its sequences, so a value comes with a weight. Up to
//! [`EXACT_MAX`] pushes are kept as they are and percentiles are exact; then everything moves into
//! buckets whose width is [`PRECISION`] of their value. Count, sum and extremes stay exact.

use tokometer_figures::statistics::{Rank, between, rank};

/// Pushes kept exactly.
pub const EXACT_MAX: usize = 1 << 17;

const SUB_BITS: u32 = 10;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;

/// Width of a bucket relative to its value; a percentile is off by at most half of it.
pub const PRECISION: f64 = 1.0 / SUB_BUCKETS as f64;

/// A distribution of nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Weighted {
    exact: Vec<(u64, u32)>,
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    largest: u64,
    is_sorted: bool,
}

/// Below [`SUB_BUCKETS`] a bucket per value; above, [`SUB_BUCKETS`] per doubling.
fn bucket(value: u64) -> usize {
    let octave = (u64::BITS - 1 - value.max(1).leading_zeros()).saturating_sub(SUB_BITS);
    let bucket = (u64::from(octave) << SUB_BITS) + (value >> octave);
    usize::try_from(bucket).unwrap_or(usize::MAX)
}

fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    let octave = (bucket >> SUB_BITS).saturating_sub(1);
    let low = (bucket - (octave << SUB_BITS)) << octave;
    low as f64 + ((1_u64 << octave) - 1) as f64 / 2.0
}

impl Weighted {
    /// Adds `weight` samples of one value.
    pub fn push(&mut self, value: u64, weight: u32) {
        self.count += u64::from(weight);
        self.sum += u128::from(value) * u128::from(weight);
        self.largest = self.largest.max(value);
        if self.buckets.is_empty() {
            self.exact.push((value, weight));
            self.is_sorted = false;
            if self.exact.len() > EXACT_MAX {
                self.spill();
            }
        } else {
            self.fill(value, u64::from(weight));
        }
    }

    fn fill(&mut self, value: u64, weight: u64) {
        let bucket = bucket(value);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += weight;
    }

    /// Moves what is kept exactly into buckets.
    fn spill(&mut self) {
        for (value, weight) in std::mem::take(&mut self.exact) {
            self.fill(value, u64::from(weight));
        }
    }

    /// Adds all samples of another distribution. The result does not depend on the order of merges
    /// beyond the stated precision.
    pub fn merge(&mut self, other: &Self) {
        for (value, weight) in &other.exact {
            self.push(*value, *weight);
        }
        if other.buckets.is_empty() {
            return;
        }
        self.spill();
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether percentiles are exact.
    pub fn is_exact(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Mean in milliseconds; `None` without samples.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e6)
    }

    /// Largest value in milliseconds; `None` without samples.
    pub fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.largest as f64 / 1e6)
    }

    /// Puts the samples in order, so that percentiles can be read.
    pub fn sort(&mut self) {
        if !self.is_sorted {
            self.exact.sort_unstable();
            self.is_sorted = true;
        }
    }

    /// Several percentiles in milliseconds, with linear interpolation between neighbours; `percents`
    /// must rise. Empty without samples. Call [`Weighted::sort`] before.
    pub fn percentiles_ms(&self, percents: &[f64]) -> Vec<f64> {
        let Some(last) = self.count.checked_sub(1) else { return Vec::new() };
        let ranks: Vec<Rank> =
            percents.iter().filter_map(|percent| rank(*percent, self.count)).collect();
        let wanted = ranks.iter().flat_map(|rank| [rank.low, (rank.low + 1).min(last)]);
        let values = self.at_ranks(wanted);
        let interpolate =
            |(pair, rank): (&[f64], &Rank)| between(pair[0], pair[1], rank.fraction) / 1e6;
        values.chunks_exact(2).zip(&ranks).map(interpolate).collect()
    }

    /// Values at these ranks, which must not fall by more than one.
    fn at_ranks(&self, ranks: impl Iterator<Item = u64>) -> Vec<f64> {
        let exact = self.exact.iter().map(|(value, weight)| (*value as f64, u64::from(*weight)));
        let filled = self.buckets.iter().enumerate().filter(|(_, weight)| **weight > 0);
        let coarse = filled.map(|(bucket, weight)| (middle(bucket), *weight));
        let mut cells = exact.chain(coarse);
        let (mut value, mut covered, mut before) = (0.0, 0_u64, 0.0);
        let mut covered_before = 0;
        ranks
            .map(|rank| {
                while covered <= rank {
                    let Some((next, weight)) = cells.next() else { break };
                    (before, covered_before) = (value, covered);
                    value = next;
                    covered += weight;
                }
                if rank < covered_before { before } else { value }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate_like_numpy() {
        let mut samples = Weighted::default();
        for (value, weight) in [(10, 1), (40, 1), (20, 2)] {
            samples.push(value * 1_000_000, weight);
        }
        samples.sort();
        // numpy.percentile([10, 20, 20, 40], [0, 25, 50, 90, 100])
        let got = samples.percentiles_ms(&[0.0, 25.0, 50.0, 90.0, 100.0]);
        let expected = [10.0, 17.5, 20.0, 34.0, 40.0];
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{got:?}");
        assert_eq!(samples.mean_ms(), Some(22.5));
        assert_eq!((Weighted::default().mean_ms(), Weighted::default().max_ms()), (None, None));
        assert!(Weighted::default().percentiles_ms(&[50.0]).is_empty());
    }

    #[test]
    fn a_bucket_holds_its_value_to_the_stated_precision() {
        for shift in 0..62 {
            for value in [1_u64 << shift, (1 << shift) + (1 << shift) / 3, (2 << shift) - 1] {
                let off = (middle(bucket(value)) - value as f64).abs();
                assert!(off <= value as f64 * PRECISION / 2.0, "{value}: off by {off}");
            }
        }
    }

    #[test]
    fn histogram_and_exact_samples_agree_to_the_stated_precision() {
        let mut exact = Weighted::default();
        let mut coarse = Weighted::default();
        let mut state = 1_u64;
        for _ in 0..5_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            exact.push(state >> 24, 3);
            coarse.push(state >> 24, 3);
        }
        coarse.spill();
        exact.sort();
        assert!(exact.is_exact() && !coarse.is_exact());
        let percents = [1.0, 25.0, 50.0, 75.0, 99.0, 99.9];
        let (fine, rough) = (exact.percentiles_ms(&percents), coarse.percentiles_ms(&percents));
        for (a, b) in fine.iter().zip(&rough) {
            assert!((a / b - 1.0).abs() <= PRECISION, "{a} against {b}");
        }
        assert_eq!(exact.mean_ms(), coarse.mean_ms());
    }
}
