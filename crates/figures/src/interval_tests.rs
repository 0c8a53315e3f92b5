//! Each threshold of the rule, in both directions.

use super::*;

/// Blocks of ten values around 10, above and below it in turn by `apart` each.
fn blocks(count: usize, apart: f64) -> Vec<BlockPart> {
    let side = |at: usize| if at.is_multiple_of(2) { apart } else { -apart };
    (0..count).map(|at| BlockPart { amount: 100.0 + side(at), weight: 10.0 }).collect()
}

const UNIT: Moments = Moments { variance: 1.0, skewness: 0.0, least: 9.0, most: 11.0 };

#[test]
fn fewer_than_eight_blocks_show_no_scatter() {
    assert!(BlockScatter::of(&blocks(7, 1.0)).is_none());
    assert!(BlockScatter::of(&blocks(8, 1.0)).is_some());
    let empty = vec![BlockPart { amount: 0.0, weight: 0.0 }; 5];
    assert!(BlockScatter::of(&[blocks(7, 1.0), empty].concat()).is_none(), "no weight");
}

/// 16 blocks scatter up to 1.67 times as much as independent values by chance, once in twenty runs.
#[test]
fn values_are_dependent_once_blocks_scatter_more_than_chance_allows() {
    let effective = |excess: f64| {
        // Ten values of variance 1 in each of 16 blocks.
        let apart = (excess / 0.106_667).sqrt();
        Dependence::of(&blocks(16, apart), UNIT).effective_of(160.0)
    };
    assert!((effective(1.5) - 160.0).abs() < 1e-9, "{}", effective(1.5));
    assert!((effective(2.0) - 80.0).abs() < 0.1, "{}", effective(2.0));
}

/// Four values of 400 lie beyond P99, in four neighbouring blocks: that happens by chance. All in one
/// block of 32 they are one moment.
#[test]
fn a_percentile_is_refused_only_where_chance_is_no_explanation() {
    let shares = |beyond: &[usize], count: usize| -> Vec<BlockPart> {
        let each = 400.0 / count as f64;
        let below = |at: usize| each - beyond.iter().filter(|one| **one == at).count() as f64;
        (0..count).map(|at| BlockPart { amount: below(at), weight: each }).collect()
    };
    assert!(supports(99.0, &shares(&[5, 6, 7, 8], 16)));
    assert!(!supports(99.0, &shares(&[5, 5, 5, 5], 32)));
    assert!(!supports(99.9, &shares(&[5], 16)), "400 are too few");
}

/// A series that follows itself closely is worth a fraction of its length, and has hardly any freedom.
#[test]
fn blocks_that_follow_each_other_widen_the_interval() {
    let wave: Vec<f64> = (0..32_u32).map(|at| 10.0 + (f64::from(at) / 6.0).sin()).collect();
    assert!(inflation(&wave) > 10.0, "{}", inflation(&wave));
    let turns: Vec<f64> = (0..32_u32).map(|at| 10.0 + f64::from(at % 2)).collect();
    assert!((inflation(&turns) - 1.0).abs() < 1e-9);
    let scatter = BlockScatter::of(&blocks(32, 1.0)).unwrap();
    let quantile = |inflation: f64| scatter.error(inflation, 0.0).quantile;
    assert!((quantile(1.0) - 2.04).abs() < 0.01, "31 degrees of freedom");
    assert!((quantile(3.1) - 2.228).abs() < 0.01, "10");
    assert!((quantile(19.0) - 3.182).abs() < 0.01, "3, however much they follow");
}

/// 160 values in 16 blocks, worth so many.
fn worth(effective: f64) -> (Dependence, Vec<BlockPart>) {
    let means = blocks(16, (160.0 / effective / 0.106_667).sqrt());
    (Dependence::of(&means, UNIT), means)
}

#[test]
fn dependent_values_need_twenty_effective_ones() {
    let interval = |effective: f64, skewness: f64| {
        let (_, means) = worth(effective);
        Dependence::of(&means, Moments { skewness, ..UNIT }).mean(&means).ends().is_some()
    };
    assert!(interval(21.0, 2.0) && !interval(19.0, 2.0));
    assert!(interval(2.1, 0.0) && !interval(1.9, 0.0), "calm values need no more than a trend has");
    assert!(is_long_enough(10.0) && !is_long_enough(9.9));
}

