//! Values with weights, kept for statistics in bounded memory.
//!
//! The first [`EXACT_LIMIT`] values are kept exactly; with one more they become a histogram with
//! three significant digits. A weight is a frequency: weight 3 equals three equal values. Infinite
//! values (failed requests) are counted separately and are part of percentiles only.

use hdrhistogram::Histogram;

use crate::family::ListStats;
use crate::interval::Moments;
use crate::statistics;

/// Values kept exactly: two MiB. Beyond it percentiles have three significant digits.
pub const EXACT_LIMIT: usize = 1 << 18;

/// Beyond this many values the list gets its full length at once. One that grows as it is filled leaves
/// holes in the heap; room that is not used takes no memory.
const FIRST_LENGTH: usize = 1 << 12;

/// Largest value of a histogram; larger ones count as this. Three months in nanoseconds.
const HISTOGRAM_CEILING: f64 = 1e16;

#[derive(Debug, Clone, Default)]
pub struct Sample {
    values: Vec<f64>,
    /// Empty while all weights are one, which is the usual case.
    weights: Vec<u32>,
    histogram: Option<Histogram<u64>>,
    finite: u64,
    infinite: u64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
    cubes: f64,
    range: Option<(f64, f64)>,
}

#[derive(Debug, Clone)]
pub struct Ordered {
    sample: Sample,
    /// Number of values below each kept one; empty while all weights are one.
    below: Vec<u64>,
}

impl Sample {
    pub fn push(&mut self, value: f64) {
        self.add(value, 1);
    }

    /// Adds a value `weight` times. NaN is ignored.
    pub fn add(&mut self, value: f64, weight: u32) {
        if value.is_nan() || weight == 0 {
            return;
        }
        if value.is_infinite() {
            self.infinite += u64::from(weight);
            return;
        }
        self.finite += u64::from(weight);
        // Running moments: a sum of squared nanoseconds would lose the precision of the deviations.
        let (weight_now, all) = (f64::from(weight), self.finite as f64);
        let before = all - weight_now;
        let distance = value - self.mean;
        let shift = distance * weight_now / all;
        self.mean += shift;
        self.cubes += distance.powi(2) * shift * before * (before - weight_now) / all
            - 3.0 * shift * self.squares;
        self.squares += weight_now * distance * (value - self.mean);
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        self.keep(value, weight);
    }

    fn keep(&mut self, value: f64, weight: u32) {
        if self.histogram.is_none() && self.values.len() < EXACT_LIMIT {
            if weight != 1 && self.weights.is_empty() {
                self.weights.resize(self.values.len(), 1);
            }
            if self.values.len() == FIRST_LENGTH {
                self.values.reserve_exact(EXACT_LIMIT - FIRST_LENGTH);
            }
            self.values.push(value);
            if weight != 1 || !self.weights.is_empty() {
                self.weights.push(weight);
            }
            return;
        }
        let histogram = self.histogram.get_or_insert_with(|| {
            Histogram::new(3).expect("three significant digits are within the allowed range")
        });
        let weights = std::mem::take(&mut self.weights).into_iter().chain(std::iter::repeat(1));
        for (value, weight) in std::mem::take(&mut self.values).into_iter().zip(weights) {
            record(histogram, value, weight);
        }
        record(histogram, value, weight);
    }

    /// Infinite values included.
    pub fn count(&self) -> u64 {
        self.finite + self.infinite
    }

    pub fn mean(&self) -> Option<f64> {
        (self.finite > 0).then_some(self.mean)
    }

    /// Population standard deviation of the finite values.
    pub fn std(&self) -> Option<f64> {
        (self.finite > 0).then(|| (self.squares / self.finite as f64).max(0.0).sqrt())
    }

    /// Moments and extremes of the finite values; zero where there is no variation.
    pub(crate) fn spread(&self) -> Moments {
        let count = self.finite as f64;
        let Some(deviation) = self.std().filter(|std| *std > 0.0) else {
            return Moments::default();
        };
        let skewness = self.cubes / count / deviation.powi(3);
        let (least, most) = self.range.unwrap_or_default();
        Moments { variance: deviation.powi(2), skewness, least, most }
    }

    pub fn infinite(&self) -> u64 {
        self.infinite
    }

    pub fn min(&self) -> Option<f64> {
        self.range.map(|(low, _)| low)
    }

    pub fn max(&self) -> Option<f64> {
        self.range.map(|(_, high)| high)
    }

    pub fn into_ordered(mut self) -> Ordered {
        if self.weights.is_empty() {
            self.values.sort_unstable_by(f64::total_cmp);
            return Ordered { sample: self, below: Vec::new() };
        }
        let mut pairs: Vec<(f64, u32)> =
            self.values.iter().copied().zip(std::mem::take(&mut self.weights)).collect();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0;
        let mut below = Vec::with_capacity(pairs.len());
        for (_, weight) in &pairs {
            below.push(sum);
            sum += u64::from(*weight);
        }
        self.values = pairs.into_iter().map(|(value, _)| value).collect();
        Ordered { sample: self, below }
    }
}

fn record(histogram: &mut Histogram<u64>, value: f64, weight: u32) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is clamped to the histogram's range first"
    )]
    let slot = value.clamp(0.0, HISTOGRAM_CEILING).round() as u64;
    // It resizes automatically; only an unreachable total count could fail.
    let _ = histogram.record_n(slot, u64::from(weight));
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sample = Self::default();
        values.into_iter().for_each(|value| sample.push(value));
        sample
    }
}

