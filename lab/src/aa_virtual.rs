//! `cargo lab aa-virtual [COUNT]`: false alarms and power of `compare` at 30, 60 and 90 % of capacity.
//!
//! In virtual time a restart changes nothing, so each server process gets a speed of its own: its steps
//! take a factor longer that is drawn again for every start. Every comparison restarts its servers,
//! and measures each process twice. Side B is measured with the first seeds in every other comparison.
//! Equal servers must differ in about one figure of twenty; one whose steps take 3 % longer should be
//! found. Prints the table of `docs/compare.md`.

use std::collections::BTreeMap;

use tokometer_base::Seed;
use tokometer_base::seed::unit_float;
use tokometer_decide::compare::{Comparison, Conclusion, Criteria, Run, compared};
use tokometer_metrics::figure::{Figure, Percentile, Quantity, Statistic};
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{Ask, PredictOptions, RequestLoad, predict};

use crate::virtual_runs::in_parallel;

/// Comparisons of each kind at each load, unless another number is given.
const COUNT: u64 = 200;
/// Requests per second that the default engine sustains (`docs/capacity.md`).
const CAPACITY: f64 = 41.28;
/// Shares of the capacity.
const LOADS: [f64; 3] = [0.3, 0.6, 0.9];
/// Server processes per side.
const STARTS: u64 = 4;
/// Runs of a process.
const RUNS: u64 = 2;
/// Requests of a run.
const REQUESTS: u64 = 600;
/// Standard deviation of a process's speed.
const START_SPREAD: f64 = 0.003;

/// A normal deviate.
fn deviate(seed: Seed) -> f64 {
    let mut generator = seed.stream("start").at(0);
    let sum: f64 = (0..12).map(|_| unit_float(&mut generator)).sum();
    sum - 6.0
}

/// One run of a server whose steps take `scale` times as long.
fn run(scale: f64, rate: f64, seed: Seed) -> Run {
    let mut profile = Profile::default();
    profile.cost.scale = scale;
    let lengths = seed.stream("lengths");
    let ask = |index: u64| {
        let mut generator = lengths.at(index);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between half and one and a half times a length"
        )]
        let mut around =
            |mean: f64| (mean * (0.5 + unit_float(&mut generator))).round() as u32;
        Ask::new(around(512.0), around(128.0))
    };
    let asks: Vec<Ask> = (0..REQUESTS).map(ask).collect();
    let workload = RequestLoad::burst(asks).arriving(Arrivals::poisson(rate));
    let figures = predict(&profile, &workload, seed, PredictOptions::default()).expect("sound").figures;
    let samples = [
        (Quantity::Ttft, &figures.ttft),
        (Quantity::Tpot, &figures.tpot),
        (Quantity::Itl, &figures.itl),
        (Quantity::E2e, &figures.e2el),
    ];
    let mut values =
        BTreeMap::from([(Figure::whole(Quantity::Output), figures.output_throughput())]);
    for (quantity, sample) in samples {
        values.extend(sample.mean_ms().map(|mean| (Figure::mean(quantity), mean)));
        for percent in [50, 90, 99] {
            let statistic = Statistic::Percentile(Percentile::whole(percent));
            let value = sample.percentiles_ms(&[f64::from(percent)]).first().copied();
            values.extend(value.map(|value| (Figure { quantity, statistic }, value)));
        }
    }
    Run { values, ..Run::default() }
}

/// The runs of one side of a comparison.
fn side(scale: f64, rate: f64, number: u64) -> Vec<Run> {
    let start = |at: u64| {
        let process = Seed(Seed(number).stream("process").draw(at));
        let scale = scale * (1.0 + START_SPREAD * deviate(process));
        (0..RUNS).map(move |of| {
            let mut run = run(scale, rate, Seed(process.stream("run").draw(of)));
            run.facts.process = Some(format!("{number} {at}"));
            run
        })
    };
    (0..STARTS).flat_map(start).collect()
}

/// Figures with a verdict, and how many were worse or better.
#[derive(Default, Clone, Copy)]
struct Tally {
    judged: usize,
    worse: usize,
    better: usize,
    /// Comparisons that said they can detect 3 %.
    able: usize,
    /// Of those, found worse.
    found: usize,
}

fn tally(scale: f64, rate: f64, count: u64) -> BTreeMap<Figure, Tally> {
    let rows = in_parallel(count, |at| {
        // Sides change places: what is drawn first goes to B in every other comparison.
        let (first, second) = (2 * at + at % 2, 2 * at + 1 - at % 2);
        let (a, b) = (side(1.0, rate, first), side(scale, rate, second));
        Comparison::of_runs(&a, &b, Criteria::of(&compared([])), Vec::new()).rows
    });
    let mut tallies: BTreeMap<Figure, Tally> = BTreeMap::new();
    for row in rows.iter().flatten() {
        let Some(difference) = row.difference else { continue };
        let tally = tallies.entry(row.figure).or_default();
        tally.judged += 1;
        tally.worse += usize::from(difference.conclusion == Conclusion::Worse);
        tally.better += usize::from(difference.conclusion == Conclusion::Better);
        let is_able = difference.detectable <= 0.03;
        tally.able += usize::from(is_able);
        tally.found += usize::from(is_able && difference.conclusion == Conclusion::Worse);
    }
    tallies
}

/// Compares at every load and prints its rows.
#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
pub(crate) fn run_study(arguments: &[String]) {
    let count = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(COUNT);
    println!(
        "{count} comparisons of each kind and load; {STARTS} starts of {RUNS} runs of {REQUESTS} requests a side\n"
    );
    println!(
        "| load | figure | false alarms | 3 % found | 3 % found where `detectable` is at most 3 % |"
    );
    println!("|--:|---|--:|--:|--:|");
    for load in LOADS {
        let rate = load * CAPACITY;
        let (equal, slower) = (tally(1.0, rate, count), tally(1.03, rate, count));
        let (mut alarms, mut all) = (0, 0);
        for (figure, one) in &equal {
            let other = slower.get(figure).copied().unwrap_or_default();
            println!(
                "| {:.0} % | {} | {} of {} | {} of {} | {} of {} |",
                100.0 * load,
                figure.label(),
                one.worse + one.better,
                one.judged,
                other.worse,
                other.judged,
                other.found,
                other.able
            );
            alarms += one.worse + one.better;
            all += one.judged;
        }
        println!(
            "| {:.0} % | all | {alarms} of {all} ({:.1} %) | | |",
            100.0 * load,
            100.0 * alarms as f64 / all as f64
        );
    }
}
