//! Shards on S3-compatible storage, against `moto` from the Python registry.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tokometer_e2e::program::{self, Server};

use super::{SECRET, SHARDS, bench, check, empty_folder, together};
use crate::process::{self, Kept, built, cargo, free_port, root, shell, wait_for};

/// Builds the program with the feature, and stores and merges two runs.
pub(super) fn run() -> Result<()> {
    let folder = empty_folder("s3")?;
    // The feature is no part of any other stage: it is checked here.
    cargo("clippy --quiet --all-targets --package tokometer --features s3 -- -D warnings")?;
    cargo("build --quiet --package tokometer --features s3")?;
    let program = program::path().parent().context("no folder")?.join("tokometer-s3");
    let _ = std::fs::copy(built("debug", "tokometer"), &program)?;
    let storage = Storage::start(folder, program)?;
    let server = Server::quick();
    storage.alone(&server.url)?;
    storage.led(&server.url)
}

struct Storage {
    endpoint: String,
    folder: PathBuf,
    program: PathBuf,
    _server: Kept,
}

impl Storage {
    fn start(folder: PathBuf, program: PathBuf) -> Result<Self> {
        let venv = root().join("target/launchers/venv-s3");
        let python = venv.join("bin/python");
        if !python.is_file() {
            shell(&format!("python3 -m venv {}", venv.display()))?;
            shell(&format!("{} -m pip install --quiet 'moto[s3,server]'", python.display()))?;
        }
        let port = free_port();
        let child = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start `moto`")?;
        let endpoint = format!("http://127.0.0.1:{port}");
        let storage = Self { endpoint, folder, program, _server: Kept(child) };
        wait_for("moto", || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        shell(&format!("curl -sf -X PUT {}/runs > /dev/null", storage.endpoint))?;
        Ok(storage)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(line.split_whitespace()).current_dir(&self.folder).stdin(Stdio::null());
        command.env("TOKOMETER_SHARD_SECRET", SECRET);
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ENDPOINT", &self.endpoint),
        ] {
            command.env(name, value);
        }
        command
    }

    fn merge(&self, prefix: &str) -> Result<()> {
        let out = self.folder.join(format!("merged-{prefix}"));
        let line = format!("merge s3://runs/{prefix} -o {}", out.display());
        process::run(&mut self.command(&line))?;
        check(&out)
    }

    /// Shards that know nothing of each other.
    fn alone(&self, url: &str) -> Result<()> {
        let bench = bench(url, Path::new("s3://runs/alone"));
        for rank in 0..SHARDS {
            process::run(&mut self.command(&format!("{bench} --shard {rank}/{SHARDS}")))?;
        }
        self.merge("alone")
    }

    /// Shards with a leader; a second run must not replace the first.
    fn led(&self, url: &str) -> Result<()> {
        let (leader, bench) = (free_port(), bench(url, Path::new("s3://runs/led")));
        let shard = |rank: u32| {
            self.command(&format!("{bench} --shard {rank}/{SHARDS} --leader 127.0.0.1:{leader}"))
        };
        together(shard)?;
        self.merge("led")?;
        if process::run(&mut shard(0)).is_ok() {
            bail!("a stored run was replaced");
        }
        Ok(())
    }
}