/// P90 takes 36 independent values, and twice as many effective ones where they depend on each other.
#[test]
fn a_percentile_of_dependent_values_needs_twice_the_sample() {
    let shares: Vec<BlockPart> = vec![BlockPart { amount: 9.0, weight: 10.0 }; 16];
    let interval = |effective: f64| worth(effective).0.percentile(90.0, &shares);
    assert!(interval(75.0).ends().is_some());
    let too_short = ConfidenceInterval::Unknown(NoInterval::TooShort);
    assert_eq!(interval(69.0), too_short);
}

/// Blocks that agree by chance do not make the interval narrower than that of independent values.
#[test]
fn an_interval_is_never_narrower_than_that_of_independent_values() {
    let means = blocks(16, 0.001);
    let (low, high) = Dependence::of(&means, UNIT).mean(&means).ends().unwrap();
    // 8 pairs of blocks: t(7) = 2.365; the variance of 160 values is 1.
    assert!((high - low - 2.0 * 2.365 / 160.0_f64.sqrt()).abs() < 1e-3, "{low} {high}");
    let shares = vec![BlockPart { amount: 9.0, weight: 10.0 }; 16];
    let (low, high) = Dependence::of(&means, UNIT).percentile(90.0, &shares).ends().unwrap();
    let ranks = statistics::percentile_ranks(90.0, 160).unwrap();
    assert!(low <= ranks.0 as f64 / 159.0 && high >= ranks.1 as f64 / 159.0, "{low} {high}");
}

/// Rare large values, of which a short run has seen few, may lie on the upper side only.
#[test]
fn the_interval_of_skewed_values_reaches_further_to_their_side() {
    let means = blocks(16, 1.0);
    let sides = |skewness: f64, most: f64| {
        let moments = Moments { skewness, most, ..UNIT };
        let (low, high) = Dependence::of(&means, moments).mean(&means).ends().unwrap();
        (10.0 - low, high - 10.0)
    };
    let (low, high) = sides(0.0, 11.0);
    assert!((low - high).abs() < 1e-9);
    // Hall's term alone, then with 3.7 values like the largest one among 160.
    let skewed = sides(2.0, 10.0);
    // 2 / (6 √160) · (2 · 2.365² + 1) standard errors of 1 / √160.
    assert!((skewed.0 - low).abs() < 1e-9, "{skewed:?}");
    assert!((skewed.1 - high - 0.0254).abs() < 1e-3, "{skewed:?}");
    let rare = sides(2.0, 30.0);
    assert!((rare.1 - skewed.1 - 3.69 / 160.0 * 20.0).abs() < 1e-6, "{rare:?} {skewed:?}");
}

/// The margin of a rate comes from its blocks, as a share, and knows how they follow each other.
#[test]
fn the_interval_of_a_rate_follows_its_blocks() {
    let seconds = |amounts: &dyn Fn(usize) -> f64| -> Vec<BlockPart> {
        (0..16).map(|at| BlockPart { amount: amounts(at), weight: 1.0 }).collect()
    };
    let margin = |blocks: &[BlockPart]| rate(blocks, 5.0).margin().unwrap();
    let turns = margin(&seconds(&|at| 10.0 + (at % 2) as f64));
    // Standard deviation 0.516 of 10.5 over 16 blocks, t(15) = 2.131, around a rate of 5.
    assert!((turns - 2.131 * 0.516_4 / 4.0 / 10.5 * 5.0).abs() < 1e-3, "{turns}");
    let halves = margin(&seconds(&|at| if at < 8 { 10.0 } else { 11.0 }));
    assert!(halves > 3.0 * turns, "{halves} {turns}");
    assert_eq!(rate(&seconds(&|_| 0.0), 5.0).ends(), None);
}

