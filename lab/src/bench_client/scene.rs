//! One case of the benchmark: a server on core 0, a reader on core 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::floor::Pace;
use super::table::TableRow;
use super::weigh::Weight;
use super::{BURST_TOKENS, FLOOD_EVENTS, FLOOD_PASSES, PACED_PASSES, WHOLE_TOKENS};
use crate::process::{Simulator, built, root};

/// A case.
pub(crate) enum Scene {
    /// The server sends as fast as the sockets take it.
    Flood { streams: usize, tokens: usize, events_per_write: usize },
    /// The same with full requests, weighed from start to exit.
    Whole { streams: usize, events_per_write: usize },
    /// All requests at once, with short answers that begin after all were sent.
    Burst { requests: usize },
    /// All streams start at once, first token after 50 ms, then one each 20 ms.
    Paced { streams: usize, tokens: usize },
}

impl Scene {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Flood { streams, events_per_write, .. } => {
                format!("flood, {events_per_write} per write, {streams} streams")
            }
            Self::Whole { streams, events_per_write } => {
                format!("whole, {events_per_write} per write, {streams} streams")
            }
            Self::Burst { requests } => format!("burst of {requests}"),
            Self::Paced { streams, .. } => format!("paced 20 ms, {streams} streams"),
        }
    }

    /// How often each reader is measured.
    pub(crate) fn passes(&self) -> usize {
        match self {
            Self::Flood { .. } | Self::Whole { .. } | Self::Burst { .. } => FLOOD_PASSES,
            Self::Paced { .. } => PACED_PASSES,
        }
    }

    pub(crate) fn streams(&self) -> usize {
        match self {
            Self::Flood { streams, .. }
            | Self::Whole { streams, .. }
            | Self::Paced { streams, .. }
            | Self::Burst { requests: streams } => *streams,
        }
    }

    fn requests(&self) -> usize {
        match self {
            Self::Whole { .. } => FLOOD_EVENTS / WHOLE_TOKENS,
            _ => self.streams(),
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Self::Flood { tokens, .. } | Self::Paced { tokens, .. } => *tokens,
            Self::Whole { .. } => WHOLE_TOKENS,
            Self::Burst { .. } => BURST_TOKENS,
        }
    }

    fn server_flags(&self) -> Vec<String> {
        let words = match self {
            Self::Flood { events_per_write, .. } | Self::Whole { events_per_write, .. } => {
                format!("--flood {events_per_write}")
            }
            Self::Burst { .. } => "--ttft 1s --itl 20ms".to_owned(),
            Self::Paced { .. } => "--ttft 50ms --itl 20ms".to_owned(),
        };
        words.split(' ').map(str::to_owned).collect()
    }
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
        command.args(["sim", "--port", "0", "--truth"]).arg(&truth).args(scene.server_flags());
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

/// Runs the floor reader as a child on core 1.
pub(crate) fn floor_in_child(scene: &Scene, server: &Server, pace: Pace) -> Result<Value> {
    let output = weighed(1, &std::env::current_exe()?)?
        .arg("floor")
        .arg(server.url().trim_start_matches("http://"))
        .arg(scene.streams().to_string())
        .arg(scene.requests().to_string())
        .arg(scene.tokens().to_string())
        .arg(pace.name())
        .output()
        .context("cannot start the floor reader")?;
    if !output.status.success() {
        bail!("the floor reader failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut effort: Value = serde_json::from_slice(&output.stdout)
        .context("cannot read what the floor reader printed")?;
    if let Scene::Whole { .. } = scene {
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
pub(crate) fn client(scene: &Scene, mut server: Server, harvest: &str) -> Result<TableRow> {
    let folder = server.folder.join("run");
    let output = weighed(1, &built("release", "tokometer"))?
        .args(["bench", "--backend", "openai", "--quiet", "--request-id-prefix", "truth-"])
        .args(["--base-url", server.url()])
        .args(["--num-prompts", &scene.requests().to_string()])
        .args(["--max-concurrency", &scene.streams().to_string()])
        .args(["--dataset-name", "random", "--random-input-len", "16"])
        .args(["--random-output-len", &scene.tokens().to_string()])
        .args(["--connections", "preopen", "--harvest", harvest, "--no-scrape", "--run-dir"])
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
        TableRow::client(scene, harvest, &serde_json::from_slice(&kept)?, &folder, &server.truth)?;
    Ok(match scene {
        Scene::Whole { .. } => row.weighing(Weight::read(&output.stderr)?),
        _ => row,
    })
}
