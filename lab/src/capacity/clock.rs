//! `cargo lab capacity-clock [PROGRAM [BUDGET]]`: three searches on the clock against the truth of
//! virtual time.
//!
//! The simulated server runs the engine whose true capacity is known; client and server share this
//! machine. With a budget (`6m`) each search takes that long. Without one the flags are the defaults,
//! except that the climb starts at 4 req/s, and the three take about an hour and a half. Needs a quiet
//! machine. Prints a table of `lab/data/capacity.md`.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::case::CASES;
use crate::process::{self, announce, root};

/// Cases that two cores can serve and measure: at most 41 req/s of 128 tokens.
const ON_THE_CLOCK: [usize; 3] = [0, 1, 4];

/// Searches each case once and prints its row.
#[expect(clippy::print_stdout, reason = "the table is the result")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let program = process::named(arguments.first())?;
    let length =
        arguments.get(1).map_or_else(|| "--start 4".to_owned(), |one| format!("--budget {one}"));
    let folder = root().join("target/capacity-clock");
    std::fs::create_dir_all(&folder)?;
    println!("| engine | objective | true capacity | found | 95 % CI | interval holds it |");
    println!("|---|---|--:|--:|--:|---|");
    for case in ON_THE_CLOCK.map(|at| CASES[at]) {
        announce(&format!("{}: {}", case.engine, case.slo));
        let line = format!(
            "capacity --sim {} --dataset-name random --random-input-len {} --random-output-len {} --random-range-ratio 0.5 {length} --disable-tqdm --json --overwrite --run-dir {}",
            case.engine, case.lengths.0, case.lengths.1, case.engine
        );
        let output = Command::new(&program)
            .args(line.split_whitespace())
            .args(["--slo", case.slo])
            .current_dir(&folder)
            .output()
            .context("cannot start tokometer")?;
        if !output.status.success() {
            bail!("`tokometer {line}`: {}", String::from_utf8_lossy(&output.stderr));
        }
        let page: Value = serde_json::from_slice(&output.stdout)?;
        let found = &page["ending"]["answered"]["found"];
        let number = |key: &str| found[key].as_f64();
        let shown = |value: Option<f64>| value.map_or("open".to_owned(), |one| format!("{one:.2}"));
        let (low, high) = (number("low"), number("high"));
        let is_held =
            low.is_none_or(|low| low <= case.truth) && high.is_none_or(|high| high >= case.truth);
        println!(
            "| `{}` | `{}` | {:.2} req/s | {} req/s | {} to {} | {} |",
            case.engine,
            case.slo,
            case.truth,
            shown(number("load")),
            shown(low),
            shown(high),
            if is_held { "yes" } else { "no" }
        );
    }
    Ok(())
}
