//! The program under test and simulated servers for it.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::schemas;

/// The longest that a test waits for anything. It is there for a broken program, not for a slow
/// machine.
pub const LONGEST: Duration = Duration::from_secs(150);

/// The built binary: beside this test's own, built when it is missing or older than the sources.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        // A test's binary is in `deps` below the folder of the programs, an xtask beside them.
        let here = test.parent().unwrap();
        let folder = if here.ends_with("deps") { here.parent().unwrap() } else { here };
        let program = folder.join("tokometer");
        let built = std::fs::metadata(&program).and_then(|found| found.modified());
        if !built.is_ok_and(|built| built >= newest(&root().join("crates"))) {
            build(folder);
        }
        program
    })
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn newest(folder: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let is_source =
            path.extension().is_some_and(|extension| extension == "rs" || extension == "toml");
        // Tests are no part of the program: a newer one would have every test here start cargo.
        if path.ends_with("tests") {
            continue;
        }
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
    command.args(["build", "--workspace", "--bins"]).current_dir(root());
    command.arg("--target-dir").arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        command.arg("--release");
    }
    // What cargo tells a test of its own package looks like a change to build scripts that read it: half
    // of all dependencies would be built again, here and by the next command outside of a test.
    for (name, _) in std::env::vars_os() {
        let is_of_test = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
        if is_of_test.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    assert!(command.status().unwrap().success(), "the program cannot be built");
}

#[derive(Debug)]
pub struct ProgramExit {
    /// Its exit code. `None` for one that a signal ended.
    pub code: Option<i32>,
    /// What it printed as its result.
    pub stdout: String,
    /// What else it printed.
    pub stderr: String,
}

impl ProgramExit {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// The same, once it is known to have ended well.
    #[expect(clippy::return_self_not_must_use, reason = "many tests want only the assertion in it")]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts its exit code, and that it printed these parts, on either output.
    #[track_caller]
    pub fn says(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self.prints(parts);
    }

    /// Asserts that it printed these parts, on either output.
    #[track_caller]
    pub fn prints(&self, parts: &[&str]) {
        let printed = format!("{}\n{}", self.stdout, self.stderr);
        let joined = words(&printed);
        for part in parts {
            assert!(
                printed.contains(part) || joined.contains(part),
                "`{part}` is not in:\n{printed}"
            );
        }
        assert!(!printed.contains("panicked") && !printed.contains("os error"), "{printed}");
    }
}

/// Every white space in one form, so that a test does not depend on where lines are broken.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The program in `folder`, with an empty environment.
pub fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(path());
    command.args(line.split_whitespace()).current_dir(folder);
    for name in ["OPENAI_API_KEY", "API_KEY", "HF_TOKEN", "HF_HOME", "HF_ENDPOINT"] {
        command.env_remove(name);
    }
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").env_remove("NO_COLOR");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOKOMETER_") {
            command.env_remove(name);
        }
    }
    // A config file of whoever runs the tests must not change them.
    command.env("XDG_CONFIG_HOME", folder.join("no-config"));
    // No test may reach the hub.
    command.env("HF_HUB_OFFLINE", "1").stdin(Stdio::null());
    command
}

pub fn run(folder: &Path, line: &str) -> ProgramExit {
    ended(&mut command(folder, line))
}

pub fn ended(command: &mut Command) -> ProgramExit {
    Started::of(command).wait()
}

/// Runs a command line to its end with this text on its standard input.
pub fn ended_with_input(folder: &Path, line: &str, text: &str) -> ProgramExit {
    let mut command = command(folder, line);
    command.stdin(Stdio::piped());
    let mut started = Started::of(&mut command);
    let mut stdin = started.child.stdin.take().unwrap();
    let text = text.to_owned();
    // A program that reads nothing must not block the test.
    std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    started.wait()
}

/// What `work` gives, on a thread of its own. `None` when that takes too long.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(LONGEST).ok()
}

