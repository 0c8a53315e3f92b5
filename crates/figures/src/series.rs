//! The values of one distribution, with the times at which they were observed.

use tokometer_base::Nanos;

use crate::blocks::ValueBlocks;
use crate::interval::{self, ConfidenceInterval, Dependence, NoInterval};
use crate::sample::{Ordered, Sample, with_median};
use crate::statistics;
use crate::summary::{Distribution, PercentileValue};

#[derive(Debug, Clone, Default)]
pub(crate) struct TimedValues {
    sample: Sample,
    blocks: ValueBlocks,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DistributionView<'a> {
    pub(crate) percentiles: &'a [f64],
    /// Each value is divided by this.
    pub(crate) unit: f64,
    /// The longest wait for a failed request, not divided.
    pub(crate) longest_wait: f64,
    /// Why no figure of the run may have an interval.
    pub(crate) no_interval: Option<NoInterval>,
}

impl TimedValues {
    /// Adds a value `weight` times, observed at `at`. NaN is ignored.
    pub(crate) fn add(&mut self, at: Nanos, value: f64, weight: u32) {
        self.sample.add(value, weight);
        self.blocks.add(at, value, weight);
    }

    pub(crate) fn count(&self) -> u64 {
        self.sample.count()
    }

    pub(crate) fn into_distribution(self, view: DistributionView<'_>) -> Distribution {
        let Self { sample, blocks } = self;
        let means = blocks.means();
        let dependence = Dependence::of(&means, sample.spread());
        let mean_interval = match view.no_interval {
            Some(why) => ConfidenceInterval::Unknown(why),
            None => dependence.mean(&means).divided_by(view.unit),
        };
        let (count, infinite) = (sample.count(), sample.infinite());
        let mut found = Distribution {
            count,
            infinite,
            effective: (count > 0).then(|| match view.no_interval {
                // Requests of a burst wait for each other by design.
                Some(NoInterval::Burst) => count as f64,
                _ => dependence.effective_of(count as f64),
            }),
            mean: sample.mean().map(|mean| mean / view.unit),
            mean_margin: mean_interval.margin(),
            mean_interval,
            std: sample.std().map(|std| std / view.unit),
            min: sample.min().map(|min| min / view.unit),
            max: sample.max().map(|max| max / view.unit),
            percentiles: Vec::new(),
            is_withheld: false,
        };
        let above = sample.max().unwrap_or(0.0).max(view.longest_wait) / view.unit;
        let ordered = sample.into_ordered();
        let percentile = |percent: f64| {
            let value = ordered.percentile(percent).unwrap_or(f64::INFINITY);
            let shares = blocks.shares(percent / 100.0, value);
            let interval = || in_values(dependence.percentile(percent, &shares), &ordered);
            let interval = view.no_interval.map_or_else(interval, ConfidenceInterval::Unknown);
            let needed = statistics::needed_samples(percent);
            let is_supported = match view.no_interval {
                // Requests of a burst wait for each other by design.
                Some(NoInterval::Burst) => needed.is_some_and(|needed| count >= needed),
                _ => interval::supports(percent, &shares),
            };
            PercentileValue {
                percent,
                value: value.is_finite().then_some(value / view.unit),
                above: (infinite > 0).then_some(above),
                interval: interval.divided_by(view.unit),
                is_supported,
            }
        };
        if count > 0 {
            found.percentiles = with_median(view.percentiles).into_iter().map(percentile).collect();
            PercentileValue::agree(&mut found.percentiles);
        }
        found
    }
}

