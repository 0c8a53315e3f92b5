//! The built program in network namespaces, with clocks whose true offset the kernel knows.
//!
//! Shard 0 reads this machine's clock. Two others are in time namespaces, whose monotonic clocks are
//! ahead by whole seconds. Their requests and their messages to shard 0 take the same relay.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tokometer_base::Nanos;
use tokometer_e2e::program;
use tokometer_record::{ClockFit, RunReader};

use super::super::{SECRET, SHARDS, bench, check, place, wait_for};
use super::{ADDRESS, Processes, Scene, Seen};

/// How far the clocks of shards 1 and 2 are ahead of that of shard 0, in seconds.
const AHEAD_SECS: [u32; 2] = [3_600, 86_400];

const SERVER: &str = "10.77.0.1";
const SERVER_PORT: &str = "8077";

/// A command inside of the network namespace of a process, with its clock ahead.
fn inside(namespace: u32, ahead_secs: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{namespace}/ns/net"));
    command.args(["unshare", "--time", "--monotonic", &ahead_secs.to_string(), "--"]);
    command.arg(program::path()).stdin(Stdio::null());
    command
}

fn shard(rank: u32, command: &mut Command, run: &Path) -> Result<Child> {
    let words = bench(&format!("http://{SERVER}:{SERVER_PORT}"), run);
    command.args(words).args(["--shard", &format!("{rank}/{SHARDS}"), "--leader", ADDRESS]);
    command.env("TOKOMETER_SHARD_SECRET", SECRET);
    command.spawn().context("cannot start `nsenter`")
}

/// One run of all shards. Returns the clock of every shard but the leader's.
pub(super) fn measure(scene: &Scene, number: usize) -> Result<Vec<Seen>> {
    let run = place(&format!("namespaces/program{number}"))?.join("run");
    let mut processes = Processes(Vec::new());
    let (a, b) = (processes.namespace()?, processes.namespace()?);
    processes.relay((a, b), scene)?;
    let mut server = inside(a, 0);
    server.args(["sim", "--host", SERVER, "--port", SERVER_PORT, "--ttft", "5ms", "--itl", "1ms"]);
    server.stdout(Stdio::null()).stderr(Stdio::null());
    processes.0.push(server.spawn().context("cannot start the simulated server")?);
    wait_for("the simulated server", || {
        super::inside(a, || Ok(std::net::TcpStream::connect((SERVER, 8077))?)).is_ok()
    })?;
    let [first, second] = AHEAD_SECS;
    let mut shards = vec![shard(0, &mut inside(a, 0), &run)?];
    shards.push(shard(1, &mut inside(b, first), &run)?);
    shards.push(shard(2, &mut inside(b, second), &run)?);
    for (rank, shard) in shards.iter_mut().enumerate() {
        let status = shard.wait()?;
        if !status.success() {
            bail!("shard {rank} did not pass ({status})");
        }
    }
    check(&run)?;
    let reader = RunReader::open(&run)?;
    let merged = reader.info().merged().context("the run was not merged")?;
    let others = merged.shards.iter().filter(|shard| shard.rank > 0).zip(AHEAD_SECS);
    others.map(|(shard, ahead)| Ok(seen(shard.clock.context("no offset")?, ahead))).collect()
}

/// What the measured offset is worth: the true one is whole seconds.
fn seen(fit: ClockFit, ahead_secs: u32) -> Seen {
    let truth = -i64::from(ahead_secs) * 1_000_000_000;
    let span = fit.to - fit.from;
    let at = |part: u64| fit.from + Nanos(span.0 / 20 * part);
    let error = (0..=20).map(at).map(|at| fit.offset_at(at).abs_diff(truth));
    Seen { fit, error: error.max().unwrap_or(u64::MAX) }
}
