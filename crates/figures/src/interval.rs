//! 95 % confidence intervals of values that depend on each other.
//!
//! Requests that share a queue are slow together, so a thousand of them may be worth only a hundred
//! independent ones, and an interval from their number is far too narrow. Here the values are grouped
//! into blocks of time. Blocks that scatter more than independent values would, or that follow their
//! neighbours, show the dependence; the interval comes from the scatter of the blocks. Where the
//! dependence leaves too few effective values, there is no interval: the run is too short to tell.
//!
//! A mean, a share of values below a limit and a rate are all ratios of two sums over blocks, so one
//! arithmetic serves the three. `docs/intervals.md` has the coverage of the result.

use serde::{Deserialize, Serialize};
use tokometer_base::units::nearest_count;

use crate::statistics;

/// The thresholds of the rule. They were chosen with simulated queues; `cargo lab coverage` measures
/// what they give.
pub(crate) mod rule {
    /// Fewer blocks do not show their scatter.
    pub(crate) const LEAST_BLOCKS: usize = 8;
    /// One of twenty series of independent values scatters or correlates more than this many standard
    /// deviations.
    pub(crate) const DEVIATIONS: f64 = 1.645;
    /// One of a thousand does so by this many. A run is called too small for a percentile only then:
    /// the few values beyond a percentile often share a block by chance.
    pub(crate) const CERTAIN_DEVIATIONS: f64 = 3.09;
    /// Effective values that must lie beyond a percentile: fewer are one moment.
    pub(crate) const LEAST_BEYOND: f64 = 1.0;
    /// The largest correlation of neighbouring blocks that is corrected for.
    pub(crate) const MOST_CORRELATION: f64 = 0.9;
    /// Degrees of freedom that are left however much the blocks correlate.
    pub(crate) const LEAST_FREEDOM: f64 = 3.0;
    /// Effective values that a figure of dependent values needs.
    pub(crate) const LEAST_EFFECTIVE: f64 = 20.0;
    /// The same for the mean of calm values, whose blocks show what they do: fewer are a trend.
    pub(crate) const LEAST_EFFECTIVE_OF_CALM: f64 = 2.0;
    /// Effective waits in the queue that latencies need where the waits decide them: one long queue
    /// more or less would change them.
    pub(crate) const LEAST_WAITS: f64 = 100.0;
    /// Effective waits that speeds need: fewer are one or two excursions of the queue.
    pub(crate) const LEAST_WAITS_FOR_SPEED: f64 = 10.0;
    /// Waits decide the time to the first token where its mean exceeds its median this many times.
    pub(crate) const WAITS_DECIDE: f64 = 1.25;
    /// Waits decide a whole latency where their excess over the median is more than this share of it.
    pub(crate) const WAITS_SHARE: f64 = 0.01;
    /// A percentile of dependent values needs this many times the sample that it needs of
    /// independent ones.
    pub(crate) const DEPENDENT_FACTOR: f64 = 2.0;
    /// Mean times in flight that a run must last.
    pub(crate) const LEAST_STAYS: f64 = 10.0;
    /// The same for waits that vary much, in an open loop: the long queues that decide them are rare, and
    /// a shorter run that saw none looks calm.
    pub(crate) const LEAST_STAYS_OF_VARYING: f64 = 25.0;
    /// Values vary much where their standard deviation exceeds this share of their median (of a mean). Others are
    /// calm, if they are not skewed: none that a run has not seen lies far away.
    pub(crate) const VARYING: f64 = 0.4;
    /// Of values above the mean: below it none lies farther than zero.
    pub(crate) const SKEWED: f64 = 1.0;
    /// The upper bound of the expected number of events of a kind that has not happened once, at the
    /// 97.5 % of one side of the interval: -ln 0.025.
    pub(crate) const UNSEEN: f64 = 3.69;
}

