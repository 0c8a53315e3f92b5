//! Statistics of plain numbers: percentiles, confidence intervals, trends.
//!
//! Percentiles interpolate linearly between ranks, as numpy does. Intervals are two-sided at 95 %.
//! Functions return `None` where the data are not sufficient.

use statrs::function::beta::beta_reg;

/// Probability that an interval misses its value on one side.
const TAIL: f64 = 0.025;

/// Position of a percentile in a sorted list: between the values at `low` and `low + 1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// Index of the value at or below it.
    pub low: u64,
    /// Position between the two values, from 0 to 1.
    pub fraction: f64,
}

/// The position of `percent` (0 to 100) among `count` values. `None` for an empty list.
pub fn rank(percent: f64, count: u64) -> Option<Rank> {
    let last = count.checked_sub(1)?;
    let rank = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
    let low = whole(rank.floor()).min(last);
    Some(Rank { low, fraction: rank - low as f64 })
}

/// Interpolates between `low` and `high`. A step to infinity is not interpolated.
pub fn between(low: f64, high: f64, fraction: f64) -> f64 {
    if fraction <= 0.0 || low.to_bits() == high.to_bits() {
        return low;
    }
    low + (high - low) * fraction
}

/// Percentile of an ascending list. `None` for an empty one.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = rank(percent, sorted.len() as u64)?;
    let low = usize::try_from(rank.low).ok()?;
    let high = sorted.get(low + 1).copied().unwrap_or(sorted[low]);
    Some(between(sorted[low], high, rank.fraction))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float to integer casts saturate, and ranks are not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Smallest k for which at most k successes in `trials` have at least the probability `level`.
fn binomial_quantile(trials: u64, chance: f64, level: f64) -> u64 {
    let n = trials as f64;
    let (mean, deviation) = (n * chance, (n * chance * (1.0 - chance)).sqrt());
    // What lies twelve deviations away cannot reach any level that is asked for here. Beyond 10^13
    // trials the masses are rounded to nothing, and the sum would never reach the level.
    let mut k = whole((mean - 12.0 * deviation - 2.0).max(0.0).floor());
    let last = whole(mean + 12.0 * deviation + 2.0).min(trials);
    let log_choose =
        |k: f64| libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let mut probability = 0.0;
    while k < last {
        let successes = k as f64;
        let log_mass = log_choose(successes)
            + successes * chance.ln()
            + (n - successes) * libm::log1p(-chance);
        probability += log_mass.exp();
        if probability >= level {
            return k;
        }
        k += 1;
    }
    last
}

/// Indexes of the two order statistics that enclose a percentile with 95 % confidence, for any
/// distribution. `None` when the sample is too small: P99 needs 368 values, P99.9 needs 3,688.
pub fn percentile_ranks(percent: f64, count: u64) -> Option<(u64, u64)> {
    let share = percent / 100.0;
    if count == 0 || share <= 0.0 || share >= 1.0 {
        return None;
    }
    let low = binomial_quantile(count, share, TAIL);
    let high = binomial_quantile(count, share, 1.0 - TAIL);
    (low >= 1 && high < count).then(|| (low - 1, high))
}

/// The smallest sample for which a percentile has a two-sided 95 % interval.
pub fn needed_samples(percent: f64) -> Option<u64> {
    let share = percent / 100.0;
    if share <= 0.0 || share >= 1.0 {
        return None;
    }
    let edge = share.max(1.0 - share);
    Some(whole((TAIL.ln() / edge.ln()).ceil()))
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample variance (n − 1 below the line). `None` for fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    Some(values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / freedom as f64)
}

/// The 95 % confidence interval of a share of `count` independent values, after Wilson.
pub fn share_interval(share: f64, count: f64) -> (f64, f64) {
    const NORMAL: f64 = 1.959_964;
    let square = NORMAL.powi(2) / count;
    let middle = (share + square / 2.0) / (1.0 + square);
    let variance = share * (1.0 - share) / count + square / (4.0 * count);
    let margin = NORMAL * variance.sqrt() / (1.0 + square);
    ((middle - margin).max(0.0), (middle + margin).min(1.0))
}

/// Half the width of the 95 % confidence interval of the mean of independent values.
pub fn mean_margin(values: &[f64]) -> Option<f64> {
    let deviation = variance(values)?.sqrt();
    let freedom = values.len() as f64 - 1.0;
    Some(student_quantile(1.0 - TAIL, freedom) * deviation / (values.len() as f64).sqrt())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    pub per_x: f64,
    /// Probability of a slope at least as steep without a trend.
    pub p_value: f64,
}

/// Least squares through (x, y). `None` for fewer than three points or a single x.
pub fn slope(points: &[(f64, f64)]) -> Option<Slope> {
    if points.len() < 3 {
        return None;
    }
    let n = points.len() as f64;
    let (x_mean, y_mean) = (
        points.iter().map(|(x, _)| x).sum::<f64>() / n,
        points.iter().map(|(_, y)| y).sum::<f64>() / n,
    );
    let x_spread: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    if x_spread <= 0.0 {
        return None;
    }
    let per_x = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum::<f64>() / x_spread;
    let residual: f64 =
        points.iter().map(|(x, y)| (y - y_mean - per_x * (x - x_mean)).powi(2)).sum();
    let error = (residual / (n - 2.0) / x_spread).sqrt();
    let p_value = match (error > 0.0, per_x.abs() > 0.0) {
        (true, _) => student_two_sided(per_x / error, n - 2.0),
        (false, true) => 0.0,
        (false, false) => 1.0,
    };
    Some(Slope { per_x, p_value })
}