/// The first line that a child prints. Its stdout stays open.
pub fn first_line(child: &mut Child) -> String {
    let mut stdout = child.stdout.take().unwrap();
    let read = in_time(move || {
        let mut line = String::new();
        BufReader::new(stdout.by_ref()).read_line(&mut line).unwrap();
        (line, stdout)
    });
    let Some((line, stdout)) = read else {
        let _ = child.kill();
        panic!("no first line within {LONGEST:?}");
    };
    child.stdout = Some(stdout);
    line
}

pub struct Started {
    pub child: Child,
    /// The folder that it runs in, and when it began.
    pub(crate) place: Option<(PathBuf, SystemTime)>,
}

impl Started {
    pub fn new(folder: &Path, line: &str) -> Self {
        Self::of(&mut command(folder, line))
    }

    pub fn of(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        #[expect(clippy::disallowed_methods, reason = "compared with the times of files")]
        let now = SystemTime::now();
        let place = command.get_current_dir().map(|folder| (folder.to_owned(), now));
        Self { child: command.spawn().unwrap(), place }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|end| end.is_some())
    }

    pub fn kill(self) {
        self.signal(Signal::SIGKILL);
        let _ = self.wait();
    }

    /// The first line of its stderr with these words. What follows is read and dropped.
    pub fn stderr_line(&mut self, words: &str) -> String {
        let stderr = BufReader::new(self.child.stderr.take().unwrap());
        let (sender, lines) = channel();
        // Reads on after the line was found: a full pipe would block the program.
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut seen = Vec::new();
        while let Ok(line) = lines.recv_timeout(LONGEST) {
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("no line with `{words}` within {LONGEST:?}: {seen:#?}");
    }

    /// Waits for its end, and kills it when that does not come. What it wrote fits the schemas.
    pub fn wait(self) -> ProgramExit {
        let (pid, place) = (self.pid(), self.place.clone());
        let Some(output) = in_time(|| self.child.wait_with_output()) else {
            let _ = kill(pid, Signal::SIGKILL);
            panic!("the program did not end within {LONGEST:?}");
        };
        if let Some((folder, since)) = place {
            schemas::check_below(&folder, since);
        }
        let Output { status, stdout, stderr } = output.unwrap();
        ProgramExit {
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }
}

/// A simulated server on a free port. It ends when this is dropped.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    /// A server whose tokens come quickly.
    pub fn quick() -> Self {
        Self::new(&["--ttft", "5ms", "--itl", "1ms"])
    }

    pub fn new(flags: &[&str]) -> Self {
        Self::start(Command::new(path()).args(["sim", "--port", "0", "--follow-stdin"]).args(flags))
    }

    pub fn on_socket(socket: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(path());
        command.args(["sim", "--follow-stdin", "--unix"]).arg(socket);
        Self::start(command.args(flags))
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line = first_line(&mut child);
        let url = line.split_whitespace().last().unwrap_or_default().to_owned();
        let is_url = url.starts_with("http") || url.starts_with("unix:");
        assert!(is_url, "the simulated server said `{line}`");
        Self { child, url }
    }

    /// CPU time that it has used, in the kernel's clock ticks (hundredths of a second).
    pub fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name in brackets may hold blanks; user and system time are fields 14 and 15.
        let fields = stat.rsplit(") ").next().unwrap().split(' ');
        fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    }

    /// Asks it to stop and waits until its logs are written.
    pub fn stop(mut self) {
        drop(self.child.stdin.take());
        wait_until("the simulated server ended", || self.child.try_wait().unwrap().is_some());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of this machine that nothing listens on, for a server that is started later. It lies below the
/// ports that the kernel gives to connections, so that none of them takes it in between.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    // Tests of other processes begin elsewhere.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(37);
    let ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::SeqCst));
    let ports = ports
        .take(COUNT as usize)
        .filter_map(|number| u16::try_from(FIRST + begin.wrapping_add(number) % COUNT).ok());
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(is_free).expect("no port is free")
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..LONGEST.as_millis() / PAUSE.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("timed out waiting until {what}");
}
