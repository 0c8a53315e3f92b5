//! The embedded simulated server: this program as a child process.
//!
//! It is a separate process because a server inside the client would share its threads, descriptors
//! and clock reads, and make every figure look better. The child prints its address on a pipe and
//! exits when its standard input closes, so it never outlives this process.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use tokometer_client::{Dialect, Url};

use crate::{Error, ErrorKind};

/// A running simulated server. Dropping it ends the process.
#[derive(Debug)]
pub struct Simulator {
    child: Child,
    url: Url,
}

#[derive(Debug)]
pub struct SimulatorOptions<'a> {
    pub profile: &'a str,
    /// The server whose streams it imitates.
    pub dialect: &'a Dialect,
    /// Name of its model. `None` uses the default.
    pub model: Option<&'a str>,
}

impl Simulator {
    pub fn start(wanted: &SimulatorOptions<'_>) -> Result<Self, Error> {
        let mut flags = vec!["--profile", wanted.profile, "--flavour", wanted.dialect.flavour()];
        flags.extend(wanted.model.into_iter().flat_map(|model| ["--model", model]));
        Self::launch(&flags.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    /// Starts a server with these flags on a free port, and waits until it listens.
    pub fn launch(flags: &[String]) -> Result<Self, Error> {
        let fault = |why: String| {
            Error::new(ErrorKind::Target, format!("cannot start the simulated server: {why}"))
        };
        let program = std::env::current_exe().map_err(|why| fault(why.to_string()))?;
        let mut command = Command::new(program);
        command
            .args(["sim", "--port", "0", "--follow-stdin"])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Ctrl-C reaches the terminal's whole process group; the server must outlive the drain.
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

    /// Its base URL on loopback.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A child that has already exited cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
