//! What tasks and studies start: the built program, simulated servers, shell lines, and their ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
pub(crate) use tokometer_e2e::program::{free_port, root};

/// A server that does not end by itself in this time is killed.
const LONGEST_END: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

#[expect(clippy::print_stderr, reason = "a task reports its progress to whoever started it")]
pub(crate) fn announce(step: &str) {
    eprintln!("── {step}");
}

/// Runs cargo in the checkout, showing what it prints.
pub(crate) fn cargo(line: &str) -> Result<()> {
    announce(&format!("cargo {line}"));
    run(Command::new(env!("CARGO")).args(line.split_whitespace()).current_dir(root()))
}

/// Runs a command that must succeed, showing what it prints.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    ensure!(status.success(), "{shown} did not pass ({status})");
    Ok(())
}

/// Runs a line of the shell. What it prints is shown only when it fails.
pub(crate) fn shell(line: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output()?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{line}`: {} ({})", why.trim(), output.status);
    Ok(())
}

pub(crate) fn built(profile: &str, name: &str) -> PathBuf {
    let target =
        option_env!("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join(profile).join(name)
}

/// A process that is killed when dropped.
pub(crate) struct Kept(pub(crate) Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A simulated server. It ends when dropped.
pub(crate) struct Simulator {
    pub(crate) url: String,
    child: Kept,
}

impl Simulator {
    /// On a free port of loopback. It also ends with the pipe that it follows.
    pub(crate) fn start(program: &Path, flags: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        Self::of(command.args(["sim", "--port", "0", "--follow-stdin"]).args(flags))
    }

    pub(crate) fn of(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Kept(command.spawn().context("cannot start the simulated server")?);
        let line = first_line(&mut child.0)?;
        let url = line.split_whitespace().last().unwrap_or_default().to_owned();
        ensure!(url.starts_with("http"), "the simulated server does not listen: {line}");
        Ok(Self { url, child })
    }

    /// Asks it to end and waits until its logs are written.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let _ = kill(pid(self.child.0.id()), Signal::SIGTERM);
        self.child.0.wait().map(drop).context("cannot wait for the simulated server")
    }
}

pub(crate) fn first_line(child: &mut Child) -> Result<String> {
    let stdout = child.stdout.take().context("the process has no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(line)
}

/// A process that takes all it can get of one core.
pub(crate) fn burn(core: &str) -> Result<Kept> {
    let child = Command::new("taskset")
        .args(["-c", core, "sh", "-c", "while :; do :; done"])
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start a busy program")?;
    Ok(Kept(child))
}

/// The number behind an option, where it is given.
pub(crate) fn number(arguments: &[String], name: &str) -> Result<Option<u64>> {
    let Some(at) = arguments.iter().position(|word| word == name) else { return Ok(None) };
    let word = arguments.get(at + 1).with_context(|| format!("`{name}` needs a number"))?;
    word.parse().map(Some).with_context(|| format!("cannot use `{name} {word}`"))
}

pub(crate) fn wait_for(what: &str, is_there: impl Fn() -> bool) -> Result<()> {
    for _ in 0..300 {
        if is_there() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bail!("{what} did not come up within a minute")
}

/// Asks a server to end, waits for it, and kills what is left of it and its own processes.
pub(crate) fn end(mut child: Child) {
    drop(child.stdin.take());
    let own = descendants(child.id());
    let _ = kill(pid(child.id()), Signal::SIGTERM);
    for _ in 0..LONGEST_END {
        if !matches!(child.try_wait(), Ok(None)) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let _ = child.kill();
    let _ = child.wait();
    for (process, start_time) in own {
        // The number may belong to another program by now.
        if start_time_of(process).is_some_and(|found| found == start_time) {
            let _ = kill(pid(process), Signal::SIGKILL);
        }
    }
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(process.cast_signed())
}

/// The processes below one, with their start times.
fn descendants(parent: u32) -> Vec<(u32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let all: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    let mut found = Vec::new();
    let mut parents = vec![parent];
    while let Some(parent) = parents.pop() {
        for process in all.iter().copied().filter(|one| parent_of(*one) == Some(parent)) {
            parents.push(process);
            found.extend(start_time_of(process).map(|start_time| (process, start_time)));
        }
    }
    found
}

/// The fields of a process's `stat` after its name, which may hold blanks.
fn stat(process: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.to_owned())
}

fn parent_of(process: u32) -> Option<u32> {
    stat(process)?.split_whitespace().nth(1)?.parse().ok()
}

/// Distinguishes a process from a later one with the same pid.
fn start_time_of(process: u32) -> Option<String> {
    stat(process)?.split_whitespace().nth(19).map(str::to_owned)
}

/// The status and the body of a page. HTTP/1.0, so that no server sends it in chunks.
pub(crate) fn get(url: &str) -> Result<(u16, String)> {
    let rest = url.strip_prefix("http://").context("only http can be asked")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {authority}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no head")?;
    let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Ok((status.context("the answer has no status")?, body.to_owned()))
}
