//! Estimates the difference between A and B, its certainty, and the smallest difference that the data
//! can detect.
//!
//! In: values of one metric, one per run (or per block of time within single runs, or per pair of
//! blocks). Out: the difference with its confidence interval, the smallest detectable difference, and
//! a conclusion. Values of runs are independent; values of blocks nearly so, and they do not show the
//! scatter between runs.

use serde::{Deserialize, Serialize};
use tokometer_figures::{Better, interval, statistics};

/// Probability of detecting a true difference of the smallest detectable size.
const POWER: f64 = 0.8;
/// "No difference" is concluded only when a difference of this share of A would be detectable.
const USEFUL: f64 = 0.1;
/// The change that a comparison without a rule is asked about, as a share of A: it says how many runs
/// would detect it.
pub const LOOKED_FOR: f64 = 0.03;
/// A difference below this share of A prints as 0.0 % and counts as none, however small the scatter.
const TINY: f64 = 5e-4;
/// No comparison is advised of more runs than this: nobody would make them.
const MOST_UNITS: usize = 10_000;

/// The largest difference that counts as none, as a share of A.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Equivalence(pub f64);

impl Default for Equivalence {
    fn default() -> Self {
        Self(0.01)
    }
}

/// Where the values of a comparison come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// One value per run.
    Runs,
    /// One value per block of time within single runs: weak evidence.
    Blocks,
    /// Differences of neighbouring blocks of an A/B run.
    Pairs,
}

/// The result of a comparison for one figure, at 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    Better,
    Worse,
    /// B differs, but by no more than the margin of [`Equivalence`].
    Negligible,
    /// No difference was found, and a relevant one would probably have been.
    NoDifferenceShown,
    /// No difference was found, but these data could hardly have shown one.
    CannotTell,
}

/// The difference of B from A in one metric. Shares are relative to A.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Mean of A.
    pub a: f64,
    /// Mean of B.
    pub b: f64,
    /// B minus A, as a share of A.
    pub change: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    pub high: f64,
    /// The smallest change, as a share of A, that would be detected with 80 % probability.
    pub detectable: f64,
    pub basis: Basis,
    /// Independent values per side (the fewer of both), or of pairs.
    pub units: usize,
    /// Pairs that one value is made of: a percentile takes several small blocks, and two pairs share the
    /// processes of a restarted server. 1 for runs and blocks.
    #[serde(skip)]
    pub pairs_per_unit: usize,
    /// From the interval and the detectable change.
    pub conclusion: Conclusion,
    #[serde(skip)]
    better: Better,
}

/// A difference of means, its standard error and degrees of freedom.
struct Estimate {
    a: f64,
    b: f64,
    error: f64,
    freedom: f64,
    units: usize,
}

/// How a difference is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DifferenceRule {
    pub basis: Basis,
    pub better: Better,
    pub equivalence: Equivalence,
}

/// Compares two independent samples (Welch). `None` for fewer than two values on a side, or a mean of
/// zero in A.
pub fn unpaired(a: &[f64], b: &[f64], judgement: DifferenceRule) -> Option<Difference> {
    conclude(&estimate(a, b, judgement)?, judgement)
}

/// Compares the values of whole runs, as (A, B), by the scatter of their blocks.
pub(super) fn of_blocks(
    a: &[f64],
    b: &[f64],
    whole: (f64, f64),
    judgement: DifferenceRule,
) -> Option<Difference> {
    let blocks = estimate(a, b, judgement)?;
    conclude(&Estimate { a: whole.0, b: whole.1, ..blocks }, judgement)
}

fn estimate(a: &[f64], b: &[f64], judgement: DifferenceRule) -> Option<Estimate> {
    let part = |values: &[f64]| {
        let count = values.len() as f64;
        // Blocks of one run follow each other, and are worth fewer independent ones.
        let inflation =
            if judgement.basis == Basis::Blocks { interval::inflation(values) } else { 1.0 };
        let variance = statistics::variance(values)? / count * inflation;
        Some((statistics::mean(values)?, variance, ((count - 1.0) / inflation).max(1.0)))
    };
    let ((a_mean, a_part, a_freedom), (b_mean, b_part, b_freedom)) = (part(a)?, part(b)?);
    let sum = a_part + b_part;
    let below = a_part.powi(2) / a_freedom + b_part.powi(2) / b_freedom;
    let freedom = if below > 0.0 { sum.powi(2) / below } else { a_freedom + b_freedom };
    let units = a.len().min(b.len());
    Some(Estimate { a: a_mean, b: b_mean, error: sum.sqrt(), freedom, units })
}

