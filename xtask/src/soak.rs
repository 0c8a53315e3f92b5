//! `cargo xtask soak --minutes N --seed S`: rounds of runs against a chaotic simulator.
//!
//! Each round lasts half a minute and is drawn from the seed; `e2e/src/soak.rs` says what is checked.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokometer_base::Seed;
use tokometer_e2e::soak::{Length, Round, round};

use crate::ci::root;

const ROUND_SECONDS: u32 = 30;

/// Rounds for the given time; fails when a round has a violation.
#[expect(clippy::print_stdout, reason = "the table is the task's result")]
#[expect(clippy::disallowed_methods, reason = "the task ends by the clock on the wall")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let minutes = value(arguments, "--minutes", 5)?;
    let seed = Seed(value(arguments, "--seed", 1)?);
    let folder = root().join("target/soak");
    let began = Instant::now();
    let (mut rounds, mut planned, mut violations) = (0, 0, 0);
    println!("round  planned  succeeded  failed  MiB early/late  fds  what");
    while began.elapsed().as_secs() < minutes * 60 {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let done = round(&folder, seed, rounds, Length::Seconds(ROUND_SECONDS));
        show(rounds, &done);
        rounds += 1;
        planned += done.planned;
        violations += done.violations.len();
        if !done.violations.is_empty() {
            // Its files are kept for inspection.
            fs::rename(&folder, root().join(format!("target/soak-round-{}", rounds - 1)))?;
        }
    }
    println!("{rounds} rounds, {planned} requests, {violations} violations");
    if violations > 0 {
        bail!("{violations} violations; the folders are below target/soak-round-*");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is the task's result")]
fn show(number: u64, round: &Round) {
    let (early, late) = round.memory_mib;
    println!(
        "{number:>5}  {:>7}  {:>9}  {:>6}  {:>14}  {:>3}  {}",
        round.planned,
        round.succeeded,
        round.failed,
        format!("{early}/{late}"),
        round.descriptors,
        round.what
    );
    for violation in &round.violations {
        println!("       violation: {violation}");
    }
}

fn value(arguments: &[String], name: &str, default: u64) -> Result<u64> {
    let Some(place) = arguments.iter().position(|word| word == name) else { return Ok(default) };
    let word = arguments.get(place + 1).with_context(|| format!("`{name}` needs a number"))?;
    word.parse().with_context(|| format!("cannot use `{name} {word}`"))
}