impl Ordered {
    /// The value at `index` of the sorted list, from zero.
    fn at(&self, index: u64) -> f64 {
        if index >= self.sample.finite {
            return f64::INFINITY;
        }
        if let Some(histogram) = &self.sample.histogram {
            let quantile = (index + 1) as f64 / self.sample.finite as f64;
            let high = self.sample.max().unwrap_or(f64::INFINITY);
            return (histogram.value_at_quantile(quantile) as f64).min(high);
        }
        let nth = if self.below.is_empty() {
            usize::try_from(index).unwrap_or(usize::MAX)
        } else {
            self.below.partition_point(|below| *below <= index).saturating_sub(1)
        };
        self.sample.values.get(nth).copied().unwrap_or(f64::INFINITY)
    }

    pub fn mean(&self) -> Option<f64> {
        self.sample.mean()
    }

    /// Half the width of the mean's 95 % interval if the values were independent.
    pub fn mean_margin(&self) -> Option<f64> {
        let freedom = self.sample.finite.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
        let deviation = self.sample.std()?;
        Some(statistics::student_quantile(0.975, freedom) * deviation / freedom.sqrt())
    }

    /// A percentile's interval from order statistics, if the values were independent.
    pub fn interval(&self, percent: f64) -> Option<(f64, f64)> {
        let (low, high) = statistics::percentile_ranks(percent, self.sample.count())?;
        Some((self.at(low), self.at(high)))
    }

    /// Infinite when it lies among the infinite values; `None` without values.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let count = self.sample.count();
        let rank = statistics::rank(percent, count)?;
        let low = self.at(rank.low);
        let high = if rank.low + 1 < count { self.at(rank.low + 1) } else { low };
        Some(statistics::between(low, high, rank.fraction))
    }

    /// The largest value of which at most `share` (0 to 1) of the others lie below.
    pub(crate) fn at_or_below(&self, share: f64) -> Option<f64> {
        let rank = statistics::rank(share * 100.0, self.sample.count())?;
        Some(self.at(rank.low))
    }

    /// The smallest value with at least `share` of the others below.
    pub(crate) fn at_or_above(&self, share: f64) -> Option<f64> {
        let count = self.sample.count();
        let rank = statistics::rank(share * 100.0, count)?;
        let next = if rank.fraction > 0.0 { rank.low + 1 } else { rank.low };
        Some(self.at(next.min(count - 1)))
    }

    /// Statistics as other tools save them, each value divided by `unit`; all zero when empty.
    pub fn stats(&self, percentiles: &[f64], unit: f64) -> ListStats {
        let value = |percent: f64| self.percentile(percent).unwrap_or(0.0) / unit;
        ListStats {
            count: self.sample.count(),
            mean: self.sample.mean().unwrap_or(0.0) / unit,
            median: value(50.0),
            std: self.sample.std().unwrap_or(0.0) / unit,
            max: self.sample.max().unwrap_or(0.0) / unit,
            percentiles: percentiles.iter().map(|percent| (*percent, value(*percent))).collect(),
        }
    }
}

/// The percentiles in ascending order, including the median.
pub fn with_median(percentiles: &[f64]) -> Vec<f64> {
    let mut all: Vec<f64> = percentiles.iter().copied().chain([50.0]).collect();
    tokometer_base::sort_numbers(&mut all);
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reference: write every value out, sort, and take the rank.
    fn naive(values: &[(f64, u32)], percent: f64) -> f64 {
        let mut list: Vec<f64> = values
            .iter()
            .flat_map(|(value, weight)| {
                std::iter::repeat_n(*value, usize::try_from(*weight).unwrap())
            })
            .collect();
        tokometer_base::sort_numbers(&mut list);
        let nth = percent / 100.0 * (list.len() - 1) as f64;
        let (low, high) = (nth.floor(), nth.ceil());
        let at = |nth: f64| list[nth.to_string().parse::<usize>().unwrap()];
        if (high - low).abs() < 0.5 {
            at(low)
        } else {
            at(low) + (at(high) - at(low)) * (nth - low)
        }
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_the_plain_way(
            values in prop::collection::vec((0.0_f64..1e9, 1_u32..4), 1..60),
            percent in 0.0_f64..=100.0,
        ) {
            let mut sample = Sample::default();
            for (value, weight) in &values {
                sample.add(*value, *weight);
            }
            let found = sample.into_ordered().percentile(percent).unwrap();
            let expected = naive(&values, percent);
            prop_assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0));
        }
    }

    #[test]
    fn an_empty_sample_is_zero_for_the_other_tools() {
        let theirs = Sample::default().into_ordered().stats(&[99.0], 1.0);
        assert_eq!((theirs.mean, theirs.percentiles), (0.0, vec![(99.0, 0.0)]));
    }

    #[test]
    fn a_sample_beyond_the_limit_keeps_three_digits_and_little_memory() {
        let count = u32::try_from(EXACT_LIMIT).unwrap() * 2;
        let sample: Sample = (0..count).map(|value| f64::from(value) * 1e3).collect();
        assert!(sample.values.is_empty() && sample.values.capacity() == 0);
        let expected = f64::from(count) * 1e3 * 0.99;
        let found = sample.into_ordered().percentile(99.0).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-3, "{found} is not {expected}");
    }

    #[test]
    fn the_deviation_is_that_of_the_population() {
        let sample: Sample = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().collect();
        assert!((sample.std().unwrap() - 2.0).abs() < 1e-12);
        let mut weighted = Sample::default();
        weighted.add(4.0, 3);
        weighted.add(5.0, 2);
        for value in [2.0, 7.0, 9.0] {
            weighted.push(value);
        }
        assert!((weighted.std().unwrap() - 2.0).abs() < 1e-12);
        // Cubes of the deviations: -27 - 3 + 8 + 64 = 42, over 8 values and a deviation of 2.
        for sample in [sample, weighted] {
            assert!((sample.spread().skewness - 42.0 / 8.0 / 8.0).abs() < 1e-12);
        }
    }
}