/// A short series shows less correlation than it has: by about one over its length.
#[test]
fn the_correlation_of_a_short_series_is_corrected() {
    // Two equal blocks in a row, then two others: the products of neighbours nearly cancel.
    let steps: Vec<f64> = (0..16_u32).map(|at| f64::from(10 + at / 2 % 2)).collect();
    let (seen, corrected) = (1.0 / 16.0, 2.0 / 16.0);
    let found = inflation(&steps);
    assert!((found - (1.0 + corrected) / (1.0 - corrected)).abs() < 0.05, "{found} {seen}");
}

/// The few values beyond a high percentile show less of the dependence than the whole series does.
#[test]
fn a_percentile_of_dependent_values_is_known_less_well_than_its_own_blocks_say() {
    let shares: Vec<BlockPart> = vec![BlockPart { amount: 5.0, weight: 10.0 }; 16];
    let width = |dependence: &Dependence| {
        let (low, high) = dependence.percentile(50.0, &shares).ends().unwrap();
        high - low
    };
    let independent = width(&Dependence::of(&blocks(16, 0.1), UNIT));
    let dependent = width(&worth(40.0).0);
    // Four times the variance of the mean counts with its root.
    assert!((dependent / independent - 2.0_f64.sqrt()).abs() < 0.15, "{dependent} {independent}");
}

/// An interval beyond all values says that the run is too short, unless its values are independent.
#[test]
fn an_interval_that_leaves_the_values_is_none() {
    let shares = |apart: f64| -> Vec<BlockPart> {
        let below = |at: usize| 9.0 + if at.is_multiple_of(2) { apart } else { -apart };
        (0..16).map(|at| BlockPart { amount: below(at), weight: 10.0 }).collect()
    };
    let too_short = ConfidenceInterval::Unknown(NoInterval::TooShort);
    assert_eq!(worth(79.0).0.percentile(90.0, &shares(4.0)), too_short);
    let independent = Dependence::of(&blocks(16, 0.1), UNIT).percentile(90.0, &shares(4.0));
    let ranks = statistics::percentile_ranks(90.0, 160).unwrap();
    assert_eq!(independent.ends().map(|(low, _)| low), Some(ranks.0 as f64 / 159.0));
}

/// The interval of a mean comes from pairs of blocks, which depend on each other less than blocks do.
#[test]
fn the_interval_of_a_mean_comes_from_pairs_of_blocks() {
    let odd = |at: usize| if (at / 2).is_multiple_of(2) { 3.0 } else { -3.0 };
    let means: Vec<BlockPart> =
        (0..16).map(|at| BlockPart { amount: 100.0 + odd(at), weight: 10.0 }).collect();
    let moments = Moments { variance: 10.0, ..UNIT };
    let (low, high) = Dependence::of(&means, moments).mean(&means).ends().unwrap();
    // Eight pairs of 200 ± 6 over 20 values each: standard error 0.113, t(7) = 2.365; of 160 independent
    // values of variance 10 it is 0.25.
    assert!((high - low - 2.0 * 2.365 * 0.25).abs() < 0.01, "{low} {high}");
}

/// By hand: Wilson's interval of 784 good requests of 800. With the bad ones in one block of sixteen, the
/// requests are worth far fewer.
#[test]
fn a_share_of_good_requests_depends_on_how_the_bad_ones_come() {
    let block = |good: f64| BlockPart { amount: good, weight: 50.0 };
    let even = [block(49.0); 16];
    let found = share(&even, 0.98, 800.0).ends().unwrap();
    assert!((found.0 - 0.967_76).abs() < 1e-4 && (found.1 - 0.987_65).abs() < 1e-4, "{found:?}");
    let mut burst = [block(50.0); 16];
    burst[7] = block(34.0);
    let burst = share(&burst, 0.98, 800.0).ends().unwrap();
    assert!(burst.0 < 0.93 && burst.1 < 1.0, "{burst:?}");
    let (low, high) = share(&[block(50.0); 16], 1.0, 800.0).ends().unwrap();
    assert!((low - 0.9952).abs() < 1e-4 && (high - 1.0).abs() < 1e-12, "none of them bad");
}
