//! Statistics of values of which some are only known to be larger than what was seen (Kaplan–Meier).
//!
//! Leaving these out would favour small values: of two sessions that begin near the end of a run, the
//! short one ends in it. Each cut-off value instead gives its weight to the larger ones. Without any,
//! percentiles are those of [`crate::sample`]. Intervals take the values as independent.

use crate::distribution::{Distribution, PercentileValue};
use crate::interval::ConfidenceInterval;
use crate::sample::with_median;
use crate::series::DistributionView;
use crate::statistics;

/// What is known of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Seen {
    Value(f64),
    /// It is larger.
    Above(f64),
    /// It has none: larger than all.
    Never,
}

/// A value that was seen, with what is known up to it.
#[derive(Debug, Clone, Copy)]
struct StepUp {
    value: f64,
    /// Its own share of all.
    share: f64,
    /// The share below it.
    below: f64,
    /// The sum in Greenwood's formula.
    greenwood: f64,
    /// This step's part of it.
    part: f64,
}

impl StepUp {
    fn reached(&self) -> f64 {
        self.below + self.share
    }

    /// The 95 % interval of the share up to here.
    fn interval(&self, count: f64) -> (f64, f64) {
        let (share, left) = (self.reached(), 1.0 - self.reached());
        let variance = left * left * self.greenwood;
        let effective = if variance > 0.0 { share * left / variance } else { count };
        statistics::share_interval(share, effective)
    }
}

/// Steps in ascending order, one per value.
fn steps(seen: &[Seen]) -> Vec<StepUp> {
    let known = |one: &Seen| match one {
        Seen::Value(value) => Some((*value, false)),
        Seen::Above(value) => Some((*value, true)),
        Seen::Never => None,
    };
    let mut known: Vec<(f64, bool)> = seen.iter().filter_map(known).collect();
    // A value comes before one that is larger than it.
    known.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut left, mut greenwood) = (1.0, 0.0);
    let mut steps = Vec::new();
    for (at, (value, is_above)) in known.into_iter().enumerate() {
        if is_above {
            continue;
        }
        let at_risk = (seen.len() - at) as f64;
        let share = left / at_risk;
        let part = if at_risk > 1.0 { 1.0 / (at_risk * (at_risk - 1.0)) } else { 0.0 };
        greenwood += part;
        steps.push(StepUp { value, share, below: 1.0 - left, greenwood, part });
        left -= share;
    }
    steps
}

pub(crate) fn distribution(seen: &[Seen], view: DistributionView<'_>) -> Distribution {
    let count = seen.len() as f64;
    let steps = steps(seen);
    let infinite = seen.iter().filter(|one| **one == Seen::Never).count();
    let largest = seen.iter().filter_map(|one| match one {
        Seen::Value(value) | Seen::Above(value) => Some(*value),
        Seen::Never => None,
    });
    let largest = largest.reduce(f64::max);
    let is_open = seen.len() > steps.len();
    let mean = mean(&steps, largest, infinite as f64 / count);
    let mean_interval = match (view.no_interval, mean) {
        (Some(why), _) => ConfidenceInterval::Unknown(why),
        (None, Some(mean)) => mean.interval(steps.len()),
        (None, None) => ConfidenceInterval::default(),
    };
    let mean_interval = mean_interval.divided_by(view.unit);
    let percentile = |percent: f64| {
        let value = percentile(&steps, percent, count);
        let interval = match view.no_interval {
            Some(why) => ConfidenceInterval::Unknown(why),
            None => percentile_interval(&steps, percent, count),
        };
        let needed = statistics::needed_samples(percent);
        PercentileValue {
            percent,
            value: value.map(|value| value / view.unit),
            above: largest.filter(|_| is_open).map(|largest| largest / view.unit),
            interval: interval.divided_by(view.unit),
            is_supported: needed.is_some_and(|needed| steps.len() as u64 >= needed),
        }
    };
    Distribution {
        count: seen.len() as u64,
        infinite: infinite as u64,
        effective: (!seen.is_empty()).then_some(count),
        mean: mean.map(|mean| mean.value / view.unit),
        mean_margin: mean_interval.margin(),
        mean_interval,
        std: deviation(&steps).map(|deviation| deviation / view.unit),
        min: steps.first().map(|step| step.value / view.unit),
        max: largest.map(|largest| largest / view.unit),
        percentiles: with_median(view.percentiles).into_iter().map(percentile).collect(),
        is_withheld: false,
    }
}

/// Between ranks, as without cut-off values; `None` above the values that were seen.
fn percentile(steps: &[StepUp], percent: f64, count: f64) -> Option<f64> {
    let wanted = percent / 100.0 * (count - 1.0) / count;
    let at = steps.partition_point(|step| step.below <= wanted).checked_sub(1)?;
    let low = steps[at];
    match steps.get(at + 1) {
        Some(high) => {
            let part = (wanted - low.below) / (high.below - low.below);
            Some(low.value + (high.value - low.value) * part)
        }
        // Where nothing lies above, it is the largest.
        None => (wanted < low.reached() && low.reached() > 1.0 - 1e-9 || wanted - low.below < 1e-9)
            .then_some(low.value),
    }
}

