//! Servers as processes on loopback: started on a free port, asked for a page, ended by process id.
//!
//! `lab/` includes this file by its path, so that both end a server in the same way.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A server that does not end by itself in this time is killed.
const LONGEST_END: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// A simulated server on a port of its own, and its address. It ends with the pipe that it follows.
pub(crate) fn simulator<W: AsRef<OsStr>>(program: &Path, flags: &[W]) -> Result<(Child, String)> {
    let mut child = Command::new(program)
        .args(["sim", "--port", "0", "--follow-stdin"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the simulated server")?;
    let stdout = child.stdout.take().context("the simulated server has no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let url = line.split_whitespace().last().unwrap_or_default().to_owned();
    Ok((child, url))
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

/// A port that was free a moment ago. Not every server can choose a port and report it.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
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
