//! `cargo lab plain-runs [COUNT [PROGRAM]]`: how often a plain run comes out VALID.
//!
//! Runs a short version of README's first command (an open loop against the embedded simulator) again
//! and again, and shows for each run the verdict, the time that the hypervisor took, and how far the
//! figures are from those of the same plan in virtual time. Everything that is not VALID here is either
//! the machine's fault or the verdict's.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::process::{announce, root};
use crate::verdicts::{Outcome, Stage, program, worst};

const COUNT: usize = 40;
/// As the plain `bench`, at three times its rate: the default 480 requests, which P99 needs, in 6.4 s.
const PLAIN: &str = "--request-rate 75 --num-prompts 480 --random-input-len 64 --random-output-len 16 \
                     --num-warmups 8 --metric-percentiles 50,90,99";

#[expect(clippy::print_stdout, reason = "the table is the result")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let count = arguments.first().map_or(Ok(COUNT), |count| count.parse());
    let count: u64 = u64::try_from(count.context("the count is a whole number")?)?;
    let stage = Stage::new(program(arguments.get(1))?, root().join("target/plain-runs"))?;
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    println!("| run | verdict | notes | stolen | stalls | largest difference from virtual time |");
    println!("|--:|---|---|--:|--:|---|");
    for at in 1..=count {
        announce(&format!("run {at} of {count}"));
        let expected = stage.predicted(PLAIN, 1_000 + at)?;
        let measured = stage.bench(&format!("{PLAIN} --seed {}", 1_000 + at))?;
        let outcome = Outcome::of(&measured, &expected, &BTreeMap::new());
        *verdicts.entry(outcome.verdict.clone()).or_insert(0) += 1;
        let worst = worst(outcome.figures.iter());
        println!(
            "| {at} | {} | {} | {:.2} % | {:.2} % | {worst} |",
            outcome.verdict,
            outcome.notes.join(", "),
            outcome.stolen * 100.0,
            outcome.stalled * 100.0,
        );
    }
    println!("\n| verdict | runs |\n|---|--:|");
    for (verdict, runs) in &verdicts {
        println!("| {verdict} | {runs} |");
    }
    Ok(())
}
