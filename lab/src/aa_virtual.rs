//! `cargo lab aa-virtual [COUNT [LOAD]]`: false alarms and power of `compare` at 30, 60 and 90 % of capacity.
//!
//! In virtual time a restart changes nothing, so each server process gets a speed of its own: its steps
//! take a factor longer that is drawn again for every start. Every comparison restarts its servers,
//! and measures each process twice. Sides change places in every other comparison.
//!
//! A pool of starts is measured once, for equal servers and for one that takes 3 % longer for each step.
//! Comparisons draw their starts from the pools, no start twice in one comparison. The pools are divided
//! into groups; the share of false alarms is that of all draws, and its interval comes from the
//! groups, which share no start. Prints the tables of `docs/compare.md` and `lab/data/compare.md`.

use std::collections::BTreeMap;

use tokometer_base::Seed;
use tokometer_base::seed::unit_float;
use tokometer_decide::compare::{ComparedFigure, Comparison, Conclusion, Criteria, Run, compared};
use tokometer_figures::figure::{Figure, Percentile, Quantity, Statistic};
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{PredictOptions, RequestLoad, predict};

use crate::virtual_runs::{Drawn, in_parallel};

/// Starts of a pool, unless another number is given.
const POOL: usize = 240;
const GROUPS: usize = 8;
const DRAWS: usize = 800;
/// Requests per second that the default engine sustains (`docs/capacity.md`).
const CAPACITY: f64 = 41.28;
const LOADS: [f64; 3] = [0.3, 0.6, 0.9];
/// Server processes per side. The first is that of the false alarms.
const STARTS: [usize; 4] = [4, 8, 16, 32];
const RUNS: u64 = 2;
const REQUESTS: u64 = 600;
/// Standard deviation of a process's speed.
const START_SPREAD: f64 = 0.003;
/// Steps of the slower server take so many times as long.
const SLOWER: f64 = 1.03;
/// A change counts as found where so many comparisons found it.
const FOUND: f64 = 0.9;

fn deviate(seed: Seed) -> f64 {
    let mut generator = seed.stream("start").at(0);
    let sum: f64 = (0..12).map(|_| unit_float(&mut generator)).sum();
    sum - 6.0
}

