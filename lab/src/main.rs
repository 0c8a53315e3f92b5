//! Studies of the instrument and of its engine model: `cargo lab STUDY`.
//!
//! Each study prints or writes a table of `lab/data` or `docs`. None is part of the product or of the
//! gate; `lab/README.md` says what each is for.

mod aa;
mod aa_virtual;
mod capacity;
mod coverage;
mod evidence;
mod plain_runs;
#[path = "../../xtask/src/process.rs"]
mod process;
mod program;
mod prompts;
mod read_cost;
mod seeds;
mod speed;
mod verdicts;
mod virtual_runs;
mod words;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo lab STUDY

  evidence    a calibrated model predicts runs of a real server that no fit has seen: run, table, plan
  seeds       the engine model fitted to the seed reports: DIR [SEARCHES] [vllm|tgi|all|others] [OUT] [THREADS] [SEED]
  aa          false alarms and power of `compare` on the simulator: [COUNT [PROGRAM]]
  aa-virtual  the same in virtual time at 30, 60 and 90 % of capacity, with restarts: [STARTS [LOAD]]
  verdicts    whether the verdict about each figure is right under disturbances: [--all] [--fresh] [--minutes=N] [--step-clock] [PROGRAM]
  plain-runs  how often a plain bench comes out VALID: [COUNT [PROGRAM]]
  capacity    the search for capacity against known truths: [SEARCHES] [budget=TIME] [from=SEED] [curve] [truth] [verbose] [case=N]
  coverage    how often stated intervals hold the figure: [RUNS [REQUESTS [ENGINE]]] [from=SEED] [loads=60,85] [each=FILE]
  capacity-clock  three of these searches on the clock, about 90 minutes: [PROGRAM]
  speed       how fast virtual time runs: [REPLICAS REQUESTS [ROUTER]]
  read-cost   what reading one event costs
  prompts     lengths and speed of prompt making: TOKENIZER [DATASET FILE]
  words       the tables of safe words: FOLDER < TEXT
";

fn run(arguments: &[String]) -> Result<()> {
    let (study, rest) =
        arguments.split_first().map_or(("", arguments), |(word, rest)| (word, rest));
    match study {
        "evidence" => evidence::run(rest)?,
        "seeds" => seeds::run(rest)?,
        "aa" => aa::run(rest)?,
        "aa-virtual" => aa_virtual::run_study(rest),
        "verdicts" => verdicts::run(rest)?,
        "plain-runs" => plain_runs::run(rest)?,
        "capacity" => capacity::run(rest)?,
        "coverage" => coverage::run(rest)?,
        "capacity-clock" => capacity::clock::run(rest)?,
        "speed" => speed::run(rest),
        "read-cost" => read_cost::run(),
        "prompts" => prompts::run(rest)?,
        "words" => words::run(rest)?,
        "" | "help" | "--help" | "-h" => bail!("{USAGE}"),
        other => bail!("unknown study `{other}`\n{USAGE}"),
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a study reports to whoever started it")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}
