//! How near `capacity` comes to the truth, in virtual time.
//!
//! The truth is found by bisection over runs that are so long that little is left to chance; the
//! searches are those of `tokometer capacity` with its default flags, or with `--budget`, each with
//! seeds of its own. Prints the tables of `lab/data/capacity.md`.

use anyhow::Result;
use tokometer_base::{Nanos, units};
use tokometer_decide::capacity::Ending;
use tokometer_decide::search::SearchResult;

use super::case::{CASES, Case, Searched};
use crate::virtual_runs::in_parallel;

/// What the searches of one case came to.
#[derive(Default)]
struct Tally {
    /// Relative errors of the estimates.
    errors: Vec<f64>,
    /// Half widths of the intervals, as shares of the truth. An open end counts as infinite.
    margins: Vec<f64>,
    /// Intervals that held the truth.
    held: usize,
    /// Searches that ended with a range instead of an estimate, and those whose range held the truth.
    ranges: usize,
    held_ranges: usize,
    /// Searches without either.
    others: usize,
    /// Virtual time of all searches, in seconds.
    seconds: f64,
}

impl Tally {
    fn add(&mut self, answer: &SearchResult, truth: f64) {
        match answer {
            SearchResult::Found { load, low, high, .. } => {
                self.errors.push(load / truth - 1.0);
                let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY));
                self.margins.push((high - low) / 2.0 / truth);
                self.held += usize::from(low <= truth && truth <= high);
            }
            SearchResult::Unfinished { highest_met, lowest_missed } => {
                self.ranges += 1;
                let is_held = highest_met.is_none_or(|load| load <= truth)
                    && lowest_missed.is_none_or(|load| truth <= load);
                self.held_ranges += usize::from(is_held);
            }
            SearchResult::LimitedByMost { .. } | SearchResult::NoneMeets { .. } => self.others += 1,
        }
    }

    /// The mean relative error and its 95 % margin.
    fn bias(&self) -> (f64, f64) {
        let count = self.errors.len() as f64;
        let bias = self.errors.iter().sum::<f64>() / count;
        let spread = self.errors.iter().map(|error| (error - bias).powi(2)).sum::<f64>();
        (bias, 1.96 * spread.sqrt() / count)
    }
}

/// Which searches are made.
struct Study {
    /// Seeds of the searches of each case.
    seeds: std::ops::Range<u64>,
    /// Time of each; `None`: default flags, whose points bound a search.
    budget: Option<Nanos>,
    /// Whether every search is printed.
    is_verbose: bool,
}

impl Study {
    #[expect(clippy::print_stderr, reason = "only where `verbose` asks for every point")]
    fn tally(&self, case: &Case) -> Result<Tally> {
        let mut tally = Tally::default();
        let count = self.seeds.end - self.seeds.start;
        let found = in_parallel(count, |at| case.search(self.seeds.start + at, self.budget));
        for (seed, found) in self.seeds.clone().zip(found) {
            let Searched { findings, took } = found?;
            tally.seconds += took.as_secs_f64();
            match &findings.ending {
                Ending::Answered(answer) => tally.add(answer, case.truth),
                _ => tally.others += 1,
            }
            if self.is_verbose {
                let (engine, ending) = (case.engine, &findings.ending);
                eprintln!("{engine} {} seed {seed}, {took}: {ending:?}", case.slo);
                findings.points.iter().for_each(|point| eprintln!("    {:?}", point.point()));
            }
        }
        Ok(tally)
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Searches every case, or the one that `case=N` names, and prints its row.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let searches = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(20);
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let of = |key: &str| arguments.iter().find_map(|word| word.strip_prefix(key));
    let only: Option<usize> = of("case=").map(str::parse).transpose()?;
    let first: u64 = of("from=").map_or(Ok(0), str::parse)?;
    let second = Nanos::from_secs(1);
    let budget = of("budget=").map(|text| units::parse_span(text, second)).transpose()?;
    let seeds = first..first + searches;
    let study = Study { seeds, budget, is_verbose: has("verbose") };
    println!("Seeds {first} to {} of each case.\n", first + searches - 1);
    let header = [
        "| engine | prompt, answer | objective | true capacity | estimates | interval holds it | bias | error: median | margin: median | only a range: held | time |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ];
    header.iter().for_each(|line| println!("{line}"));
    for (number, mut case) in CASES.into_iter().enumerate() {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        if has("truth") {
            case.truth = case.long_truth();
            eprintln!("{} {}: {:.3}", case.engine, case.slo, case.truth);
        }
        print_row(&case, study.tally(&case)?, searches);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn print_row(case: &Case, mut found: Tally, searches: u64) {
    let (bias, margin_of_bias) = found.bias();
    let mut sizes: Vec<f64> = found.errors.iter().map(|error| error.abs()).collect();
    let (held, estimates) = (found.held, found.errors.len());
    println!(
        "| `{}` | {}, {} | `{}` | {:.2} req/s | {estimates} of {searches} | {held} of {estimates} ({:.1} %) | {:+.1} ± {:.1} % | {:.1} % | ±{:.1} % | {} of {} | {:.1} min |",
        case.engine,
        case.lengths.0,
        case.lengths.1,
        case.slo,
        case.truth,
        100.0 * held as f64 / estimates as f64,
        100.0 * bias,
        100.0 * margin_of_bias,
        100.0 * median(&mut sizes),
        100.0 * median(&mut found.margins),
        found.held_ranges,
        found.ranges,
        found.seconds / searches as f64 / 60.0,
    );
    if found.others > 0 {
        println!("{} searches had no answer", found.others);
    }
}
