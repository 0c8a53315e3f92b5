//! One run from several processes, started by what people start programs with.
//!
//! Real Open MPI and real Slurm from Debian's packages on this machine, the variables of `torchrun`, and
//! records on S3 storage. `cargo xtask manifest` checks the Kubernetes manifest.

mod slurm;
mod store;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};
use tokometer_e2e::program::{self, Server};
use tokometer_record::{RunReader, RunState, Stop};

use crate::process::{announce, root, run as run_command, shell};

const SHARDS: u32 = 3;
const REQUESTS: u64 = 60;
const SECRET: &str = "a secret for this machine alone";

/// In the order in which they run.
const PARTS: [&str; 4] = ["s3", "torchrun", "mpi", "slurm"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let all = PARTS.map(str::to_owned);
    let named = if arguments.is_empty() { &all[..] } else { arguments };
    for part in named {
        announce(&format!("launchers {part}"));
        match part.as_str() {
            "mpi" => mpi()?,
            "s3" => store::run()?,
            "torchrun" => torchrun()?,
            "slurm" => slurm::run()?,
            other => bail!("no launcher is called `{other}`: {}", PARTS.join(", ")),
        }
    }
    Ok(())
}

fn empty_folder(name: &str) -> Result<PathBuf> {
    let folder = root().join("target/launchers").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The same measurement for every launcher.
fn bench(url: &str, folder: &Path) -> String {
    format!("bench --base-url {url} --run-dir {} {}", folder.display(), load())
}

/// Its flags without the server and the folder.
fn load() -> String {
    format!(
        "--model simulated --dataset-name random --input-len 16 --output-len 8 \
         --num-prompts {REQUESTS} --request-rate 60 --seed 1 --shard-wait 60s --quiet"
    )
}

/// Starts all shards at once, and waits for them.
fn together(shard: impl Fn(u32) -> Command) -> Result<()> {
    let shards: std::io::Result<Vec<Child>> = (0..SHARDS).map(|rank| shard(rank).spawn()).collect();
    let ends: std::io::Result<Vec<_>> = shards?.iter_mut().map(Child::wait).collect();
    if let Some(bad) = ends?.iter().find(|status| !status.success()) {
        bail!("a shard did not pass ({bad})");
    }
    Ok(())
}

/// Checks that a run has all of its shards and all of its requests.
#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
fn check(folder: &Path) -> Result<()> {
    let reader = RunReader::open(folder)?;
    let merged = reader.info().merged().context("the run was not merged from shards")?;
    let RunState::Ended(end) = reader.state()? else { bail!("the run has no end") };
    let requests =
        reader.timelines()?.filter(tokometer_record::Timeline::is_success).count() as u64;
    if end.stop != Stop::Complete || !merged.is_whole() || requests != REQUESTS {
        bail!("{:?}: {requests} of {REQUESTS} requests, {merged:?}", end.stop);
    }
    eprintln!("   {} shards, {requests} requests: {}", merged.count, folder.display());
    Ok(())
}

fn mpi() -> Result<()> {
    if shell("mpirun --version > /dev/null").is_err() {
        bail!("there is no `mpirun`: apt-get install openmpi-bin");
    }
    let folder = empty_folder("mpi")?.join("run");
    let server = Server::quick();
    let count = SHARDS.to_string();
    run_command(
        Command::new("mpirun")
            .args(["--allow-run-as-root", "--oversubscribe", "-n", &count])
            .arg(program::path())
            .args(bench(&server.url, &folder).split_whitespace())
            .env("TOKOMETER_SHARD_SECRET", SECRET),
    )?;
    check(&folder)
}

/// The variables that `torchrun` sets, by hand: `torch` is too large for a test.
fn torchrun() -> Result<()> {
    let folder = empty_folder("torchrun")?.join("run");
    let server = Server::quick();
    // The leader takes the port after that of the launcher.
    let port = program::free_port() - 1;
    together(|rank| {
        let mut shard = Command::new(program::path());
        shard
            .args(bench(&server.url, &folder).split_whitespace())
            .args(["--shards", &SHARDS.to_string()])
            .env("TOKOMETER_SHARD_SECRET", SECRET)
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", SHARDS.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string());
        shard
    })?;
    check(&folder)
}
