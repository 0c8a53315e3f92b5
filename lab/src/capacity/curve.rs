//! `cargo lab capacity [POINTS] curve [from=SEED] [case=N]`: how the use of an objective rises around the
//! true capacity.
//!
//! Many points of the second stage at each of a few loads. Where the logarithm of their mean use is no
//! line, or is not zero at the true capacity, the estimate of a search is biased by as much, however
//! many points it measures.

use tokometer_base::Seed;
use tokometer_decide::search::{PointOutcome, Stage, with_preload};
use tokometer_decide::slo::Slo;

use super::search::{Case, LENGTH};
use crate::virtual_runs::in_parallel;

/// Differences of logarithms from the true capacity.
const OFFSETS: [f64; 11] = [-0.15, -0.1, -0.075, -0.05, -0.025, 0.0, 0.025, 0.05, 0.075, 0.1, 0.15];

/// Prints the mean use at each load.
#[expect(clippy::print_stdout, reason = "the table is the result")]
pub(super) fn print(case: &Case, seeds: &std::ops::Range<u64>) {
    let slo = Slo::parse(case.slo).expect("a sound objective");
    println!("`{}`, `{}`, true capacity {:.2} req/s\n", case.engine, case.slo, case.truth);
    println!("| offset | load | mean use | its error | logarithm | overloaded | met |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    for (at, offset) in OFFSETS.into_iter().enumerate() {
        let load = case.truth * f64::exp(offset);
        let duration = with_preload(LENGTH.next(&slo, Stage::Estimate, Some(load)));
        let measured = in_parallel(seeds.end - seeds.start, |number| {
            let seed = Seed(Seed(seeds.start + number).stream("curve").draw(at as u64));
            let point = case.point(load, Stage::Estimate, duration, seed).point;
            let one = point.uses.first().copied().flatten();
            let used = one.map_or(0.0, |one| match (point.fit, one.allowed) {
                (PointOutcome::Overloaded, Some(allowed)) => one.used.max(1.0 / allowed),
                _ => one.used,
            });
            (used, point.fit)
        });
        let count = measured.len() as f64;
        let mean = measured.iter().map(|one| one.0).sum::<f64>() / count;
        let squares = measured.iter().map(|one| (one.0 - mean).powi(2)).sum::<f64>();
        let error = (squares / (count - 1.0) / count).sqrt();
        let share = |fit: PointOutcome| {
            100.0 * measured.iter().filter(|one| one.1 == fit).count() as f64 / count
        };
        println!(
            "| {offset:+.3} | {load:.2} | {mean:.3} | {error:.3} | {:+.2} | {:.0} % | {:.0} % |",
            mean.ln(),
            share(PointOutcome::Overloaded),
            share(PointOutcome::Met),
        );
    }
    println!();
}
