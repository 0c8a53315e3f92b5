//! The program under test and where its runs go.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokometer_record::{Phase, RunReader, Timeline};

/// The program, its target and a folder for its runs.
pub(super) struct Stage {
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) url: String,
    pub(super) counters_url: String,
    pub(super) key: Option<&'static str>,
    /// The model's path, for flags that name it.
    pub(super) model: PathBuf,
}

pub(super) struct FinishedRun {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) folder: PathBuf,
}

impl FinishedRun {
    pub(super) fn exited(&self, code: i32) -> Result<()> {
        if self.code != Some(code) {
            bail!("exit code {:?} instead of {code}: {}", self.code, self.last_words());
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> Result<Vec<Timeline>> {
        let rows = RunReader::open(&self.folder)?.timelines()?;
        Ok(rows.filter(|row| row.identity.phase == Phase::Measure).collect())
    }

    pub(super) fn summary(&self) -> Result<Value> {
        let page: Value = serde_json::from_str(&self.stdout)
            .with_context(|| format!("the program printed no JSON: {}", self.stderr.trim()))?;
        Ok(page["summary"].clone())
    }

    pub(super) fn last_words(&self) -> String {
        let line = self.stderr.lines().rfind(|line| line.starts_with("error"));
        line.unwrap_or("no error was printed").to_owned()
    }
}

impl Stage {
    pub(super) fn bench(&self, name: &str, flags: &str) -> Result<FinishedRun> {
        let folder = self.folder.join(name);
        let output = self.command(flags, &folder).output().context("cannot start tokometer")?;
        Ok(ended(&output, folder))
    }

    /// Measures until a first request has ended, and interrupts.
    pub(super) fn interrupted(&self, name: &str, flags: &str) -> Result<FinishedRun> {
        let folder = self.folder.join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = self.command(flags, &folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start tokometer")?;
        while !has_rows(&folder) && child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
        let output = child.wait_with_output()?;
        Ok(ended(&output, folder))
    }

    fn command(&self, flags: &str, folder: &Path) -> Command {
        let flags = flags.replace("{model}", &self.model.display().to_string());
        let mut command = Command::new(&self.program);
        command
            .arg("bench")
            .args(["--base-url", &self.url, "--metrics-url", &self.counters_url])
            .args(flags.split_whitespace())
            .args(["--dataset-name", "random", "--format", "json", "--run-dir"])
            .arg(folder)
            .current_dir(&self.folder)
            .env("HF_HUB_OFFLINE", "1")
            .env_remove("OPENAI_API_KEY")
            .stdin(Stdio::null());
        if let Some(key) = self.key {
            command.env("OPENAI_API_KEY", key);
        }
        command
    }
}

fn ended(output: &std::process::Output, folder: PathBuf) -> FinishedRun {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    FinishedRun { code: output.status.code(), stdout, stderr, folder }
}

fn has_rows(folder: &Path) -> bool {
    let reader = RunReader::open(folder);
    reader.and_then(|reader| Ok(reader.timelines()?.next().is_some())).unwrap_or(false)
}
