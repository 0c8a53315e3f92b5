//! `cargo lab verdicts [--all] [--fresh] [--minutes=N] [--only=NAME] [--step-clock] [PROGRAM]`: is the verdict about each figure right?
//!
//! The same plan in virtual time gives the undisturbed figures. The real client measures the simulated
//! server, which runs in its own process, while something disturbs the client, its machine or the path,
//! at levels from harmless to gross. Each shown figure is then compared with the undisturbed one: off by
//! more than 5 %, its verdict must not be VALID; off by less than 1 %, it must be.
//!
//! `--step-clock` adds steps of the client's wall clock, by a library that is preloaded into the client;
//! the clock of the machine is not touched.
//! `--only` takes the cases with this in their name.
//! Finished cases are kept in `target/verdicts` and skipped the next time, unless `--fresh` is given.
//! Needs root for namespaces, control groups and real-time priority; cases that cannot be set up are
//! reported and left out.

mod cases;
mod disturb;
mod outcome;
mod path;
mod relay;
mod stage;
mod table;

pub(crate) use outcome::{Outcome, worst};
pub(crate) use stage::{Stage, program};

use std::path::PathBuf;

use anyhow::Result;
use tokometer_base::{Clock, MonotonicClock};

use crate::process::{announce, root};

/// Runs the cases that are not done yet, and prints the tables.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let named = arguments.iter().find(|argument| !argument.starts_with("--"));
    let stage = Stage::new(program(named)?, root().join("target/verdicts"))?;
    if has("--fresh") {
        let _ = std::fs::remove_dir_all(stage.results());
    }
    std::fs::create_dir_all(stage.results())?;
    let limit = arguments.iter().find_map(|argument| argument.strip_prefix("--minutes="));
    let most_minutes: f64 = limit.map_or(Ok(f64::INFINITY), str::parse)?;
    let mut cases = cases::all(has("--all"));
    if has("--step-clock") {
        cases.extend(cases::clock_steps());
    }
    if let Some(part) = arguments.iter().find_map(|argument| argument.strip_prefix("--only=")) {
        cases.retain(|case| case.name().contains(part));
    }
    let begin = MonotonicClock.now();
    for (at, case) in cases.iter().enumerate() {
        let minutes = (MonotonicClock.now() - begin).as_secs_f64() / 60.0;
        if minutes >= most_minutes {
            announce("the time is over; the same command continues with the next case");
            break;
        }
        let file: PathBuf = stage.results().join(format!("{}.json", case.name()));
        if file.exists() {
            continue;
        }
        announce(&format!("{} of {}: {}", at + 1, cases.len(), case.name()));
        match stage.run(case) {
            Ok(result) => std::fs::write(&file, format!("{result:#}\n"))?,
            Err(why) => announce(&format!("left out: {why:#}")),
        }
    }
    table::print(&stage.results())
}
