//! A server on this machine for the experiment: its packages, its model, and one start per setting.
//!
//! On a machine of 16 cores or more the server has the first ten and the client the next six; on a smaller
//! one nothing is pinned and the page says so.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokometer_base::{Clock, MonotonicClock, Nanos};

use super::plan::{Plan, Setting};
use crate::process::{end, free_port, get};
use crate::program::{announce, root};

/// Cores of the server and of the client.
const SERVER_CORES: &str = "0-9";
const CLIENT_CORES: &str = "10-15";
const PINNED_FROM: usize = 16;
/// A server that is not up by then will not come up.
const LONGEST_START: Nanos = Nanos::from_secs(180);
const PAUSE: Duration = Duration::from_millis(100);

/// How large the experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// As planned.
    Full,
    /// Only to see that everything works.
    Quick,
}

/// What servers are started with.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) plan: &'static Plan,
    pub(super) size: Size,
    pub(super) python: String,
    /// Where models, records and logs go.
    pub(super) work: PathBuf,
    /// Packages that were installed for it.
    site: Option<PathBuf>,
}

/// A server under way. It is ended when dropped.
pub(super) struct Server {
    pub(super) url: String,
    child: Option<Child>,
}

impl Server {
    /// Whether its process lives.
    pub(super) fn is_up(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }
}

impl Rig {
    /// Installs the packages in `wheels` and makes the model.
    pub(super) fn new(
        plan: &'static Plan,
        size: Size,
        python: &str,
        work: PathBuf,
    ) -> Result<Self> {
        std::fs::create_dir_all(&work)?;
        Ok(Self { plan, size, python: python.to_owned(), work, site: None })
    }

    /// Unpacks packages below the work folder: no installer and no network are needed for that.
    pub(super) fn install(&mut self, wheels: &Path) -> Result<()> {
        let site = self.work.join("site");
        let entries = std::fs::read_dir(wheels)
            .with_context(|| format!("cannot read the packages in {}", wheels.display()))?;
        for entry in entries {
            let wheel = entry?.path();
            if wheel.extension().is_some_and(|end| end == "whl") {
                let mut command = Command::new(&self.python);
                command.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&site);
                finish(&mut command)?;
            }
        }
        self.site = Some(site);
        Ok(())
    }

    /// Makes the model where the server does not make its own.
    pub(super) fn make_model(&self) -> Result<()> {
        if self.is_llamacpp() {
            return Ok(());
        }
        let size = if self.size == Size::Full { "7b" } else { "tiny" };
        let mut command = self.python_command(SERVER_CORES);
        command.arg(scripts()?.join("model.py")).arg(self.model()).arg(size);
        finish(&mut command)
    }

    /// The model's place, which is its name too.
    pub(super) fn model(&self) -> PathBuf {
        self.work.join(if self.is_llamacpp() { "model.gguf" } else { "model" })
    }

    fn is_llamacpp(&self) -> bool {
        self.plan.server == "llamacpp"
    }

    /// Flags of `bench` that name the model and its tokenizer.
    pub(super) fn bench_flags(&self) -> String {
        let model = self.model();
        let named = format!("--model {0} --tokenizer {0}", model.display());
        let own = if self.is_llamacpp() { "--model tiny" } else { &named };
        format!("{} {own}", self.plan.bench)
    }

    /// Starts the server with one setting and waits until it is up.
    pub(super) fn start(&self, setting: Setting) -> Result<Server> {
        let port = free_port()?;
        let log = File::create(self.work.join("server.log"))?;
        let mut command = self.python_command(SERVER_CORES);
        command
            .args(self.server_words(setting, port)?)
            .env("HF_HUB_OFFLINE", "1")
            // Kept open: the script of llama.cpp serves until it closes.
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        announce(&format!("{command:?}"));
        let begin = MonotonicClock.now();
        let child = command.spawn().context("cannot start the server")?;
        let mut server = Server { url: format!("http://127.0.0.1:{port}"), child: Some(child) };
        while !matches!(get(&format!("{}/health", server.url)), Ok((200, _))) {
            let ended = server.child.as_mut().map_or(Ok(None), Child::try_wait)?;
            if let Some(status) = ended {
                bail!("the server ended before it was up ({status}):\n{}", self.log_end());
            }
            if MonotonicClock.now() - begin > LONGEST_START {
                bail!("the server did not come up in 3 minutes:\n{}", self.log_end());
            }
            std::thread::sleep(PAUSE);
        }
        announce(&format!("up after {:.1} s", (MonotonicClock.now() - begin).as_secs_f64()));
        Ok(server)
    }

    fn server_words(&self, setting: Setting, port: u16) -> Result<Vec<String>> {
        let line = if self.is_llamacpp() {
            let (slots, rest) = setting.flags.split_once(' ').unwrap_or((setting.flags, ""));
            let size = match self.size {
                Size::Full => "--hidden 512 --layers 8 --heads 8 --feed-forward 1408 --threads 8",
                Size::Quick => "--hidden 256 --layers 4 --heads 4 --feed-forward 704 --threads 1",
            };
            format!(
                "{} {} {port} {slots} {rest} {size} --slot-context 768 --plain-text --no-memory",
                scripts()?.join("llamacpp.py").display(),
                self.model().display()
            )
        } else {
            let device = match self.size {
                Size::Full => "--cb-use-cuda-graph",
                Size::Quick => "--device cpu",
            };
            format!(
                "-m transformers.cli.transformers serve {} --continuous-batching {device} {} \
                 --host 127.0.0.1 --port {port}",
                self.model().display(),
                setting.flags
            )
        };
        Ok(line.split_whitespace().map(str::to_owned).collect())
    }

    /// The last words of the server.
    pub(super) fn log_end(&self) -> String {
        let text = std::fs::read(self.work.join("server.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn python_command(&self, cores: &str) -> Command {
        let mut command = pinned(&self.python, cores);
        if let Some(site) = &self.site {
            command.env("PYTHONPATH", site);
        }
        command
    }

    /// `tokometer` on the client's cores.
    pub(super) fn client(&self, program: &Path) -> Command {
        let mut command = pinned(&program.display().to_string(), CLIENT_CORES);
        command.current_dir(&self.work).env("HF_HUB_OFFLINE", "1");
        command
    }

    /// Versions of the server's packages, for the page.
    pub(super) fn versions(&self) -> String {
        let names = if self.is_llamacpp() { "xllamacpp" } else { "transformers torch" };
        let script = "import sys, importlib.metadata as m\n\
                      print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))";
        let mut command = self.python_command(SERVER_CORES);
        command.args(["-c", script]).args(names.split(' '));
        told(&mut command)
    }
}

/// What a command prints, on one line; nothing where it cannot be run.
pub(super) fn told(command: &mut Command) -> String {
    let output = command.stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether server and client have cores of their own here.
pub(super) fn is_pinned() -> bool {
    std::thread::available_parallelism().is_ok_and(|count| count.get() >= PINNED_FROM)
}

fn pinned(program: &str, cores: &str) -> Command {
    if !is_pinned() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", cores, program]);
    command
}

/// The project's scripts: below the folder where a carried binary runs, else in the checkout.
fn scripts() -> Result<PathBuf> {
    let places = [std::env::current_dir()?, root()];
    let found = places.map(|place| place.join("e2e/real")).into_iter().find(|place| place.is_dir());
    found.context("there is no folder e2e/real here")
}

fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} did not pass ({status})");
    }
    Ok(())
}
