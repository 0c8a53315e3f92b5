//! A distribution as two curves of bounded size: cumulative share, and counts per bin.

use serde_json::{Value, json};
use tokometer_figures::summary::Distribution;

/// Bins per factor of ten: neighbours differ by 2.3 %.
const BINS_PER_DECADE: f64 = 100.0;
/// About as many bars as can be distinguished.
const SHOWN_BINS: usize = 40;
/// The smallest distinct value, in the metric's unit.
const LEAST: f64 = 1e-4;
/// Bins up to LEAST × 10^11.
const BINS: usize = 1_100;

/// Counts of one metric in logarithmic bins.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { counts: vec![0; BINS], total: 0 }
    }
}

fn edge(bin: usize) -> f64 {
    LEAST * 10_f64.powf(bin as f64 / BINS_PER_DECADE)
}

impl Spread {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate, and the bin is clamped after"
    )]
    pub(super) fn add(&mut self, value: f64, weight: u64) {
        if !value.is_finite() {
            return;
        }
        let bin = ((value.max(LEAST) / LEAST).log10() * BINS_PER_DECADE) as usize;
        self.counts[bin.min(BINS - 1)] += weight;
        self.total += weight;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn filled(&self) -> Option<(usize, usize)> {
        let first = self.counts.iter().position(|count| *count > 0)?;
        let last = self.counts.iter().rposition(|count| *count > 0)?;
        Some((first, last))
    }

    /// (value, share at or below it), from the first filled bin to the last.
    fn share_points(&self) -> Vec<(f64, f64)> {
        let Some((first, last)) = self.filled() else { return Vec::new() };
        let mut below = 0;
        let mut points = vec![(edge(first), 0.0)];
        for bin in first..=last {
            below += self.counts[bin];
            points.push((edge(bin + 1), below as f64 / self.total as f64));
        }
        points
    }

    /// (lower edge, count) of wider bins.
    fn count_points(&self) -> Vec<(f64, u64)> {
        let Some((first, last)) = self.filled() else { return Vec::new() };
        let width = ((last - first + 1) / SHOWN_BINS).max(1);
        let (from, to) = (first / width, last / width + 1);
        let sum = |wide: usize| {
            let bins = wide * width..((wide + 1) * width).min(BINS);
            self.counts.get(bins).map_or(0, |counts| counts.iter().sum())
        };
        (from..=to).map(|wide| (edge(wide * width), sum(wide))).collect()
    }

    /// The form that the page's script draws.
    pub(super) fn to_json(&self, [label, unit]: [&str; 2], known: Option<&Distribution>) -> Value {
        let marks =
            known.map(|distribution| distribution.percentiles.as_slice()).unwrap_or_default();
        let marks: Vec<Value> = marks
            .iter()
            .filter(|mark| mark.value.is_some())
            .map(|mark| {
                let ends = mark.interval.ends();
                let (low, high) = (ends.map(|ends| ends.0), ends.map(|ends| ends.1));
                json!({"percent": mark.percent, "value": mark.value, "low": low, "high": high})
            })
            .collect();
        let ratio = self.filled().map_or(1.0, |(first, last)| edge(last + 1) / edge(first));
        json!({
            "label": label,
            "unit": unit,
            "is_log": ratio > 30.0,
            "cdf": self.share_points(),
            "bins": self.count_points(),
            "percentiles": marks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rise_to_one_and_counts_sum_to_all() {
        let mut spread = Spread::default();
        for value in [1.0, 2.0, 2.0, 50.0, f64::INFINITY] {
            spread.add(value, 1);
        }
        let shares = spread.share_points();
        assert!(shares.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 < pair[1].0));
        assert!((shares.last().unwrap().1 - 1.0).abs() < 1e-12);
        assert_eq!(spread.count_points().iter().map(|(_, count)| count).sum::<u64>(), 4);
        let half = shares.iter().find(|(value, _)| *value >= 2.05).unwrap();
        assert!((half.1 - 0.75).abs() < 1e-12, "{half:?}");
    }
}