/// Probability of a Student t at least as far from zero as `t`.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The largest quantile that is looked for: beyond it there is no useful interval.
const MOST_QUANTILE: f64 = 1e3;

/// The quantile of Student's t for a probability `level` above one half. The inverse in `statrs` is off
/// by 1e-4 at a million degrees of freedom.
///
/// Newton's method: right of zero the distribution is concave, so its steps never pass the quantile
/// from below, and one that lands outside of what is known is replaced by bisection.
pub fn student_quantile(level: f64, freedom: f64) -> f64 {
    let half = f64::midpoint(freedom, 1.0);
    let log_scale = libm::lgamma(half)
        - libm::lgamma(freedom / 2.0)
        - 0.5 * libm::log(freedom * std::f64::consts::PI);
    let density = |t: f64| libm::exp(log_scale - half * libm::log1p(t * t / freedom));
    let (mut low, mut high) = (0.0, MOST_QUANTILE);
    let mut at = 1.0;
    for _ in 0..100 {
        let missing = level - (1.0 - student_two_sided(at, freedom) / 2.0);
        if missing > 0.0 {
            low = at;
        } else {
            high = at;
        }
        let step = at + missing / density(at);
        let next = if low < step && step < high { step } else { f64::midpoint(low, high) };
        let is_found = (next - at).abs() <= 1e-12 * at;
        at = next;
        if is_found {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }

    #[test]
    fn percentiles_interpolate_between_ranks() {
        let check = |values: &[f64], percent: f64, expected: f64| {
            near(percentile(values, percent).unwrap(), expected, 1e-12);
        };
        check(&[7.0], 99.0, 7.0);
        check(&[1.0, 2.0], 50.0, 1.5);
        check(&[1.0, 2.0, 3.0, 4.0], 75.0, 3.25);
        check(&[1.0, 2.0, 3.0, 4.0], 0.0, 1.0);
        check(&[1.0, 2.0, 3.0, 4.0], 100.0, 4.0);
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&[1.0, f64::INFINITY], 50.0), Some(f64::INFINITY));
        assert_eq!(percentile(&[f64::INFINITY, f64::INFINITY], 50.0), Some(f64::INFINITY));
    }

    #[test]
    fn a_percentile_has_an_interval_only_from_its_smallest_sample_on() {
        let check = |percent: f64, needed: u64| {
            assert_eq!(needed_samples(percent), Some(needed));
            assert_eq!(percentile_ranks(percent, needed - 1), None, "P{percent}");
            assert!(percentile_ranks(percent, needed).is_some(), "P{percent}");
        };
        check(50.0, 6);
        check(90.0, 36);
        check(95.0, 72);
        check(99.0, 368);
        check(99.9, 3_688);
        check(1.0, 368);
        assert_eq!(needed_samples(100.0), None);
    }

    /// P(2 ≤ B < 9) of a binomial (10, 1/2) is 0.9785, and the next narrower pair has 0.891.
    #[test]
    fn order_statistics_enclose_the_median_as_tables_say() {
        assert_eq!(percentile_ranks(50.0, 10), Some((1, 8)));
        // For 1,000,000 values the interval is very close to the normal approximation.
        let (low, high) = percentile_ranks(50.0, 1_000_000).unwrap();
        near(low as f64, 500_000.0 - 980.0, 2.0);
        near(high as f64, 500_000.0 + 980.0, 2.0);
    }

    #[test]
    fn students_distribution_agrees_with_tables() {
        near(student_quantile(0.975, 1.0), 12.706, 1e-3);
        near(student_quantile(0.975, 10.0), 2.228, 1e-3);
        near(student_quantile(0.975, 1e6), 1.960, 1e-3);
        near(student_two_sided(2.228, 10.0), 0.05, 1e-4);
        near(student_two_sided(0.0, 5.0), 1.0, 1e-12);
    }

    #[test]
    fn a_quantile_has_its_probability_whatever_the_degrees_of_freedom() {
        for freedom in [0.9, 1.0, 2.5, 3.0, 14.0, 400.0, 19_998.0, 1e6] {
            for level in [0.55, 0.8, 0.975, 0.995] {
                let beyond = student_two_sided(student_quantile(level, freedom), freedom);
                near(beyond, 2.0 * (1.0 - level), 1e-8);
            }
        }
        near(student_quantile(0.8, 3.0), 0.978_472_312_363, 1e-9);
        near(student_quantile(0.975, 1.0), 12.706_204_736_175, 1e-9);
        near(student_quantile(0.975, 0.1), MOST_QUANTILE, 1e-6);
    }

    #[test]
    fn a_slope_is_found_and_its_absence_too() {
        let rising: Vec<_> = (0..20).map(|i| (f64::from(i), 3.0 + 2.0 * f64::from(i))).collect();
        let found = slope(&rising).unwrap();
        near(found.per_x, 2.0, 1e-9);
        assert!(found.p_value < 1e-9);
        let flat: Vec<_> = (0..20).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        assert!(slope(&flat).unwrap().p_value > 0.5);
        let constant: Vec<_> = (0..5).map(|i| (f64::from(i), 1.0)).collect();
        near(slope(&constant).unwrap().p_value, 1.0, 0.0);
        assert_eq!(slope(&flat[..2]), None);
    }

    #[test]
    fn the_margin_of_a_mean_uses_students_t() {
        // Mean 3, sample deviation sqrt(2.5), t(4) = 2.776.
        near(mean_margin(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap(), 1.963, 1e-3);
        assert_eq!(mean_margin(&[1.0]), None);
    }
}
