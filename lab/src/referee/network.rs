//! One case: a server in its namespace, a capture of what reaches the client's interface, and the client.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokometer_base::{Clock, MonotonicClock};

use crate::namespace::{INTERFACE, NAMESPACE, Namespace, SERVER};
use crate::process::{Kept, Simulator, built, burn, root, shell};

const PORT: u16 = 8_300;

pub(crate) struct Case {
    pub(crate) is_tls: bool,
    pub(crate) is_loaded: bool,
    pub(crate) streams: usize,
    pub(crate) tokens: usize,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let transport = if self.is_tls { "TLS" } else { "plain" };
        let load = if self.is_loaded { "client's core loaded" } else { "quiet" };
        format!("{transport}, {load}")
    }
}

pub(crate) struct Recording {
    pub(crate) capture: PathBuf,
    pub(crate) run: PathBuf,
    pub(crate) port: u16,
    pub(crate) is_tls: bool,
    /// Wall clock minus monotonic clock at the time of the capture.
    pub(crate) wall_offset: i64,
}

/// The server's namespace, and the folder of what is recorded.
pub(crate) struct Network {
    folder: PathBuf,
    _namespace: Namespace,
}

/// Installs the two programs where Debian's packages can be had.
pub(crate) fn install() -> Result<()> {
    let is_there = |name: &str| shell(&format!("command -v {name}")).is_ok();
    if is_there("tcpdump") && is_there("ip") {
        return Ok(());
    }
    shell("apt-get update -qq && apt-get install -y -qq tcpdump iproute2")
        .context("cannot install tcpdump and iproute2")
}

impl Network {
    pub(crate) fn set_up() -> Result<Self> {
        let folder = root().join("target/referee");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, _namespace: Namespace::new()? })
    }

    /// Runs one case: capture, server, client, in this order.
    pub(crate) fn record(&self, case: &Case) -> Result<Recording> {
        let name = case.name().replace([',', ' ', '\''], "-");
        let capture = self.folder.join(format!("{name}.pcap"));
        let run = self.folder.join(format!("{name}.run"));
        let program = built("release", "tokometer").display().to_string();
        let mut server = Command::new("ip");
        server
            .args(["netns", "exec", NAMESPACE, "taskset", "-c", "0", &program])
            .args(["sim", "--host", SERVER, "--port", &PORT.to_string()])
            .args(["--ttft", "50ms", "--itl", "20ms"])
            .args(case.is_tls.then_some("--tls"));
        let _server = Simulator::of(&mut server)?;
        let _dump = Self::start_capture(&capture)?;
        let _load = case.is_loaded.then(|| burn("1")).transpose()?;
        let wall_offset = MonotonicClock.wall_offset();
        Self::drive(case, &program, &run)?;
        // The last packets are on their way from the kernel's ring to the file.
        std::thread::sleep(Duration::from_secs(1));
        Ok(Recording { capture, run, port: PORT, is_tls: case.is_tls, wall_offset })
    }

    fn start_capture(capture: &std::path::Path) -> Result<Kept> {
        let mut dump = Command::new("taskset");
        dump.args(["-c", "0", "tcpdump", "-i", INTERFACE, "-w"])
            .arg(capture)
            .args(["--time-stamp-precision=nano", "-U", "-s", "0", "-B", "65536", "-Z", "root"])
            .args(["tcp", "src", "port", &PORT.to_string()])
            .stderr(Stdio::piped());
        let mut dump = Kept(dump.spawn().context("cannot start tcpdump")?);
        let stderr = dump.0.stderr.take().context("tcpdump has no output")?;
        let mut line = String::new();
        let mut lines = BufReader::new(stderr);
        while lines.read_line(&mut line)? > 0 {
            if line.contains("listening on") {
                // The pipe stays open: a closed one would end tcpdump at its next word.
                std::thread::spawn(move || lines.lines().count());
                return Ok(dump);
            }
        }
        bail!("tcpdump did not start: {line}")
    }

    fn drive(case: &Case, program: &str, run: &std::path::Path) -> Result<()> {
        let scheme = if case.is_tls { "https" } else { "http" };
        let output = Command::new("taskset")
            .args(["-c", "1", program])
            .args(["bench", "--backend", "openai", "--model", "simulated", "--quiet", "--insecure"])
            .args(["--base-url", &format!("{scheme}://{SERVER}:{PORT}")])
            .args(["--num-prompts", &case.streams.to_string()])
            .args(["--dataset-name", "random", "--random-input-len", "16"])
            .args(["--random-output-len", &case.tokens.to_string(), "--no-scrape"])
            .arg("--run-dir")
            .arg(run)
            .output()
            .context("cannot start `tokometer bench`")?;
        ensure!(
            output.status.success(),
            "the client failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
