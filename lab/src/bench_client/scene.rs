//! One case of the benchmark: a server on core 0, a reader on core 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::table::TableRow;
use super::weigh::Weight;
use crate::process::{Simulator, built, root};

pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Requests in flight.
    pub(crate) streams: usize,
    pub(crate) requests: usize,
    /// Of each answer.
    pub(crate) tokens: usize,
    /// Of the simulated server.
    pub(crate) flags: String,
}

/// What is measured of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What reading costs.
    Read,
    /// What the program costs from its start to its exit.
    Whole,
    /// Also the error against the server's truth log, since the server waits between tokens.
    Paced,
}

/// A command bound to one core. Without `taskset` the two processes would share both cores and the
/// figures would tell of the scheduler.
fn pinned(core: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// A running simulator with its truth log. It is ended when dropped.
pub(crate) struct Server {
    simulator: Simulator,
    truth: PathBuf,
    folder: PathBuf,
}

impl Server {
    pub(crate) fn start(scene: &Scene) -> Result<Self> {
        let folder = root().join("target/bench-client").join(std::process::id().to_string());
        fs::create_dir_all(&folder)?;
        let truth = folder.join("truth");
        let mut command = pinned(0, &built("release", "tokometer"));
        command.args(["sim", "--port", "0", "--truth"]).arg(&truth).args(scene.flags.split(' '));
        Ok(Self { simulator: Simulator::of(&mut command)?, truth, folder })
    }

    fn url(&self) -> &str {
        &self.simulator.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn floor_in_child(scene: &Scene, server: &Server, pace: &str) -> Result<Value> {
    let output = weighed(1, &std::env::current_exe()?)?
        .arg("floor")
        .arg(server.url().trim_start_matches("http://"))
        .arg(scene.streams.to_string())
        .arg(scene.requests.to_string())
        .arg(scene.tokens.to_string())
        .arg(pace)
        .output()
        .context("cannot start the floor reader")?;
    if !output.status.success() {
        bail!("the floor reader failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut effort: Value = serde_json::from_slice(&output.stdout)
        .context("cannot read what the floor reader printed")?;
    if scene.kind == Kind::Whole {
        let Weight { cpu_secs, peak_bytes } = Weight::read(&output.stderr)?;
        effort["cpu_secs"] = cpu_secs.into();
        effort["peak_bytes"] = peak_bytes.into();
    }
    Ok(effort)
}

/// The same as [`pinned`], in a process that says what the command took in all.
fn weighed(core: usize, program: &Path) -> Result<Command> {
    let mut command = pinned(core, &std::env::current_exe()?);
    command.arg("weigh").arg(program);
    Ok(command)
}

/// Runs our client on core 1 and compares its record with the truth log.
pub(crate) fn client(scene: &Scene, mut server: Server, reads: &str) -> Result<TableRow> {
    let folder = server.folder.join("run");
    let output = weighed(1, &built("release", "tokometer"))?
        .args(["bench", "--backend", "openai", "--quiet", "--request-id-prefix", "truth-"])
        .args(["--base-url", server.url()])
        .args(["--num-prompts", &scene.requests.to_string()])
        .args(["--max-concurrency", &scene.streams.to_string()])
        .args(["--dataset-name", "random", "--random-input-len", "16"])
        .args(["--random-output-len", &scene.tokens.to_string()])
        .args(["--connections", "preopen", "--socket-reads", reads, "--no-scrape", "--run-dir"])
        .arg(&folder)
        .output()
        .context("cannot start `tokometer bench`")?;
    if !output.status.success() {
        bail!("the client failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    // The truth log is whole once its writer has ended.
    server.simulator.stop()?;
    let kept = fs::read(folder.join("end.json"))?;
    let row =
        TableRow::client(scene, reads, &serde_json::from_slice(&kept)?, &folder, &server.truth)?;
    Ok(match scene.kind {
        Kind::Whole => row.weighing(Weight::read(&output.stderr)?),
        Kind::Read | Kind::Paced => row,
    })
}
