//! How often stated intervals contain the truth, in runs of a simulated queue.
//!
//! The small version of `cargo lab coverage`: the bounds are wide, because the runs are few, but
//! intervals that take requests for independent fail them.

use tokometer_base::seed::unit_float;
use tokometer_base::{Nanos, Seed};

use crate::figure::Quantity;
use crate::interval::{self, ConfidenceInterval, NoInterval};
use crate::interval_gate::IntervalGate;
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

/// Send times and latencies in nanoseconds of one run against an engine whose steps serve all requests in flight
/// and take the longer the more they are, as a GPU's do: requests in flight at the same time are slow together.
#[derive(Default)]
struct EngineRun {
    ttft: Vec<(Nanos, f64)>,
    tpot: Vec<(Nanos, f64)>,
    e2e: Vec<(Nanos, f64)>,
}

/// Answers of 64 to 191 tokens. At 40 requests per second the engine is busy for 84 % of its capacity, with 170
/// in flight for 4 s each.
fn engine_run(rate: f64, seconds: f64, seed: u64) -> EngineRun {
    const STEP_S: f64 = 0.006;
    const STEP_S_PER_REQUEST: f64 = 0.000_16;
    let mut generator = Seed(seed).stream("engine").at(0);
    let mut drawn = || unit_float(&mut generator);
    let mut arrivals = Vec::new();
    let mut due = 0.0;
    while due < seconds {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 128")]
        let tokens = 64 + (128.0 * drawn()) as u64;
        arrivals.push((due, tokens));
        due -= drawn().max(1e-12).ln() / rate;
    }
    let mut run = EngineRun::default();
    // By the step after which it ends: send, first token, tokens.
    let mut flying: std::collections::BTreeMap<u64, Vec<(f64, f64, u64)>> =
        std::collections::BTreeMap::default();
    let (mut now, mut step, mut count, mut next) = (0.0_f64, 0_u64, 0_usize, 0);
    while next < arrivals.len() || count > 0 {
        if count == 0 {
            now = now.max(arrivals[next].0);
        }
        let begin = next;
        while next < arrivals.len() && arrivals[next].0 <= now {
            next += 1;
        }
        count += next - begin;
        now += STEP_S + STEP_S_PER_REQUEST * count as f64;
        for (sent, tokens) in &arrivals[begin..next] {
            flying.entry(step + tokens - 1).or_default().push((*sent, now, *tokens));
        }
        for (sent, first, tokens) in flying.remove(&step).into_iter().flatten() {
            let at = Nanos::from_secs_f64(sent);
            run.ttft.push((at, (first - sent) * 1e9));
            run.tpot.push((at, (now - first) / (tokens - 1) as f64 * 1e9));
            run.e2e.push((at, (now - sent) * 1e9));
            count -= 1;
        }
        step += 1;
    }
    run
}

/// Distributions as a summary has them.
fn judged(run: &EngineRun, seconds: f64) -> [Distribution; 3] {
    let stay = mean(&sorted(&run.e2e)) / 1e9;
    let stays = seconds / stay;
    let no_interval = (!interval::is_long_enough(stays)).then_some(NoInterval::TooShort);
    let mut gate = IntervalGate::new(Quantity::Ttft.key(), no_interval, Some(stays));
    [(Quantity::Ttft, &run.ttft), (Quantity::Tpot, &run.tpot), (Quantity::E2e, &run.e2e)].map(
        |(quantity, values)| {
            let metric = quantity.metric();
            let mut series = TimedValues::default();
            for (at, value) in values {
                series.add(*at, *value, 1);
            }
            let mut found = series.into_distribution(DistributionView {
                percentiles: &[50.0, 90.0, 99.0],
                unit: 1.0,
                longest_wait: 0.0,
                no_interval: gate.refusal(metric),
            });
            gate.look(metric, &mut found);
            found
        },
    )
}

/// Runs of 60 s: at 40 requests per second none of 200 stated an interval of TPOT, and six one of E2E.
#[test]
fn a_minute_at_40_requests_per_second_states_intervals_that_contain_the_truth() {
    const SECONDS: f64 = 60.0;
    for rate in [30.0, 40.0] {
        let runs: Vec<_> = (0..RUNS).map(|seed| engine_run(rate, SECONDS, 7_000 + seed)).collect();
        let found: Vec<_> = runs.iter().map(|run| judged(run, SECONDS)).collect();
        let check = |name: &str, nth: usize, values: fn(&EngineRun) -> &Vec<(Nanos, f64)>| {
            let all = sorted(runs.iter().flat_map(values));
            let median =
                |one: &[Distribution; 3]| one[nth].percentile(50.0).unwrap().interval.ends();
            let means: Vec<_> = found.iter().map(|one| one[nth].mean_interval.ends()).collect();
            let medians: Vec<_> = found.iter().map(median).collect();
            let truth = statistics::percentile(&all, 50.0).unwrap();
            for (what, (held, stated)) in
                [("mean", held(&means, mean(&all))), ("p50", held(&medians, truth))]
            {
                // The median of TPOT lies in one or two periods of such a run.
                let is_asked = what == "mean" || name == "E2E";
                assert!(!is_asked || stated >= 90, "{rate}: {what} {name}: {stated} stated");
                assert!(
                    stated < 20 || held * 100 >= stated * 90,
                    "{rate}: {what} {name}: {held} of {stated}"
                );
            }
        };
        check("TPOT", 1, |run| &run.tpot);
        check("E2E", 2, |run| &run.e2e);
    }
}
