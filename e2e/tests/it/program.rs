//! The program under test and simulated servers for it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::Value;

/// The built binary: beside this test's own, built when it is missing or older than the sources.
pub(crate) fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().and_then(Path::parent).unwrap();
        let program = folder.join("tokometer");
        let built = std::fs::metadata(&program).and_then(|found| found.modified());
        if !built.is_ok_and(|built| built >= newest(&root().join("crates"))) {
            build(folder);
        }
        program
    })
}

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn newest(folder: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let is_source =
            path.extension().is_some_and(|extension| extension == "rs" || extension == "toml");
        if path.is_dir() {
            newest = newest.max(self::newest(&path));
        } else if is_source {
            newest = newest.max(entry.metadata().unwrap().modified().unwrap());
        }
    }
    newest
}

fn build(folder: &Path) {
    let mut command = Command::new(env!("CARGO"));
    let _command = command.args(["build", "--workspace", "--bins"]).current_dir(root());
    let _command = command.arg("--target-dir").arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        let _command = command.arg("--release");
    }
    assert!(command.status().unwrap().success(), "the program cannot be built");
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Stdout as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// The same, once it is known to have ended well.
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// The program in `folder`, with an environment that says nothing.
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(path());
    let _command = command.args(line.split_whitespace()).current_dir(folder);
    for name in ["OPENAI_API_KEY", "API_KEY", "HF_TOKEN", "HF_HOME", "HF_ENDPOINT"] {
        let _command = command.env_remove(name);
    }
    // No test may reach the hub.
    let _command = command.env("HF_HUB_OFFLINE", "1").stdin(Stdio::null());
    command
}

/// Runs a command line to its end.
pub(crate) fn run(folder: &Path, line: &str) -> Ended {
    ended(&mut command(folder, line))
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A command under way.
pub(crate) struct Started {
    pub(crate) child: Child,
}

impl Started {
    pub(crate) fn new(folder: &Path, line: &str) -> Self {
        let mut command = command(folder, line);
        let _command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    pub(crate) fn wait(self) -> Ended {
        let output = self.child.wait_with_output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A simulated server on a free port. It ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// A server whose tokens come quickly.
    pub(crate) fn quick() -> Self {
        Self::new(&["--ttft", "5ms", "--itl", "1ms"])
    }

    /// A server with these flags.
    pub(crate) fn new(flags: &[&str]) -> Self {
        let mut child = Command::new(path())
            .args(["sim", "--port", "0", "--follow-stdin"])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        let _count = BufReader::new(stdout.by_ref()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().last().unwrap_or_default().to_owned();
        assert!(url.starts_with("http"), "the simulated server said `{line}`");
        Self { child, url }
    }

    /// Asks it to stop and waits until its logs are written.
    pub(crate) fn stop(mut self) {
        drop(self.child.stdin.take());
        let _status = self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Waits until `is_so`. The limit is there for a broken program, not for a slow machine.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("waited in vain until {what}");
}
