//! The values of one metric over the requests or gaps of a run.

use serde::{Deserialize, Serialize};

use crate::interval::{ConfidenceInterval, NoInterval, rule};
use crate::statistics;

/// A distribution of values in the unit that its key names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values, including failed requests where they count as infinitely slow.
    pub count: u64,
    pub infinite: u64,
    pub mean: Option<f64>,
    /// Number of independent values that these are worth, failed requests included. `None` without
    /// values.
    #[serde(default)]
    pub effective: Option<f64>,
    #[serde(default)]
    pub mean_interval: ConfidenceInterval,
    pub mean_margin: Option<f64>,
    /// Population standard deviation of the finite values.
    pub std: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// In ascending order, including the median.
    pub percentiles: Vec<PercentileValue>,
    /// True when the values must not be shown; a note gives the reason.
    pub is_withheld: bool,
}

impl Distribution {
    /// How many times as long a run must be for the interval of a percentile of its dependent values; `None` where
    /// their number is not what is missing.
    pub fn times_as_long(&self, percent: f64) -> Option<f64> {
        let needed = rule::DEPENDENT_FACTOR * statistics::needed_samples(percent)? as f64;
        let times = needed.max(rule::LEAST_EFFECTIVE) / self.effective?.max(1.0);
        (times > 1.0).then_some(times)
    }

    /// `None` if it was not requested.
    pub fn percentile(&self, percent: f64) -> Option<&PercentileValue> {
        self.percentiles.iter().find(|entry| (entry.percent - percent).abs() < 1e-9)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PercentileValue {
    /// From 0 to 100.
    pub percent: f64,
    /// `None` when it lies among the failed requests, above `above`.
    pub value: Option<f64>,
    /// The largest finite value, or the longest wait for a failed request, if larger.
    pub above: Option<f64>,
    /// Its confidence interval: `low` and `high`, or `no_interval` with the reason.
    #[serde(flatten)]
    pub interval: ConfidenceInterval,
    /// Whether there are enough effective values for this percentile.
    pub is_supported: bool,
}

impl PercentileValue {
    /// Whether it is shown with `?`: too few values, or a run that is too short for its interval.
    pub fn is_doubtful(&self) -> bool {
        let too_short = ConfidenceInterval::Unknown(NoInterval::TooShort);
        !self.is_supported || self.interval == too_short
    }

    /// Nor is it surer than one that is nearer to the median: fewer values lie beyond it.
    fn follow(&mut self, nearer: &Self) {
        self.is_supported &= nearer.is_supported;
        let is_known = self.interval.ends().is_some();
        if is_known && nearer.interval.ends().is_none() {
            self.interval = nearer.interval;
        }
    }

    /// Makes the marks of ascending percentiles agree: a doubtful median leaves no sure P99.
    pub(crate) fn agree(ascending: &mut [Self]) {
        let middle = ascending.partition_point(|one| one.percent < 50.0);
        let (low, high) = ascending.split_at_mut(middle);
        let follow = |chain: &mut dyn Iterator<Item = &mut Self>| {
            let mut nearer: Option<Self> = None;
            for one in chain {
                if let Some(nearer) = &nearer {
                    one.follow(nearer);
                }
                nearer = Some(*one);
            }
        };
        follow(&mut high.iter_mut());
        follow(&mut low.iter_mut().rev());
    }
}
