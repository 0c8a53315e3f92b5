//! Project tasks: `cargo xtask ci`, `tidy`, and the benchmarks that compare with a floor.
//!
//! Plain steps that call cargo and read files. Nothing here is part of the product.

mod bench_client;
mod book;
mod ci;
mod dist;
mod fuzz;
mod large_run;
mod launchers;
mod licences;
mod process;
mod provision;
mod real;
mod referee;
mod soak;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask TASK

  ci             everything that must pass: format, tidy, clippy, tests, docs [--install]
  tidy           the project's own rules, from files alone
  book           the documentation as a site in target/book, with mdBook [--install]
  bench-client   the client against a bare floor reader, in one pass [SCENE]
  dist           everything that users install: binary, wheel, archive [--target TRIPLE] [--host-libc]
  fuzz           coverage-guided fuzzing of everything that reads bytes: --seconds N [TARGET]
  large-run      a run folder of any size, for measurements of `report`: REQUESTS TOKENS FOLDER
  launchers      one run from several processes, under Open MPI and Slurm: [manifest|thousand|namespaces|s3|torchrun|mpi|slurm]
  referee        a packet capture judges the client's times (root, tcpdump)
  soak           rounds of runs against a chaotic simulator: --minutes N --seed S [--round N]
  real           the program against a real server that is installed and started for it: --server NAME

Studies (evidence, aa, verdicts, …): `cargo lab`
";

fn run(arguments: &[String]) -> Result<()> {
    let task = arguments.first().map_or("", String::as_str);
    match task {
        "ci" => ci::run(&arguments[1..]),
        "tidy" => tidy::run(),
        "book" => book::run(&arguments[1..]),
        "bench-client" => bench_client::run(arguments.get(1).map(String::as_str)),
        "floor" => bench_client::run_floor(&arguments[1..]),
        "weigh" => bench_client::weigh::run(&arguments[1..]),
        "dist" => dist::run(&arguments[1..]),
        "fuzz" => fuzz::run(&arguments[1..]),
        "large-run" => large_run::run(&arguments[1..]),
        "launchers" => launchers::run(&arguments[1..]),
        "referee" => referee::run(),
        "soak" => soak::run(&arguments[1..]),
        "real" => real::run(&arguments[1..]),
        "" | "help" | "--help" | "-h" => bail!("{USAGE}"),
        other => bail!("no task is called `{other}`\n{USAGE}"),
    }
}

#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
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