/// An interval of shares as one of values.
fn in_values(shares: ConfidenceInterval, ordered: &Ordered) -> ConfidenceInterval {
    let ConfidenceInterval::Known { low, high } = shares else { return shares };
    let ends = (ordered.at_or_below(low), ordered.at_or_above(high));
    match ends {
        (Some(low), _) if low.is_infinite() => ConfidenceInterval::Unknown(NoInterval::Failures),
        (Some(low), Some(high)) => ConfidenceInterval::Known { low, high },
        _ => ConfidenceInterval::default(),
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_base::seed::unit_float;

    use super::*;

    const VIEW: DistributionView<'_> = DistributionView {
        percentiles: &[90.0, 99.0],
        unit: 1.0,
        longest_wait: 200.0,
        no_interval: None,
    };

    /// One value per 10 ms.
    fn found(values: impl IntoIterator<Item = f64>) -> Distribution {
        let mut series = TimedValues::default();
        for (at, value) in (0_u64..).zip(values) {
            series.add(Nanos::from_millis(10 * at), value, 1);
        }
        series.into_distribution(VIEW)
    }

    fn noise(count: u64) -> impl Iterator<Item = f64> {
        let mut generator = Seed(3).stream("series").at(0);
        (0..count).map(move |_| 100.0 - 20.0 * unit_float(&mut generator).ln())
    }

    #[test]
    fn failed_requests_push_the_percentiles_up_and_leave_the_mean() {
        let found = found((1..=98).map(f64::from).chain([f64::INFINITY; 2]));
        assert_eq!((found.count, found.infinite, found.max), (100, 2, Some(98.0)));
        assert_eq!(found.mean, Some(49.5));
        let p99 = found.percentile(99.0).unwrap();
        assert_eq!((p99.value, p99.above, p99.is_supported), (None, Some(200.0), false));
        assert_eq!(found.percentile(50.0).unwrap().value, Some(50.5));
    }

    #[test]
    fn an_empty_series_has_no_figures() {
        let empty = found([]);
        assert_eq!((empty.mean, empty.effective, empty.percentiles.len()), (None, None, 0));
        assert_eq!(empty.mean_interval, ConfidenceInterval::Unknown(NoInterval::FewSamples));
    }

    #[test]
    fn independent_values_count_in_full_and_have_narrow_intervals() {
        let found = found(noise(2_000));
        assert_eq!(found.effective, Some(2_000.0));
        assert!(found.mean_margin.unwrap() < 2.0, "{found:?}");
        let p99 = found.percentile(99.0).unwrap();
        let (low, high) = p99.interval.ends().unwrap();
        let truth = 100.0 + 20.0 * 100.0_f64.ln();
        assert!(low < truth && truth < high && high - low < 60.0, "{p99:?}");
    }

    /// The same values, the slow ones together: a few slow moments, not many slow requests.
    #[test]
    fn values_that_are_slow_together_say_that_the_run_is_too_short() {
        let mut values: Vec<f64> = noise(2_000).collect();
        tokometer_base::sort_numbers(&mut values);
        let found = found(values);
        assert!(found.effective.unwrap() < 20.0, "{found:?}");
        assert_eq!(found.mean_interval, ConfidenceInterval::Unknown(NoInterval::TooShort));
        let p99 = found.percentile(99.0).unwrap();
        assert_eq!(p99.interval, ConfidenceInterval::Unknown(NoInterval::TooShort));
        assert!(!p99.is_supported);
    }

    /// P50 and P90 had the mark `?`, and P99 none.
    #[test]
    fn a_percentile_is_never_surer_than_one_nearer_to_the_median() {
        let (known, too_short) = (
            ConfidenceInterval::Known { low: 1.0, high: 2.0 },
            ConfidenceInterval::Unknown(NoInterval::TooShort),
        );
        let entry = |percent: f64, is_supported: bool, interval| PercentileValue {
            percent,
            value: Some(1.5),
            above: None,
            interval,
            is_supported,
        };
        let mut found = [
            entry(1.0, true, known),
            entry(10.0, false, known),
            entry(50.0, true, known),
            entry(90.0, true, too_short),
            entry(99.0, true, known),
            entry(99.9, false, ConfidenceInterval::default()),
        ];
        PercentileValue::agree(&mut found);
        let doubtful = found.map(|one| one.is_doubtful());
        assert_eq!(doubtful, [true, true, false, true, true, true]);
        assert_eq!(found[4].interval, too_short, "no interval beside a mark");
        assert_eq!(found[5].interval, ConfidenceInterval::default(), "its own reason stays");
    }

    #[test]
    fn a_percentile_of_few_values_has_no_interval() {
        let found = found(noise(200));
        let of = |percent: f64| *found.percentile(percent).unwrap();
        assert_eq!(of(99.0).interval, ConfidenceInterval::Unknown(NoInterval::FewSamples));
        assert!(!of(99.0).is_supported && of(50.0).is_supported);
        assert!(of(50.0).interval.ends().is_some());
    }

    /// Old files have `low` and `high` only, and other programs read them.
    #[test]
    fn an_interval_is_stored_beside_its_percentile() {
        let found = found(noise(400));
        let check = |percent: f64, keys: [bool; 3]| {
            let entry = found.percentile(percent).unwrap();
            let stored = serde_json::to_value(entry).unwrap();
            let has = ["low", "high", "no_interval"].map(|key| !stored[key].is_null());
            assert_eq!(has, keys, "{stored}");
            assert_eq!(serde_json::from_value::<PercentileValue>(stored).unwrap(), *entry);
        };
        check(50.0, [true, true, false]);
        check(99.0, [true, true, false]);
        let old =
            r#"{"percent":99,"value":2,"above":null,"low":null,"high":null,"is_supported":false}"#;
        let old: PercentileValue = serde_json::from_str(old).unwrap();
        assert_eq!(old.interval, ConfidenceInterval::Unknown(NoInterval::FewSamples));
    }
}