/// The two-sided 95 % confidence interval of a figure, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredInterval", into = "StoredInterval")]
pub enum ConfidenceInterval {
    /// The upper end of a percentile is infinite where it lies among failed requests.
    Known {
        low: f64,
        high: f64,
    },
    Unknown(NoInterval),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoInterval {
    /// Too few values, even if they were independent.
    FewSamples,
    /// The values depend on each other too much for the length of the run.
    TooShort,
    /// All requests were sent at once: a single observation of a burst.
    Burst,
    Failures,
}

impl Default for ConfidenceInterval {
    fn default() -> Self {
        Self::Unknown(NoInterval::FewSamples)
    }
}

/// An interval in JSON. A missing upper end beside a lower one is infinite.
#[derive(Serialize, Deserialize)]
struct StoredInterval {
    low: Option<f64>,
    high: Option<f64>,
    #[serde(default)]
    no_interval: Option<NoInterval>,
}

impl From<ConfidenceInterval> for StoredInterval {
    fn from(interval: ConfidenceInterval) -> Self {
        let finite = |value: f64| value.is_finite().then_some(value);
        match interval {
            ConfidenceInterval::Known { low, high } => {
                Self { low: finite(low), high: finite(high), no_interval: None }
            }
            ConfidenceInterval::Unknown(why) => {
                Self { low: None, high: None, no_interval: Some(why) }
            }
        }
    }
}

impl From<StoredInterval> for ConfidenceInterval {
    fn from(stored: StoredInterval) -> Self {
        match (stored.low, stored.no_interval) {
            (Some(low), None) => Self::Known { low, high: stored.high.unwrap_or(f64::INFINITY) },
            (_, why) => Self::Unknown(why.unwrap_or(NoInterval::FewSamples)),
        }
    }
}

impl ConfidenceInterval {
    pub fn ends(&self) -> Option<(f64, f64)> {
        match self {
            Self::Known { low, high } => Some((*low, *high)),
            Self::Unknown(_) => None,
        }
    }

    /// Half its width. `None` when it is unknown or unbounded.
    pub fn margin(&self) -> Option<f64> {
        self.ends().map(|(low, high)| (high - low) / 2.0).filter(|half| half.is_finite())
    }

    #[must_use]
    pub(crate) fn divided_by(self, unit: f64) -> Self {
        self.times(1.0 / unit)
    }

    /// The interval of a value this many times as large.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Known { low, high } => Self::Known { low: low * factor, high: high * factor },
            Self::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// What one block adds to both sums of a ratio: values and their number, or an amount and seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockPart {
    /// Above the line.
    pub amount: f64,
    /// Below the line.
    pub weight: f64,
}

/// A ratio of sums over blocks, and how the blocks scatter around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockScatter {
    blocks: f64,
    ratio: f64,
    /// Variance of the ratio if the blocks were independent.
    variance: f64,
    weight: f64,
    correlation: f64,
}

impl BlockScatter {
    /// `None` for too few blocks. Blocks without weight do not count.
    pub fn of(parts: &[BlockPart]) -> Option<Self> {
        let parts: Vec<BlockPart> =
            parts.iter().copied().filter(|part| part.weight > 0.0).collect();
        if parts.len() < rule::LEAST_BLOCKS {
            return None;
        }
        let blocks = parts.len() as f64;
        let weight: f64 = parts.iter().map(|part| part.weight).sum();
        let ratio = parts.iter().map(|part| part.amount).sum::<f64>() / weight;
        let apart: Vec<f64> = parts.iter().map(|part| part.amount - ratio * part.weight).collect();
        let squares: f64 = apart.iter().map(|one| one.powi(2)).sum();
        let products: f64 = apart.windows(2).map(|pair| pair[0] * pair[1]).sum();
        Some(Self {
            blocks,
            ratio,
            variance: squares * blocks / (blocks - 1.0) / weight.powi(2),
            weight,
            // Equal blocks differ by rounding only, which correlates with anything.
            correlation: if squares > 1e-18 * (ratio * weight).powi(2) {
                products / squares
            } else {
                0.0
            },
        })
    }

    /// By how much the variance of the ratio exceeds that of independent blocks, if each block follows
    /// its neighbour as in a first-order process.
    fn inflation(&self) -> f64 {
        // A short series underestimates its own correlation by about one over its length.
        let correlation = (self.correlation + 1.0 / self.blocks).clamp(0.0, rule::MOST_CORRELATION);
        (1.0 + correlation) / (1.0 - correlation)
    }

    /// How many times the variance exceeds that of independent values, whose variance is `each`;
    /// `None` where independent values would look the same, within so many `deviations`.
    fn dependence(&self, each: f64, deviations: f64) -> Option<f64> {
        let expected = each / self.weight;
        let excess = if expected > 0.0 { self.variance / expected } else { 1.0 };
        // The quantile of chi-square over its degrees of freedom, after Wilson and Hilferty.
        let part = 2.0 / (9.0 * (self.blocks - 1.0));
        let most = (1.0 - part + deviations * part.sqrt()).powi(3);
        let is_following = self.correlation > deviations / self.blocks.sqrt();
        (excess > most || is_following).then(|| excess.max(1.0) * self.inflation())
    }

