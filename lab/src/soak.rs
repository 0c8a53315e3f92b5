//! `cargo lab soak --minutes N --seed S`: rounds of runs against a chaotic simulator.
//!
//! Each round lasts half a minute and is drawn from the seed; `e2e/src/soak.rs` says what is checked.
//! `--round N` runs that one round only, to look into what it found.

use std::fs;
use std::time::Instant;

use anyhow::{Result, bail};
use tokometer_base::Seed;
use tokometer_e2e::soak::{Length, Round, round};

use crate::process::{number, root};

const ROUND_SECONDS: u32 = 30;

/// Rounds for the given time; fails when a round has a violation.
#[expect(clippy::print_stdout, reason = "the table is the task's result")]
#[expect(clippy::disallowed_methods, reason = "the task ends by the clock on the wall")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let minutes = number(arguments, "--minutes")?.unwrap_or(5);
    let seed = Seed(number(arguments, "--seed")?.unwrap_or(1));
    let only = number(arguments, "--round")?;
    let folder = root().join("target/soak");
    let began = Instant::now();
    let (mut rounds, mut planned, mut violations) = (0, 0, 0);
    println!("round  planned  succeeded  failed  MiB early/late  fds  what");
    let first = only.unwrap_or(0);
    for nth in first.. {
        let is_over = began.elapsed().as_secs() >= minutes * 60;
        if only.map_or(is_over, |only| nth > only) {
            break;
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let done = round(&folder, seed, nth, Length::Seconds(ROUND_SECONDS));
        show(nth, &done);
        rounds += 1;
        planned += done.planned;
        violations += done.violations.len();
        if !done.violations.is_empty() {
            // Its files are kept for inspection.
            let kept = root().join(format!("target/soak-round-{nth}"));
            let _ = fs::remove_dir_all(&kept);
            fs::rename(&folder, kept)?;
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
