//! How near `capacity` comes to the truth, in virtual time.
//!
//! The truth is found by bisection over runs that are so long that little is left to chance; the
//! searches are those of `tokometer capacity` with its default flags, each with seeds of its own.
//! Prints the table of `docs/capacity.md`.

use super::search::{CASES, Case, LENGTH, LIMITS};
use crate::virtual_runs::in_parallel;
use tokometer_decide::search::SearchResult;

/// What the searches of one case came to.
#[derive(Default)]
struct Tally {
    /// Relative errors of the estimates.
    errors: Vec<f64>,
    /// Half widths of the intervals, as shares of the truth. An open end counts as infinite.
    margins: Vec<f64>,
    /// Intervals that held the truth.
    held: usize,
    /// Searches without an answer.
    others: usize,
    /// Virtual time of all points, in seconds.
    seconds: f64,
}

impl Tally {
    fn add(&mut self, answer: &SearchResult, truth: f64) {
        let SearchResult::Found { load, low, high, .. } = answer else {
            self.others += 1;
            return;
        };
        self.errors.push(load / truth - 1.0);
        let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY));
        self.margins.push((high - low) / 2.0 / truth);
        self.held += usize::from(low <= truth && truth <= high);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Talk {
    Little,
    Much,
}

#[expect(clippy::print_stderr, reason = "only where `verbose` asks for every point")]
fn tally(case: &Case, searches: u64, talk: Talk) -> Tally {
    let mut tally = Tally::default();
    let found = in_parallel(searches, |seed| case.search(seed, LIMITS, LENGTH));
    for (seed, (answer, points)) in found.into_iter().enumerate() {
        tally.seconds += points.iter().map(|point| point.requests as f64 / point.load).sum::<f64>();
        tally.add(&answer, case.truth);
        if talk == Talk::Much {
            eprintln!("{} {} seed {seed}: {answer:?}", case.engine, case.slo);
            for point in points {
                let (load, fit) = (point.load, point.fit);
                eprintln!("    {load:.3} {fit:?} {} {:?}", point.requests, point.uses);
            }
        }
    }
    tally
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Searches every case, or the one that `case=N` names, and prints its row.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
pub(crate) fn run(arguments: &[String]) {
    let searches = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(20);
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let only = arguments.iter().find_map(|word| word.strip_prefix("case=")?.parse::<usize>().ok());
    println!(
        "| engine | prompt, answer | objective | true capacity | interval holds it | bias | error: median | margin: median | measured time |"
    );
    println!("|---|---|---|--:|--:|--:|--:|--:|--:|");
    for (number, mut case) in CASES.into_iter().enumerate() {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        if has("truth") {
            case.truth = case.long_truth();
            eprintln!("{} {}: {:.3}", case.engine, case.slo, case.truth);
        }
        let talk = if has("verbose") { Talk::Much } else { Talk::Little };
        let mut found = tally(&case, searches, talk);
        let bias = found.errors.iter().sum::<f64>() / found.errors.len() as f64;
        let spread = found.errors.iter().map(|error| (error - bias).powi(2)).sum::<f64>();
        let error_of_bias = spread.sqrt() / found.errors.len() as f64;
        let mut sizes: Vec<f64> = found.errors.iter().map(|error| error.abs()).collect();
        println!(
            "| `{}` | {}, {} | `{}` | {:.2} req/s | {} of {searches} ({:.1} %) | {:+.1} ± {:.1} % | {:.1} % | ±{:.1} % | {:.0} min |",
            case.engine,
            case.lengths.0,
            case.lengths.1,
            case.slo,
            case.truth,
            found.held,
            100.0 * found.held as f64 / searches as f64,
            100.0 * bias,
            196.0 * error_of_bias,
            100.0 * median(&mut sizes),
            100.0 * median(&mut found.margins),
            found.seconds / searches as f64 / 60.0,
        );
        if found.others > 0 {
            println!("{} searches had no answer", found.others);
        }
    }
}