    /// The error of the ratio, whose variance is at least `least` and exceeds that of independent
    /// blocks `inflation` times.
    fn error(&self, inflation: f64, least: f64) -> StandardError {
        let freedom = ((self.blocks - 1.0) / inflation).max(rule::LEAST_FREEDOM);
        StandardError {
            size: (self.variance * inflation).max(least).sqrt(),
            quantile: statistics::student_quantile(0.975, freedom),
        }
    }
}

/// A standard error, and how many of them the interval extends to each side.
#[derive(Debug, Clone, Copy)]
struct StandardError {
    size: f64,
    quantile: f64,
}

impl StandardError {
    fn margin(self) -> f64 {
        self.quantile * self.size
    }

    /// By how much the interval of a mean reaches further to the side of the rare large values, of
    /// which a short run has seen too few (the first skewness term of Hall's correction). Negative on
    /// the lower side.
    fn reach(self, skewness: f64, effective: f64) -> f64 {
        let Self { size, quantile } = self;
        skewness / (6.0 * effective.max(1.0).sqrt()) * (2.0 * quantile.powi(2) + 1.0) * size
    }
}

/// How many times the variance of the mean of `blocks`, which follow each other in time, exceeds that of
/// independent ones: at least 1, and 1 for too few blocks.
pub fn inflation(blocks: &[f64]) -> f64 {
    let part = |value: &f64| BlockPart { amount: *value, weight: 1.0 };
    let parts: Vec<BlockPart> = blocks.iter().map(part).collect();
    BlockScatter::of(&parts).map_or(1.0, |scatter| scatter.inflation())
}

fn pairs(parts: &[BlockPart]) -> Vec<BlockPart> {
    let sum = |pair: &[BlockPart]| BlockPart {
        amount: pair.iter().map(|part| part.amount).sum(),
        weight: pair.iter().map(|part| part.weight).sum(),
    };
    parts.chunks(2).map(sum).collect()
}