fn percentile_interval(steps: &[StepUp], percent: f64, count: f64) -> ConfidenceInterval {
    let wanted = percent / 100.0;
    let first = |reaches: &dyn Fn((f64, f64)) -> bool| {
        steps.iter().find(|step| reaches(step.interval(count))).map(|step| step.value)
    };
    match first(&|(_, high)| high >= wanted) {
        Some(low) => {
            let high = first(&|(low, _)| low >= wanted).unwrap_or(f64::INFINITY);
            ConfidenceInterval::Known { low, high }
        }
        None => ConfidenceInterval::default(),
    }
}

#[derive(Debug, Clone, Copy)]
struct Mean {
    value: f64,
    variance: f64,
}

impl Mean {
    fn interval(self, values: usize) -> ConfidenceInterval {
        if values < 2 {
            return ConfidenceInterval::default();
        }
        let freedom = values as f64 - 1.0;
        let variance = self.variance * values as f64 / freedom;
        let margin = statistics::student_quantile(0.975, freedom) * variance.sqrt();
        ConfidenceInterval::Known { low: self.value - margin, high: self.value + margin }
    }
}

/// The mean up to the largest value, which cut-off values count as; those of `never` are left out.
fn mean(steps: &[StepUp], largest: Option<f64>, never: f64) -> Option<Mean> {
    let (last, largest) = (steps.last()?, largest?);
    let whole = 1.0 - never;
    let tail = (1.0 - last.reached() - never).max(0.0);
    let sum: f64 = steps.iter().map(|step| step.share * step.value).sum();
    // The area under the curve to the right of each step, from the right.
    let (mut area, mut variance, mut right) = (0.0, 0.0, largest);
    for step in steps.iter().rev() {
        area += (right - step.value) * (1.0 - step.reached() - never).max(0.0);
        right = step.value;
        variance += area * area * step.part;
    }
    Some(Mean { value: (sum + tail * largest) / whole, variance: variance / (whole * whole) })
}

fn deviation(steps: &[StepUp]) -> Option<f64> {
    let all = steps.last()?.reached();
    let mean = steps.iter().map(|step| step.share * step.value).sum::<f64>() / all;
    let squares = steps.iter().map(|step| step.share * (step.value - mean).powi(2));
    Some((squares.sum::<f64>() / all).sqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Seen::{Above, Never, Value};
    use super::*;
    use crate::sample::Sample;

    fn of(seen: &[Seen]) -> Distribution {
        let view = DistributionView {
            percentiles: &[25.0, 50.0, 90.0],
            unit: 1.0,
            longest_wait: 0.0,
            no_interval: None,
        };
        distribution(seen, view)
    }

    /// Shares 1/5, then 4/5 · 1/3, then the last value alone: worked out by hand.
    #[test]
    fn cut_off_values_give_their_weight_to_larger_ones() {
        let found = of(&[Value(1.0), Above(2.0), Value(3.0), Above(4.0), Value(5.0)]);
        let expected = 0.2 + 0.8 / 3.0 * 3.0 + (0.8 - 0.8 / 3.0) * 5.0;
        assert!((found.mean.unwrap() - expected).abs() < 1e-12, "{found:?}");
        let steps = steps(&[Value(1.0), Above(2.0), Value(3.0), Above(4.0), Value(5.0)]);
        let reached: Vec<f64> = steps.iter().map(StepUp::reached).collect();
        for (found, expected) in reached.iter().zip([0.2, 0.2 + 0.8 / 3.0, 1.0]) {
            assert!((found - expected).abs() < 1e-12, "{reached:?}");
        }
        // Leaving them out would say 3.
        assert!(found.percentile(50.0).unwrap().value.unwrap() > 3.0);
    }

    #[test]
    fn a_percentile_among_cut_off_values_is_a_lower_bound() {
        let found = of(&[Value(1.0), Value(2.0), Above(9.0), Above(7.0)]);
        let p90 = found.percentile(90.0).unwrap();
        assert_eq!((p90.value, p90.above), (None, Some(9.0)));
        assert_eq!(found.percentile(25.0).unwrap().value, Some(1.75));
        let found = of(&[Value(1.0), Never]);
        assert_eq!((found.infinite, found.mean), (1, Some(1.0)));
        assert_eq!(found.percentile(90.0).unwrap().value, None);
        let none = of(&[Above(3.0)]);
        assert_eq!((none.mean, none.percentile(50.0).unwrap().value), (None, None));
    }

    proptest! {
        #[test]
        fn without_cut_off_values_it_is_the_plain_way(
            values in prop::collection::vec(0.0_f64..1e6, 2..40),
            percent in 0.0_f64..=100.0,
        ) {
            let seen: Vec<Seen> = values.iter().map(|value| Value(*value)).collect();
            let plain: Sample = values.iter().copied().collect();
            let (mean, std) = (plain.mean().unwrap(), plain.std().unwrap());
            let ordered = plain.into_ordered();
            let found = of(&seen);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
            prop_assert!(near(found.mean.unwrap(), mean) && near(found.std.unwrap(), std));
            prop_assert!(near(found.mean_margin.unwrap(), ordered.mean_margin().unwrap()));
            let found = percentile(&steps(&seen), percent, values.len() as f64).unwrap();
            prop_assert!(near(found, ordered.percentile(percent).unwrap()));
        }
    }
}
