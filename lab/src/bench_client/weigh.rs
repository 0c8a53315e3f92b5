//! `lab weigh PROGRAM ARGUMENTS…`: runs a command and says what it took from start to exit.

use std::process::Command;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    /// User and system time.
    pub(crate) cpu_secs: f64,
    pub(crate) peak_bytes: u64,
}

/// Runs the command, and prints its weight as the last line on standard error. It is the only child of
/// this process, so the kernel's sums over all children are its own.
#[expect(clippy::print_stderr, reason = "the parent process reads it")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [program, arguments @ ..] = arguments else {
        bail!("usage: cargo lab weigh PROGRAM ARGUMENTS");
    };
    let status = Command::new(program)
        .args(arguments)
        .status()
        .with_context(|| format!("cannot start `{program}`"))?;
    if !status.success() {
        bail!("`{program}` failed: {status}");
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let peak_bytes = u64::try_from(usage.max_rss())? * 1024;
    eprintln!("{}", json!({ "cpu_secs": micros as f64 / 1e6, "peak_bytes": peak_bytes }));
    Ok(())
}

impl Weight {
    /// From what the process of the command printed on standard error.
    pub(crate) fn read(stderr: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(stderr);
        let line = text.lines().last().context("the weight is missing")?;
        let value: Value =
            serde_json::from_str(line).with_context(|| format!("`{line}` is no weight"))?;
        let cpu_secs = value["cpu_secs"].as_f64().context("the weight has no CPU time")?;
        let peak_bytes = value["peak_bytes"].as_u64().context("the weight has no memory")?;
        Ok(Self { cpu_secs, peak_bytes })
    }
}