/// Whether a run that lasted so many mean times in flight is long enough for intervals of what waits in
/// its queues.
pub(crate) fn is_long_enough(stays: f64) -> bool {
    stays >= rule::LEAST_STAYS
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Moments {
    pub(crate) variance: f64,
    pub(crate) skewness: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Moments {
    /// By how much rare values that a run did not happen to see could move this `mean` of so many
    /// effective values: [`rule::UNSEEN`] of them as far away as the farthest one seen. A run without a
    /// long queue has small scatter too, so the scatter alone cannot account for them. Negative on the
    /// lower side.
    fn unseen(&self, mean: f64, effective: f64) -> f64 {
        let farthest = match self.skewness {
            skewness if skewness > 0.0 => (self.most - mean).max(0.0),
            skewness if skewness < 0.0 => (self.least - mean).min(0.0),
            _ => 0.0,
        };
        rule::UNSEEN / effective.max(rule::UNSEEN) * farthest
    }
}

/// What the dependence of a series leaves of its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dependence {
    count: f64,
    spread: Moments,
    is_calm: bool,
    /// How many times the variance of the mean exceeds that of independent values; `None` where they
    /// look independent, or where the blocks are too few to tell.
    excess: Option<f64>,
}

impl Dependence {
    /// `means` are the sums and numbers of values by block.
    pub(crate) fn of(means: &[BlockPart], spread: Moments) -> Self {
        let count: f64 = means.iter().map(|part| part.weight).sum();
        let mean = means.iter().map(|part| part.amount).sum::<f64>() / count.max(1.0);
        let is_calm =
            spread.variance.sqrt() <= rule::VARYING * mean.abs() && spread.skewness <= rule::SKEWED;
        let excess = BlockScatter::of(means)
            .and_then(|scatter| scatter.dependence(spread.variance, rule::DEVIATIONS));
        Self { count, spread, is_calm, excess }
    }

    /// How many independent values `count` values of this series are worth.
    pub(crate) fn effective_of(&self, count: f64) -> f64 {
        count / self.excess.unwrap_or(1.0)
    }

    /// Dependent values need more effective ones than independent values do.
    fn is_short_of(&self, needed: f64) -> bool {
        let least =
            if self.is_calm { rule::LEAST_EFFECTIVE_OF_CALM } else { rule::LEAST_EFFECTIVE };
        let needed = needed.max(least);
        self.excess.is_some() && self.effective_of(self.count) < needed
    }

    fn inflation(&self, scatter: &BlockScatter) -> f64 {
        if self.excess.is_some() { scatter.inflation() } else { 1.0 }
    }

    pub(crate) fn mean(&self, means: &[BlockPart]) -> ConfidenceInterval {
        let Some(scatter) = BlockScatter::of(&pairs(means)) else {
            return ConfidenceInterval::default();
        };
        // Skewed values are no reason to refuse: runs that happened to see few large values look the
        // least skewed, and would be the ones that answer.
        if self.is_short_of(0.0) {
            return ConfidenceInterval::Unknown(NoInterval::TooShort);
        }
        let error = scatter.error(self.inflation(&scatter), self.spread.variance / self.count);
        let effective = self.effective_of(self.count);
        let far = error.reach(self.spread.skewness, effective)
            + self.spread.unseen(scatter.ratio, effective);
        let reach = if self.is_calm { 0.0 } else { far };
        ConfidenceInterval::Known {
            low: scatter.ratio - error.margin() + reach.min(0.0),
            high: scatter.ratio + error.margin() + reach.max(0.0),
        }
    }

    /// The interval of a percentile, as shares of the sorted values. `shares` are the numbers of
    /// values up to that percentile and of all values, by block.
    pub(crate) fn percentile(&self, percent: f64, shares: &[BlockPart]) -> ConfidenceInterval {
        let count: f64 = shares.iter().map(|part| part.weight).sum();
        let ranks = statistics::percentile_ranks(percent, nearest_count(count));
        let needed = statistics::needed_samples(percent);
        let Some(((low, high), needed)) = ranks.zip(needed) else {
            return ConfidenceInterval::default();
        };
        let too_short = ConfidenceInterval::Unknown(NoInterval::TooShort);
        // The median of calm values lies where their mean does.
        let is_mean_like = self.is_calm && (percent - 50.0).abs() < 1e-9;
        let needed = if is_mean_like { 0.0 } else { rule::DEPENDENT_FACTOR * needed as f64 };
        let Some(scatter) = BlockScatter::of(shares).filter(|_| !self.is_short_of(needed)) else {
            return too_short;
        };
        let last = (count - 1.0).max(1.0);
        let independent = (low as f64 / last, high as f64 / last);
        let share = percent / 100.0;
        // Values beyond a high percentile are few: what they do not show of the dependence, the
        // whole series does.
        let floor = share * (1.0 - share) / count * self.excess.unwrap_or(1.0).sqrt();
        let margin = scatter.error(self.inflation(&scatter), floor).margin();
        let (low, high) = (share - margin, share + margin);
        match (low < 0.0 || high > 1.0, self.excess) {
            (true, Some(_)) => too_short,
            (true, None) => ConfidenceInterval::Known { low: independent.0, high: independent.1 },
            (false, _) => ConfidenceInterval::Known {
                low: independent.0.min(low),
                high: independent.1.max(high),
            },
        }
    }
}

/// Whether the values are enough for a percentile: in number, and if those beyond it did not come in a
/// few moments. `shares` as in [`Dependence::percentile`].
pub(crate) fn supports(percent: f64, shares: &[BlockPart]) -> bool {
    let Some(needed) = statistics::needed_samples(percent) else { return false };
    let count: f64 = shares.iter().map(|part| part.weight).sum();
    let share = percent / 100.0;
    let dependence =
        |scatter: BlockScatter| scatter.dependence(share * (1.0 - share), rule::CERTAIN_DEVIATIONS);
    let excess = BlockScatter::of(shares).and_then(dependence).unwrap_or(1.0);
    let beyond = count / excess * share.min(1.0 - share);
    count >= needed as f64 && beyond >= rule::LEAST_BEYOND
}

/// The interval of a rate from amounts and seconds by block. The blocks may leave out parts of the run,
/// such as its drain, so their scatter is taken as a share and put around `rate`.
pub(crate) fn rate(blocks: &[BlockPart], rate: f64) -> ConfidenceInterval {
    let Some(scatter) = BlockScatter::of(blocks).filter(|scatter| scatter.ratio > 0.0) else {
        return ConfidenceInterval::Unknown(NoInterval::TooShort);
    };
    let margin = scatter.error(scatter.inflation(), 0.0).margin() / scatter.ratio * rate;
    ConfidenceInterval::Known { low: (rate - margin).max(0.0), high: rate + margin }
}

/// The interval of a share of so many requests, from good ones and all of them by block: Wilson's, of as
/// many independent requests as these are worth.
pub(crate) fn share(blocks: &[BlockPart], share: f64, count: f64) -> ConfidenceInterval {
    let excess = BlockScatter::of(blocks)
        .and_then(|scatter| scatter.dependence(share * (1.0 - share), rule::DEVIATIONS));
    let effective = count / excess.unwrap_or(1.0);
    if excess.is_some() && effective < rule::LEAST_EFFECTIVE {
        return ConfidenceInterval::Unknown(NoInterval::TooShort);
    }
    let (low, high) = statistics::share_interval(share, effective);
    ConfidenceInterval::Known { low, high }
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
