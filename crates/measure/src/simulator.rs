//! The embedded simulated server: this same program as a child process.
//!
//! A process of its own, because a server in the client's process would share its threads, its
//! descriptors and its clock reads, and flatter every figure. The child prints its address on a
//! pipe and lives until its standard input closes, so it never outlives us, whatever happens.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use tokometer_client::{Dialect, Url};

use crate::error::{Error, Kind};

/// A running simulated server. It ends when this is dropped.
#[derive(Debug)]
pub struct Simulator {
    child: Child,
    url: Url,
}

/// What a simulated server is asked to be.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Its engine profile.
    pub profile: &'a str,
    /// Whose streams it imitates.
    pub dialect: &'a Dialect,
    /// The name of its model.
    pub model: Option<&'a str>,
}

impl Simulator {
    /// Starts one with an engine.
    pub fn start(wanted: &Wanted<'_>) -> Result<Self, Error> {
        let mut flags = vec!["--profile", wanted.profile, "--flavour", wanted.dialect.flavour()];
        flags.extend(wanted.model.into_iter().flat_map(|model| ["--model", model]));
        Self::launch(&flags.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    /// Starts one with these flags on a free port and waits until it listens.
    pub fn launch(flags: &[String]) -> Result<Self, Error> {
        let fault = |why: String| {
            Error::new(Kind::Target, format!("cannot start the simulated server: {why}"))
        };
        let program = std::env::current_exe().map_err(|why| fault(why.to_string()))?;
        let mut command = Command::new(program);
        command
            .args(["sim", "--port", "0", "--follow-stdin"])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Ctrl-C reaches a terminal's whole process group; the server must outlive the drain.
            .process_group(0);
        let mut child = command.spawn().map_err(|why| fault(why.to_string()))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let _read = BufReader::new(stdout).read_line(&mut line);
        }
        if let Some(Ok(url)) = line.split_whitespace().last().map(Url::parse) {
            return Ok(Self { child, url });
        }
        let _ = child.wait();
        Err(fault("it exited before listening".to_owned()).hint("see its message above"))
    }

    /// Where it listens.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A child that is already gone cannot be killed, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
