//! `cargo lab aa-virtual [COUNT [LOAD]]`: false alarms and power of `compare` at 30, 60 and 90 % of capacity.
//!
//! In virtual time a restart changes nothing, so each server process gets a speed of its own: its steps
//! take a factor longer that is drawn again for every start. Every comparison restarts its servers,
//! and measures each process twice. Sides change places in every other comparison.
//!
//! False alarms: equal servers, compared with the fewest starts per side. Power: one of them takes 3 %
//! longer for each step. The same starts are grouped into fewer comparisons with more starts per side,
//! which shows how many starts find the 3 %. Prints the tables of `docs/compare.md` and
//! `lab/data/compare.md`.

use std::collections::BTreeMap;

use tokometer_base::Seed;
use tokometer_base::seed::unit_float;
use tokometer_decide::compare::{ComparedFigure, Comparison, Conclusion, Criteria, Run, compared};
use tokometer_metrics::figure::{Figure, Percentile, Quantity, Statistic};
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{Ask, PredictOptions, RequestLoad, predict};

use crate::virtual_runs::in_parallel;

/// Comparisons of each kind at each load with the fewest starts, unless another number is given.
const COUNT: u64 = 800;
/// Requests per second that the default engine sustains (`docs/capacity.md`).
const CAPACITY: f64 = 41.28;
/// Shares of the capacity.
const LOADS: [f64; 3] = [0.3, 0.6, 0.9];
/// Server processes per side. The first is that of the false alarms.
const STARTS: [usize; 4] = [4, 8, 16, 32];
/// Runs of a process.
const RUNS: u64 = 2;
/// Requests of a run.
const REQUESTS: u64 = 600;
/// Standard deviation of a process's speed.
const START_SPREAD: f64 = 0.003;
/// Steps of the slower server take so many times as long.
const SLOWER: f64 = 1.03;
/// A change counts as found where so many comparisons found it.
const FOUND: f64 = 0.9;

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
        let mut around = |mean: f64| (mean * (0.5 + unit_float(&mut generator))).round() as u32;
        Ask::new(around(512.0), around(128.0))
    };
    let asks: Vec<Ask> = (0..REQUESTS).map(ask).collect();
    let workload = RequestLoad::burst(asks).arriving(Arrivals::poisson(rate));
    let figures =
        predict(&profile, &workload, seed, PredictOptions::default()).expect("sound").figures;
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

/// The runs of one server process.
type Start = Vec<Run>;

/// Starts of a server whose steps take `scale` times as long. Starts of another `kind` share no seed.
fn starts(scale: f64, rate: f64, kind: u64, count: u64) -> Vec<Start> {
    in_parallel(count, |number| {
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

/// The rows of the comparison of each side of the first list with its partner, for which each takes
/// `size` starts of its own.
fn comparisons(a: &[Start], b: &[Start], size: usize) -> Vec<Vec<ComparedFigure>> {
    let figures = compared([]);
    let pairs = a.chunks_exact(size).zip(b.chunks_exact(size));
    pairs
        .map(|(a, b)| {
            let (a, b) = (a.concat(), b.concat());
            Comparison::of_runs(&a, &b, Criteria::of(&figures), Vec::new()).rows
        })
        .collect()
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

fn tallies(rows: &[Vec<ComparedFigure>]) -> BTreeMap<Figure, Tally> {
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

/// The share of alarms, and half of its 95 % interval. Figures of one comparison move together, so the
/// scatter between comparisons decides.
fn alarm_share(rows: &[Vec<ComparedFigure>]) -> (f64, f64) {
    let is_alarm = |row: &&ComparedFigure| {
        let conclusion = row.difference.map(|difference| difference.conclusion);
        matches!(conclusion, Some(Conclusion::Worse | Conclusion::Better))
    };
    let share = |rows: &Vec<ComparedFigure>| {
        rows.iter().filter(is_alarm).count() as f64 / rows.len().max(1) as f64
    };
    let shares: Vec<f64> = rows.iter().map(share).collect();
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let variance = shares.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, 1.96 * (variance / count).sqrt())
}

/// Compares at one load and prints its rows.
#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
fn at_load(load: f64, count: u64) {
    let rate = load * CAPACITY;
    let needed = count * STARTS[0] as u64;
    let first = starts(1.0, rate, 1, needed);
    let second = starts(1.0, rate, 2, needed);
    let slower = starts(SLOWER, rate, 3, needed);
    // Sides change places: what is drawn first is A in one comparison and B in the next.
    let mut equal = comparisons(&first, &second, STARTS[0]);
    let swapped = comparisons(&second, &first, STARTS[0]);
    for (place, rows) in swapped.into_iter().enumerate().filter(|(place, _)| place % 2 == 1) {
        equal[place] = rows;
    }
    let found = STARTS.map(|size| tallies(&comparisons(&first, &slower, size)));
    for (figure, alarms) in tallies(&equal) {
        let of = |tallies: &BTreeMap<Figure, Tally>| tallies.get(&figure).cloned();
        let of_each: Vec<Tally> = found.iter().map(|one| of(one).unwrap_or_default()).collect();
        let cells: Vec<String> =
            of_each.iter().map(|one| format!("{} of {}", one.worse, one.judged)).collect();
        let is_enough = |one: &Tally| one.worse as f64 >= FOUND * one.judged as f64;
        let enough = of_each.iter().position(|one| one.judged > 0 && is_enough(one));
        let enough = enough.map_or(format!("> {}", STARTS[3]), |at| STARTS[at].to_string());
        println!(
            "| {:.0} % | {} | {} of {} | {} | {enough} | {} |",
            100.0 * load,
            figure.label(),
            alarms.alarms(),
            alarms.judged,
            cells.join(" | "),
            of_each[0].median_need(),
        );
    }
    let (share, margin) = alarm_share(&equal);
    println!(
        "| {:.0} % | all | {:.1} % ± {:.1} points of {} figures in {} comparisons | | | | | | |",
        100.0 * load,
        100.0 * share,
        100.0 * margin,
        equal.iter().map(Vec::len).sum::<usize>(),
        equal.len(),
    );
}

/// Compares at every load, or at the given one, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
pub(crate) fn run_study(arguments: &[String]) {
    let count = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(COUNT);
    let only: Option<f64> = arguments.get(1).and_then(|word| word.parse().ok());
    println!(
        "{count} comparisons of each kind and load; {} starts of {RUNS} runs of {REQUESTS} requests a side, and fewer comparisons with more starts\n",
        STARTS[0]
    );
    println!(
        "| load | figure | false alarms | {} | starts that find it in 90 % | starts that `compare` asks for (median) |",
        STARTS.map(|starts| format!("3 % found with {starts} starts")).join(" | ")
    );
    println!("|--:|---|--:|--:|--:|--:|--:|--:|--:|");
    LOADS
        .into_iter()
        .filter(|load| only.is_none_or(|only| (only - load).abs() < 1e-9))
        .for_each(|load| at_load(load, count));
}