/// Compares values measured in pairs, so that drift cancels. `None` for fewer than two pairs.
pub fn paired(pairs: &[(f64, f64)], judgement: DifferenceRule) -> Option<Difference> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let count = pairs.len() as f64;
    let error = (statistics::variance(&differences)? / count).sqrt();
    let a = pairs.iter().map(|(a, _)| a).sum::<f64>() / count;
    let b = pairs.iter().map(|(_, b)| b).sum::<f64>() / count;
    let units = pairs.len();
    conclude(&Estimate { a, b, error, freedom: count - 1.0, units }, judgement)
}

fn conclude(estimate: &Estimate, judgement: DifferenceRule) -> Option<Difference> {
    let Estimate { a, b, error, freedom, units } = *estimate;
    let DifferenceRule { basis, better, equivalence: Equivalence(margin_of_none) } = judgement;
    let scale = a.abs();
    // A percentile may lie among failed requests.
    if scale <= 0.0 || ![a, b, error].iter().all(|value| value.is_finite()) {
        return None;
    }
    let t = statistics::student_quantile(0.975, freedom);
    let (change, margin) = ((b - a) / scale, t * error / scale);
    let (low, high) = (change - margin, change + margin);
    let detectable = (t + statistics::student_quantile(POWER, freedom)) * error / scale;
    let is_some = change.abs() >= TINY;
    let is_small = low >= -margin_of_none && high <= margin_of_none;
    let conclusion = match (is_some && low > 0.0, is_some && high < 0.0, better) {
        (true, ..) | (_, true, _) if is_small => Conclusion::Negligible,
        (true, _, Better::Higher) | (_, true, Better::Lower) => Conclusion::Better,
        (true, _, Better::Lower) | (_, true, Better::Higher) => Conclusion::Worse,
        _ if detectable <= USEFUL => Conclusion::NoDifferenceShown,
        _ => Conclusion::CannotTell,
    };
    Some(Difference {
        a,
        b,
        change,
        low,
        high,
        detectable,
        basis,
        units,
        pairs_per_unit: 1,
        conclusion,
        better,
    })
}

impl Difference {
    /// Whether the interval shows that B is worse, and the estimate is at least `share` of A. A share of
    /// zero asks for any loss that is not negligible.
    pub fn is_worse_by(&self, share: f64) -> bool {
        let is_shown = match self.conclusion {
            Conclusion::Worse => true,
            // Negligible by the equivalence margin, unless the rule names a smaller share.
            Conclusion::Negligible => share > 0.0 && self.loss() > 0.0,
            _ => false,
        };
        is_shown && self.loss() >= share
    }

    /// The same, where each value was made of so many pairs.
    #[must_use]
    pub(super) fn of_joined_pairs(self, pairs_per_unit: usize) -> Self {
        Self { pairs_per_unit, ..self }
    }

    /// The loss from A to B, as a share of A; negative where B is better.
    fn loss(&self) -> f64 {
        match self.better {
            Better::Higher => -self.change,
            Better::Lower => self.change,
        }
    }

    /// The largest loss from A to B that the interval does not exclude, as a share of A; negative
    /// where B is better at least.
    pub fn largest_loss(&self) -> f64 {
        match self.better {
            Better::Higher => -self.low,
            Better::Lower => self.high,
        }
    }

