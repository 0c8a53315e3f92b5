//! Quantiles of a server's histogram.
//!
//! In: cumulative counts by upper bound at two points in time. Out: quantiles of what was added in
//! between, interpolated linearly within a bucket, with the bucket's bounds, because more is not
//! known. Values above the last bound have no quantile.

use serde::{Deserialize, Serialize};

/// A quantile from histogram buckets, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BucketQuantile {
    /// By interpolation; `None` above the last bound.
    pub value_ms: Option<f64>,
    pub low_ms: f64,
    /// Upper bound of its bucket; `None` above the last bound.
    pub high_ms: Option<f64>,
}

/// Cumulative counts by upper bound in seconds, ascending; the last bound is infinite.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Buckets(Vec<(f64, f64)>);

impl Buckets {
    /// From the printed bounds and counts of all label sets.
    pub(super) fn new<'a>(samples: impl Iterator<Item = (&'a str, f64)>) -> Self {
        let mut rows: Vec<(f64, f64)> = Vec::new();
        for (bound, count) in samples {
            let Ok(bound) = bound.parse::<f64>() else { continue };
            match rows.iter_mut().find(|(known, _)| known.to_bits() == bound.to_bits()) {
                Some((_, sum)) => *sum += count,
                None => rows.push((bound, count)),
            }
        }
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self(rows)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Combines the counts with `other` bound by bound; `None` where the bounds differ.
    pub(super) fn joined(&self, other: &Self, join: fn(f64, f64) -> f64) -> Option<Self> {
        let is_same = self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| a.0.to_bits() == b.0.to_bits());
        let rows = self.0.iter().zip(&other.0).map(|(a, b)| (a.0, join(a.1, b.1)));
        is_same.then(|| Self(rows.collect()))
    }

    /// `share` is from 0 to 1. `None` without counts, or with inconsistent ones.
    pub(super) fn quantile(&self, share: f64) -> Option<BucketQuantile> {
        let (last_bound, total) = *self.0.last()?;
        let is_rising = self.0.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        if total <= 0.0 || last_bound.is_finite() || !is_rising {
            return None;
        }
        let wanted = share * total;
        let at = self.0.iter().position(|(_, below)| *below >= wanted && *below > 0.0)?;
        let (low, before) = if at == 0 { (0.0, 0.0) } else { self.0[at - 1] };
        let (high, until) = self.0[at];
        let within = ((wanted - before) / (until - before)).clamp(0.0, 1.0);
        Some(BucketQuantile {
            value_ms: high.is_finite().then_some((low + (high - low) * within) * 1e3),
            low_ms: low * 1e3,
            high_ms: high.is_finite().then_some(high * 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(rows: &[(&'static str, f64)]) -> Buckets {
        Buckets::new(rows.iter().copied())
    }

    #[test]
    fn quantiles_lie_linearly_within_their_bucket() {
        let found = buckets(&[("0.1", 10.0), ("0.2", 30.0), ("1.0", 40.0), ("+Inf", 40.0)]);
        let check = |share: f64, value: f64, low: f64, high: f64| {
            let quantile = found.quantile(share).unwrap();
            assert!((quantile.value_ms.unwrap() - value).abs() < 1e-9, "{share}: {quantile:?}");
            assert_eq!((quantile.low_ms, quantile.high_ms), (low, Some(high)));
        };
        check(0.125, 50.0, 0.0, 100.0);
        check(0.5, 150.0, 100.0, 200.0);
        check(0.75, 200.0, 100.0, 200.0);
        check(1.0, 1_000.0, 200.0, 1_000.0);
    }

    #[test]
    fn what_lies_above_the_last_bound_has_no_value() {
        let found = buckets(&[("+Inf", 10.0), ("0.1", 5.0)]).quantile(0.99).unwrap();
        assert_eq!((found.value_ms, found.low_ms, found.high_ms), (None, 100.0, None));
    }

    #[test]
    fn counts_that_are_no_histogram_give_nothing() {
        assert_eq!(buckets(&[]).quantile(0.5), None);
        assert_eq!(buckets(&[("0.1", 0.0), ("+Inf", 0.0)]).quantile(0.5), None);
        assert_eq!(buckets(&[("0.1", 5.0)]).quantile(0.5), None, "no count above the last bound");
        assert_eq!(buckets(&[("0.1", 5.0), ("+Inf", 3.0)]).quantile(0.5), None, "falling");
        assert_eq!(buckets(&[("x", 5.0)]), Buckets::default());
    }

    #[test]
    fn label_sets_add_up_and_other_bounds_do_not_join() {
        let one = buckets(&[("0.1", 1.0), ("+Inf", 2.0), ("0.1", 3.0), ("+Inf", 4.0)]);
        assert_eq!(one, buckets(&[("0.1", 4.0), ("+Inf", 6.0)]));
        assert_eq!(one.joined(&buckets(&[("0.2", 4.0), ("+Inf", 6.0)]), |a, b| a + b), None);
    }
}
