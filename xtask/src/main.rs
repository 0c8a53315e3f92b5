//! The gate and the distribution: `cargo xtask ci`, `tidy`, `dist`.
//!
//! Plain steps that call cargo and read files. Nothing here is part of the product. What takes long and
//! is run by hand (real servers, benchmarks, fuzzing, studies) is `cargo lab`.

mod ci;
mod dist;
mod licences;
mod manifest;
mod provision;
mod servers;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask TASK

  ci        everything that must pass: format, tidy, clippy, tests, docs [--install]
  tidy      the project's own rules, from files alone
  dist      everything that users install: binary, wheel, archive [--target TRIPLE] [--host-libc]
  server    installs a real inference server below target/real: NAME [--gpu]
  manifest  the Kubernetes manifest against the schemas of the API

Benchmarks, fuzzing, real servers, studies: `cargo lab`
";

fn run(arguments: &[String]) -> Result<()> {
    let task = arguments.first().map_or("", String::as_str);
    match task {
        "ci" => ci::run(&arguments[1..]),
        "tidy" => tidy::run(),
        "dist" => dist::run(&arguments[1..]),
        "server" => servers::run(&arguments[1..]),
        "manifest" => manifest::run(),
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