    /// Values per side, or of pairs, that would detect a change of `share` four times in five if they
    /// scatter as these do. `None` beyond what anybody would measure.
    pub(super) fn values_needed(&self, share: f64) -> Option<usize> {
        let quantiles = |units: usize| {
            let sides = if self.basis == Basis::Pairs { 1.0 } else { 2.0 };
            let freedom = sides * (units as f64 - 1.0);
            statistics::student_quantile(0.975, freedom)
                + statistics::student_quantile(POWER, freedom)
        };
        let error = self.detectable / quantiles(self.units);
        let detectable =
            |units: usize| quantiles(units) * error * (self.units as f64 / units as f64).sqrt();
        // Not a last digit more than these have.
        let is_enough = |units: usize| detectable(units) <= share * (1.0 + 1e-9);
        if share <= 0.0 || !is_enough(MOST_UNITS) {
            return None;
        }
        // More values only detect smaller changes.
        let (mut too_few, mut enough) = (1, MOST_UNITS);
        while enough - too_few > 1 {
            let middle = usize::midpoint(too_few, enough);
            if is_enough(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(basis: Basis, better: Better) -> DifferenceRule {
        DifferenceRule { basis, better, equivalence: Equivalence::default() }
    }

    const RUNS: DifferenceRule = DifferenceRule {
        basis: Basis::Runs,
        better: Better::Lower,
        equivalence: Equivalence(0.01),
    };

    /// Means 10 and 12, variance 1 each, three runs: error 0.8165, t(4) = 2.776.
    #[test]
    fn welch_agrees_with_a_calculation_by_hand() {
        let found = unpaired(&[9.0, 10.0, 11.0], &[11.0, 12.0, 13.0], RUNS).unwrap();
        assert!((found.change - 0.2).abs() < 1e-12);
        assert!((found.low - (0.2 - 0.22666)).abs() < 1e-4, "{}", found.low);
        assert!((found.high - (0.2 + 0.22666)).abs() < 1e-4);
        assert_eq!(found.conclusion, Conclusion::CannotTell);
    }

    /// The side that scatters decides: three values of it have two degrees of freedom, t(2) = 4.303.
    #[test]
    fn a_side_without_scatter_adds_no_freedom() {
        let found = unpaired(&[99.9, 100.0, 100.1], &[100.0, 110.0, 120.0], RUNS).unwrap();
        assert!((found.high - found.low - 2.0 * 0.2484).abs() < 1e-3, "{found:?}");
    }

    /// Differences 1, 2 and 3: error 0.577, t(2) = 4.303. With a quarter of the change that three pairs
    /// detect, 16 are needed: (t + p) · √(3 / 16) is a quarter of (t + p) of three.
    #[test]
    fn pairs_have_one_freedom_less_than_their_number() {
        let pairs = [(10.0, 11.0), (10.0, 12.0), (10.0, 13.0)];
        let found = paired(&pairs, judgement(Basis::Pairs, Better::Lower)).unwrap();
        assert!((found.high - found.low - 2.0 * 0.24841).abs() < 1e-3, "{found:?}");
        assert_eq!(found.values_needed(found.detectable / 4.0), Some(16));
    }

    /// Equal sides with a scatter of 5 % would detect 15 %, not the tenth that "no difference" asks for.
    #[test]
    fn no_difference_is_found_only_where_a_tenth_would_be_seen() {
        let side = [10.0, 10.5, 9.5];
        let found = unpaired(&side, &side, RUNS).unwrap();
        assert!((found.detectable - 0.152).abs() < 1e-3, "{found:?}");
        assert_eq!(found.conclusion, Conclusion::CannotTell);
    }

    #[test]
    fn a_clear_change_is_better_or_worse_by_the_metrics_own_sense() {
        let (a, b) = ([10.0, 10.1, 9.9], [12.0, 12.1, 11.9]);
        let check = |better: Better, expected: Conclusion| {
            let found = unpaired(&a, &b, judgement(Basis::Runs, better)).unwrap();
            assert_eq!(found.conclusion, expected);
            assert_eq!(found.is_worse_by(0.05), expected == Conclusion::Worse);
            assert!(!found.is_worse_by(0.5));
        };
        check(Better::Lower, Conclusion::Worse);
        check(Better::Higher, Conclusion::Better);
    }

    /// The mean of the medians of blocks stood beside the median that `report` prints: 39.03 and 33.11.
    #[test]
    fn blocks_give_the_interval_and_the_runs_the_values() {
        let judgement = judgement(Basis::Blocks, Better::Lower);
        let (a, b) = ([39.0, 40.0, 38.0, 39.5], [44.0, 45.0, 43.0, 44.5]);
        let blocks = unpaired(&a, &b, judgement).unwrap();
        let found = of_blocks(&a, &b, (33.0, 36.0), judgement).unwrap();
        assert_eq!((found.a, found.b), (33.0, 36.0));
        assert!((found.change - 3.0 / 33.0).abs() < 1e-12);
        let width = |found: &Difference| (found.high - found.low) * found.a;
        assert!((width(&found) - width(&blocks)).abs() < 1e-9, "{found:?}");
        assert_eq!(of_blocks(&a, &b, (33.0, f64::INFINITY), judgement), None);
    }

    /// Two runs whose blocks had no scatter were reported as "worse by 0.0 %".
    #[test]
    fn a_difference_that_prints_as_nothing_is_none() {
        let found = unpaired(&[10.0, 10.0], &[10.001, 10.001], RUNS);
        assert_eq!(found.unwrap().conclusion, Conclusion::NoDifferenceShown);
    }

    /// Two runs of one server, the second during a slow minute: blocks that follow each other are few
    /// observations, however many they are. As independent blocks they showed a difference.
    #[test]
    fn blocks_that_follow_each_other_are_weaker_evidence() {
        let wave = |phase: f64| -> Vec<f64> {
            (0..16_u32).map(|at| 10.0 + (f64::from(at) / 5.0 + phase).sin()).collect()
        };
        let (a, b) = (wave(0.0), wave(2.0));
        let found = |basis: Basis| unpaired(&a, &b, judgement(basis, Better::Lower)).unwrap();
        assert_ne!(found(Basis::Runs).conclusion, Conclusion::CannotTell);
        assert_eq!(found(Basis::Blocks).conclusion, Conclusion::CannotTell);
    }

    #[test]
    fn equal_and_quiet_runs_show_that_there_is_no_difference() {
        let (a, b) = ([10.0, 10.1, 9.9, 10.0], [10.05, 9.95, 10.0, 10.0]);
        let found = unpaired(&a, &b, RUNS).unwrap();
        assert_eq!(found.conclusion, Conclusion::NoDifferenceShown);
        assert!(found.detectable < 0.05);
    }

    #[test]
    fn pairs_find_what_drift_would_hide() {
        let pairs: Vec<(f64, f64)> = (0..8)
            .map(|block| {
                let drift = 100.0 + 10.0 * f64::from(block);
                (drift, drift * 1.03 + 0.1 * f64::from(block % 2))
            })
            .collect();
        let paired = paired(&pairs, judgement(Basis::Pairs, Better::Lower)).unwrap();
        assert_eq!(paired.conclusion, Conclusion::Worse);
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let unpaired = unpaired(&a, &b, judgement(Basis::Blocks, Better::Lower)).unwrap();
        assert_eq!(unpaired.conclusion, Conclusion::CannotTell);
    }

    #[test]
    fn a_single_run_on_a_side_compares_with_nothing() {
        assert_eq!(unpaired(&[1.0], &[2.0, 3.0], RUNS), None);
        assert_eq!(unpaired(&[0.0, 0.0], &[1.0, 1.0], RUNS), None);
    }

    /// Two processes of one program differ by a tenth of a percent, which a quiet machine shows.
    #[test]
    fn a_difference_within_the_margin_is_negligible_and_one_that_may_exceed_it_is_not() {
        let check = |b: f64, scatter: f64, equivalence: f64, expected: Conclusion| {
            let values = |mean: f64| [mean, mean * (1.0 + scatter), mean * (1.0 - scatter)];
            let judgement = DifferenceRule { equivalence: Equivalence(equivalence), ..RUNS };
            let found = unpaired(&values(100.0), &values(b), judgement).unwrap();
            assert_eq!(found.conclusion, expected, "{found:?}");
        };
        check(100.3, 0.0005, 0.01, Conclusion::Negligible);
        check(99.7, 0.0005, 0.01, Conclusion::Negligible);
        check(100.9, 0.0005, 0.01, Conclusion::Worse);
        check(99.1, 0.0005, 0.01, Conclusion::Better);
        check(100.3, 0.0005, 0.0, Conclusion::Worse);
        check(100.0, 0.0005, 0.01, Conclusion::NoDifferenceShown);
    }

    #[test]
    fn the_runs_that_a_change_needs_follow_from_the_scatter() {
        let found = unpaired(&[100.0, 104.0, 96.0], &[101.0, 105.0, 97.0], RUNS).unwrap();
        let needed = found.values_needed(0.05).unwrap();
        // By hand: with 4 % of scatter, (t + p) · 4 % · √(2/n) is 5.0 % at 12 or 13 runs.
        assert!((11..=14).contains(&needed), "{needed}");
        assert_eq!(found.values_needed(found.detectable), Some(3));
        assert_eq!(found.values_needed(0.0), None);
        assert_eq!(found.values_needed(1e-5), None, "nobody makes so many runs");
        assert!((found.largest_loss() - found.high).abs() < 1e-12);
        let speed =
            unpaired(&[100.0, 104.0], &[90.0, 94.0], judgement(Basis::Runs, Better::Higher));
        let speed = speed.unwrap();
        assert!((speed.largest_loss() + speed.low).abs() < 1e-12);
    }
}