/// One run of a server whose steps take `scale` times as long.
fn run(scale: f64, rate: f64, seed: Seed) -> Run {
    let mut profile = Profile::default();
    profile.cost.scale = scale;
    let asks = Drawn { lengths: (512, 128), count: REQUESTS, seed };
    let workload = RequestLoad::burst(asks).arriving(Arrivals::poisson(rate));
    let figures =
        predict(&profile, &workload, seed, PredictOptions::default()).expect("sound").figures;
    let samples = [
        (Quantity::Ttft, &figures.ttft),
        (Quantity::Tpot, &figures.tpot),
        (Quantity::Itl, &figures.itl),
        (Quantity::E2e, &figures.e2el),
    ];
    let throughput = figures.output_throughput().expect("a run has a length");
    let mut values = BTreeMap::from([(Figure::whole(Quantity::Output), throughput)]);
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

/// The runs of one server process.
type Start = Vec<Run>;

/// Starts of a server whose steps take `scale` times as long. Starts of another `kind` share no seed.
fn starts(scale: f64, rate: f64, kind: u64, count: usize) -> Vec<Start> {
    in_parallel(count as u64, |number| {
        let process = Seed(Seed(kind).stream("process").draw(number));
        let scale = scale * (1.0 + START_SPREAD * deviate(process));
        let run = |of: u64| {
            let mut run = run(scale, rate, Seed(process.stream("run").draw(of)));
            run.facts.process = Some(format!("{kind} {number}"));
            run
        };
        (0..RUNS).map(run).collect()
    })
}

type Rows = Vec<ComparedFigure>;

/// The numbers of a pool's `count` starts in an order that `seed` draws.
fn drawn(count: usize, seed: Seed) -> Vec<usize> {
    let mut generator = seed.stream("drawn").at(0);
    let mut keyed: Vec<(f64, usize)> =
        (0..count).map(|number| (unit_float(&mut generator), number)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|(_, number)| number).collect()
}

fn side(pool: &[Start], numbers: &[usize]) -> Vec<Run> {
    numbers.iter().flat_map(|number| pool[*number].iter().cloned()).collect()
}

/// One drawn comparison of `size` starts of `a` with as many of `b`; with other ones of `a` without `b`.
fn compare(a: &[Start], b: Option<&[Start]>, size: usize, seed: Seed) -> Rows {
    let first = drawn(a.len(), seed);
    let second = match b {
        Some(b) => side(b, &drawn(b.len(), Seed(seed.stream("b").draw(0)))[..size]),
        None => side(a, &first[size..2 * size]),
    };
    let first = side(a, &first[..size]);
    Comparison::of_runs(&first, &second, Criteria::of(&compared([])), Vec::new()).rows
}

/// Conclusions about one figure.
#[derive(Default, Clone)]
struct Tally {
    judged: usize,
    worse: usize,
    better: usize,
    /// Starts per side that the comparisons asked for to find 3 %; the largest number where they
    /// asked for more than anybody would make.
    needed: Vec<usize>,
}

impl Tally {
    fn alarms(&self) -> usize {
        self.worse + self.better
    }

    fn median_need(&self) -> String {
        let mut sorted = self.needed.clone();
        sorted.sort_unstable();
        match sorted.get(sorted.len() / 2) {
            None => "–".to_owned(),
            Some(&usize::MAX) => "> 10,000".to_owned(),
            Some(need) => need.to_string(),
        }
    }
}

fn tallies(rows: &[Rows]) -> BTreeMap<Figure, Tally> {
    let mut tallies: BTreeMap<Figure, Tally> = BTreeMap::new();
    for row in rows.iter().flatten() {
        let Some(difference) = row.difference else { continue };
        let tally = tallies.entry(row.figure).or_default();
        tally.judged += 1;
        tally.worse += usize::from(difference.conclusion == Conclusion::Worse);
        tally.better += usize::from(difference.conclusion == Conclusion::Better);
        tally.needed.push(row.units_needed().unwrap_or(usize::MAX));
    }
    tallies
}

/// The share of alarms among all figures.
fn alarm_share(rows: &[Rows]) -> f64 {
    let tallies = tallies(rows);
    let sum = |of: fn(&Tally) -> usize| tallies.values().map(of).sum::<usize>() as f64;
    sum(Tally::alarms) / sum(|tally| tally.judged)
}

/// Compares at one load and prints its rows.
#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
fn at_load(load: f64, pool: usize) {
    let rate = load * CAPACITY;
    let (equal, slower) = (starts(1.0, rate, 1, pool), starts(SLOWER, rate, 3, pool));
    let groups: Vec<Vec<Rows>> = equal
        .chunks_exact(pool / GROUPS)
        .take(GROUPS)
        .enumerate()
        .map(|(group, starts)| {
            let seed = |draw: u64| Seed((group * DRAWS) as u64 + draw);
            in_parallel((DRAWS / GROUPS) as u64, |draw| {
                compare(starts, None, STARTS[0], seed(draw))
            })
        })
        .collect();
    let shares: Vec<f64> = groups.iter().map(|rows| alarm_share(rows)).collect();
    let mean = shares.iter().sum::<f64>() / GROUPS as f64;
    let variance =
        shares.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (GROUPS as f64 - 1.0);
    // Student's t with 7 degrees of freedom.
    let margin = 2.365 * (variance / GROUPS as f64).sqrt();
    let equals = groups.concat();
    let found = STARTS.map(|size| {
        let count = if size <= pool { DRAWS as u64 } else { 0 };
        let rows = in_parallel(count, |draw| compare(&equal, Some(&slower), size, Seed(draw)));
        tallies(&rows)
    });
    for (figure, alarms) in tallies(&equals) {
        let of_each: Vec<Tally> =
            found.iter().map(|one| one.get(&figure).cloned().unwrap_or_default()).collect();
        let share = |one: &Tally| one.worse as f64 / one.judged.max(1) as f64;
        let cells: Vec<String> =
            of_each.iter().map(|one| format!("{:.0} %", 100.0 * share(one))).collect();
        let enough = of_each.iter().position(|one| share(one) >= FOUND);
        let enough = enough.map_or(format!("> {}", STARTS[3]), |at| STARTS[at].to_string());
        println!(
            "| {:.0} % | {} | {:.1} % | {} | {enough} | {} |",
            100.0 * load,
            figure.label(),
            100.0 * alarms.alarms() as f64 / alarms.judged as f64,
            cells.join(" | "),
            of_each[0].median_need(),
        );
    }
    println!(
        "| {:.0} % | all | **{:.1} % ± {:.1} points** of {} figures in {} comparisons | | | | | | |",
        100.0 * load,
        100.0 * mean,
        100.0 * margin,
        equals.iter().map(Vec::len).sum::<usize>(),
        equals.len(),
    );
}

/// Compares at every load, or at the given one, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
pub(crate) fn run_study(arguments: &[String]) {
    let pool = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(POOL);
    let pool = pool.max(2 * STARTS[0] * GROUPS);
    let only: Option<f64> = arguments.get(1).and_then(|word| word.parse().ok());
    println!(
        "{DRAWS} comparisons of each kind and load, drawn from {pool} starts of each server; {RUNS} runs of {REQUESTS} requests per start\n"
    );
    println!(
        "| load | figure | false alarms, {} starts a side | {} | starts that find it in 90 % | starts that `compare` asks for (median) |",
        STARTS[0],
        STARTS.map(|starts| format!("3 % found with {starts} starts")).join(" | ")
    );
    println!("|--:|---|--:|--:|--:|--:|--:|--:|--:|");
    let is_meant = |load: &f64| only.is_none_or(|only| (only - load).abs() < 1e-9);
    for load in LOADS.into_iter().filter(is_meant) {
        at_load(load, pool);
    }
}
