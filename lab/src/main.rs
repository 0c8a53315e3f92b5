//! Long tasks and studies: `cargo lab TASK`.
//!
//! Benchmarks, fuzzing, real servers, and studies of the instrument and its engine model. Each study prints
//! a table of `lab/data` or `docs`. None is part of the product; the gate only type-checks them.
//! `lab/README.md` says what each is for.

mod bench_client;
mod capacity;
mod coverage;
mod fuzz;
mod launchers;
mod namespace;
mod plain_runs;
mod process;
mod real;
mod referee;
mod soak;
mod verdicts;
mod virtual_runs;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tokometer_e2e::large_run::{RunSize, write};

const USAGE: &str = "usage: cargo lab TASK

  bench-client   the client against a bare floor reader, in one pass [SCENE]
  referee        a packet capture judges the client's times (root, tcpdump)
  real           the program against a real server that is installed and started for it: --server NAME
  launchers      one run from several processes: [torchrun|mpi|slurm]
  fuzz           coverage-guided fuzzing of everything that reads bytes: --seconds N [TARGET]
  soak           rounds of runs against a chaotic simulator: --minutes N --seed S [--round N]
  large-run      a run folder of any size, for measurements of `report`: REQUESTS TOKENS FOLDER

  verdicts       whether the verdict about each figure is right under disturbances: [--all] [--fresh] [--minutes=N] [--step-clock] [PROGRAM]
  plain-runs     how often a plain bench comes out VALID: [COUNT [PROGRAM]]
  capacity       the search for capacity against known truths: [SEARCHES] [budget=TIME] [from=SEED] [truth] [verbose] [case=N]
  coverage       how often stated intervals contain the figure: [RUNS [REQUESTS [ENGINE]]] [from=SEED] [loads=60,85]
";

fn run(arguments: &[String]) -> Result<()> {
    let (task, rest) = arguments.split_first().map_or(("", arguments), |(word, rest)| (word, rest));
    match task {
        "bench-client" => bench_client::run(rest.first().map(String::as_str))?,
        "floor" => bench_client::run_floor(rest)?,
        "weigh" => bench_client::weigh::run(rest)?,
        "referee" => referee::run()?,
        "real" => real::run(rest)?,
        "launchers" => launchers::run(rest)?,
        "fuzz" => fuzz::run(rest)?,
        "soak" => soak::run(rest)?,
        "large-run" => large_run(rest)?,
        "verdicts" => verdicts::run(rest)?,
        "plain-runs" => plain_runs::run(rest)?,
        "capacity" => capacity::run(rest)?,
        "coverage" => coverage::run(rest)?,
        "" | "help" | "--help" | "-h" => bail!("{USAGE}"),
        other => bail!("unknown task `{other}`\n{USAGE}"),
    }
    Ok(())
}

fn large_run(arguments: &[String]) -> Result<()> {
    let [requests, tokens, folder] = arguments else {
        bail!("usage: cargo lab large-run REQUESTS TOKENS FOLDER")
    };
    let number = |word: &str| word.parse().with_context(|| format!("`{word}` is not a number"));
    let size = RunSize { requests: number(requests)?, tokens: number(tokens)? };
    Ok(write(Path::new(folder), size)?)
}

#[expect(clippy::print_stderr, reason = "a task reports to whoever started it")]
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
