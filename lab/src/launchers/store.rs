//! Shards on S3-compatible storage, against `moto` from the Python registry.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tokometer_e2e::program::{self, Server};

use super::{SECRET, SHARDS, bench, check, empty_folder};
use crate::process::{Kept, built, cargo, root, shell, wait_for};

/// Builds the program with the feature, and stores and merges two runs.
pub(super) fn run() -> Result<()> {
    let folder = empty_folder("s3")?;
    // The feature is no part of any other stage: it is checked here.
    cargo("clippy --quiet --all-targets --package tokometer --features s3 -- -D warnings")?;
    cargo("build --quiet --package tokometer --features s3")?;
    let program = program::path().parent().context("no folder")?.join("tokometer-s3");
    let _ = std::fs::copy(built("debug", "tokometer"), &program)?;
    let storage = Storage::start(&folder)?;
    let server = Server::quick();
    let url = &server.url;
    storage.alone(&program, url).and_then(|()| storage.led(&program, url))
}

struct Storage {
    endpoint: String,
    folder: PathBuf,
    _server: Kept,
}

impl Storage {
    fn start(folder: &Path) -> Result<Self> {
        let venv = root().join("target/launchers/venv-s3");
        let python = venv.join("bin/python");
        if !python.is_file() {
            shell(&format!("python3 -m venv {}", venv.display()))?;
            shell(&format!("{} -m pip install --quiet 'moto[s3,server]'", python.display()))?;
        }
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start `moto`")?;
        let endpoint = format!("http://{address}");
        let storage = Self { endpoint, folder: folder.to_owned(), _server: Kept(child) };
        wait_for("moto", || TcpStream::connect(address).is_ok())?;
        shell(&format!("curl -sf -X PUT {}/runs > /dev/null", storage.endpoint))?;
        Ok(storage)
    }

    fn command(&self, program: &Path, words: &[String]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.folder).stdin(Stdio::null());
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

    fn run(&self, program: &Path, words: &[String]) -> Result<()> {
        let status = self.command(program, words).status()?;
        if status.success() {
            Ok(())
        } else {
            bail!("`{}` did not pass ({status})", words.join(" "))
        }
    }

    fn merge(&self, program: &Path, prefix: &str) -> Result<()> {
        let out = self.folder.join(format!("merged-{prefix}"));
        let line = format!("merge s3://runs/{prefix} -o {}", out.display());
        self.run(program, &words(&line))?;
        check(&out)
    }

    /// Shards that know nothing of each other.
    fn alone(&self, program: &Path, url: &str) -> Result<()> {
        for rank in 0..SHARDS {
            let mut line = bench(url, Path::new("s3://runs/alone"));
            line.extend(words(&format!("--shard {rank}/{SHARDS}")));
            self.run(program, &line)?;
        }
        self.merge(program, "alone")
    }

    /// Shards with a leader; a second run must not replace the first.
    fn led(&self, program: &Path, url: &str) -> Result<()> {
        let leader = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let line = |rank: u32| {
            let mut line = bench(url, Path::new("s3://runs/led"));
            line.extend(words(&format!("--shard {rank}/{SHARDS} --leader {leader}")));
            line
        };
        let shards: std::io::Result<Vec<Child>> =
            (0..SHARDS).map(|rank| self.command(program, &line(rank)).spawn()).collect();
        for mut shard in shards? {
            let status = shard.wait()?;
            if !status.success() {
                bail!("a shard did not pass ({status})");
            }
        }
        self.merge(program, "led")?;
        if self.run(program, &line(0)).is_ok() {
            bail!("a stored run was replaced");
        }
        Ok(())
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
