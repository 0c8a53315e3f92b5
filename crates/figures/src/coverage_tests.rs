//! How often stated intervals contain the truth, in runs of a simulated queue.
//!
//! The small version of `cargo lab coverage`: the bounds are wide, because the runs are few, but
//! intervals that take requests for independent fail them.

use tokometer_base::seed::unit_float;
use tokometer_base::{Nanos, Seed};

use crate::interval::{ConfidenceInterval, NoInterval};
use crate::series::{DistributionView, TimedValues};
use crate::statistics;
use crate::summary::Distribution;

const RUNS: u64 = 100;
const REQUESTS: u64 = 1_000;

/// Send times and times to first token of one run: so many servers with one queue, busy for `load` of the
/// time.
fn queue_of(servers: usize, load: f64, seed: u64) -> Vec<(Nanos, f64)> {
    let mut generator = Seed(seed).stream("queue").at(0);
    let mut drawn = || -unit_float(&mut generator).max(1e-12).ln();
    let (mut now, mut free) = (0.0_f64, vec![0.0_f64; servers]);
    (0..REQUESTS)
        .map(|_| {
            now += drawn() / load / servers as f64;
            let next = free.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let begin = now.max(*next);
            *next = begin + f64::midpoint(drawn(), drawn());
            (Nanos::from_secs_f64(now), begin - now + 0.5)
        })
        .collect()
}

fn queue(load: f64, seed: u64) -> Vec<(Nanos, f64)> {
    queue_of(1, load, seed)
}

fn distribution(run: &[(Nanos, f64)]) -> Distribution {
    let mut series = TimedValues::default();
    for (at, value) in run {
        series.add(*at, *value, 1);
    }
    let view =
        DistributionView { percentiles: &[99.0], unit: 1.0, longest_wait: 0.0, no_interval: None };
    series.into_distribution(view)
}

/// The values of a run in ascending order.
fn sorted<'a>(runs: impl IntoIterator<Item = &'a (Nanos, f64)>) -> Vec<f64> {
    let mut values: Vec<f64> = runs.into_iter().map(|(_, value)| *value).collect();
    tokometer_base::sort_numbers(&mut values);
    values
}

/// Runs whose interval contains `truth`, of those that state one.
fn held(intervals: &[Option<(f64, f64)>], truth: f64) -> (usize, usize) {
    let stated: Vec<&(f64, f64)> = intervals.iter().flatten().collect();
    (stated.iter().filter(|(low, high)| *low <= truth && truth <= *high).count(), stated.len())
}

#[test]
fn intervals_of_a_loaded_queue_contain_the_truth() {
    let runs: Vec<_> = (0..RUNS).map(|seed| queue(0.6, seed)).collect();
    let found: Vec<Distribution> = runs.iter().map(|run| distribution(run)).collect();
    let all = sorted(runs.iter().flatten());
    let median = statistics::percentile(&all, 50.0).unwrap();

    let ours: Vec<_> =
        found.iter().map(|one| one.percentile(50.0).unwrap().interval.ends()).collect();
    let (held_by_ours, stated) = held(&ours, median);
    assert!(stated > 90 && held_by_ours * 100 >= stated * 90, "p50: {held_by_ours} of {stated}");
    let (held_by_ours, stated) =
        held(&found.iter().map(|one| one.mean_interval.ends()).collect::<Vec<_>>(), mean(&all));
    // A rule that refused runs with skewed values let 53 of 100 runs answer, and 87 % of them held.
    assert!(stated > 90 && held_by_ours * 100 >= stated * 90, "mean: {held_by_ours} of {stated}");

    // Order statistics of independent values, as before: these bounds would fail them.
    let (low, high) = statistics::percentile_ranks(50.0, REQUESTS).unwrap();
    let [low, high] = [low, high].map(|rank| usize::try_from(rank).unwrap());
    let independent: Vec<_> =
        runs.iter().map(sorted).map(|values| Some((values[low], values[high]))).collect();
    let (held_by_independent, stated) = held(&independent, median);
    assert!(held_by_independent * 100 < stated * 75, "{held_by_independent} of {stated}");
}

fn mean(values: &[f64]) -> f64 {
    statistics::mean(values).unwrap()
}

/// With eight servers a request seldom waits. A run that saw no long queue has a low mean and little
/// scatter, so an interval from the scatter alone ended below the truth in 9 of 100 such runs.
#[test]
fn rare_long_queues_that_a_run_did_not_see_are_inside_its_interval() {
    let runs: Vec<_> = (0..RUNS).map(|seed| queue_of(8, 0.6, seed)).collect();
    let truth = mean(&sorted(runs.iter().flatten()));
    let found = runs.iter().map(|run| distribution(run).mean_interval.ends());
    let (held, stated) = held(&found.collect::<Vec<_>>(), truth);
    assert!(stated > 95 && held * 100 >= stated * 96, "{held} of {stated}");
}

#[test]
fn the_tail_of_a_queue_near_its_limit_says_that_the_run_is_too_short() {
    let too_short = |one: &Distribution| {
        one.percentile(99.0).unwrap().interval == ConfidenceInterval::Unknown(NoInterval::TooShort)
    };
    let count = (0..RUNS).filter(|seed| too_short(&distribution(&queue(0.9, *seed)))).count();
    assert!(count >= 95, "{count} of {RUNS}");
}
