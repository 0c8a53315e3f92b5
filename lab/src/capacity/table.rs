//! How near `capacity` comes to the truth, in virtual time.
//!
//! The truth is found by bisection over runs that are so long that little is left to chance; the
//! searches are those of `tokometer capacity` with its default flags, each with seeds of its own.
//! Prints the table of `docs/capacity.md`.

use super::search::{CASES, Case, LENGTH, LIMITS, in_parallel};
use tokometer_decide::search::SearchResult;

/// What the searches of one case came to.
#[derive(Default)]
struct Tally {
    errors: Vec<f64>,
    points: Vec<usize>,
    held: usize,
    others: usize,
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
        tally.points.push(points.len());
        if let SearchResult::Found { load, margin, .. } = answer {
            tally.errors.push(load / case.truth - 1.0);
            tally.held += usize::from((load - case.truth).abs() <= margin);
        } else {
            tally.others += 1;
        }
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

/// Searches every case and prints its row.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is the result")]
pub(crate) fn run(arguments: &[String]) {
    let searches = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(20);
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    println!(
        "| engine | prompt, answer | objective | truth | found within 5 % | error: median, worst | interval held the truth | points |"
    );
    println!("|---|---|---|--:|--:|--:|--:|--:|");
    for mut case in CASES {
        if has("truth") {
            case.truth = case.long_truth();
            eprintln!("{} {}: {:.3}", case.engine, case.slo, case.truth);
        }
        let talk = if has("verbose") { Talk::Much } else { Talk::Little };
        let mut found = tally(&case, searches, talk);
        found.errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let near = found.errors.iter().filter(|error| error.abs() <= 0.05).count();
        let median = found.errors.get(found.errors.len() / 2).map_or(f64::NAN, |error| error.abs());
        let worst = found.errors.last().copied().unwrap_or(f64::NAN);
        let mean = found.errors.iter().sum::<f64>() / found.errors.len() as f64;
        let most = found.points.iter().max().copied().unwrap_or(0);
        println!(
            "| `{}` | {}, {} | `{}` | {:.2} req/s | {near} of {searches} | {:.1} %, {:+.1} % (mean {:+.1} %) | {} of {} | at most {most} |",
            case.engine,
            case.lengths.0,
            case.lengths.1,
            case.slo,
            case.truth,
            100.0 * median,
            100.0 * worst,
            100.0 * mean,
            found.held,
            searches
        );
        if found.others > 0 {
            println!("{} searches had no answer", found.others);
        }
    }
}
