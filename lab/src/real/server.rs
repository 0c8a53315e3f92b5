//! A server on loopback: started, waited for, stopped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokometer_base::{Clock, MonotonicClock, Nanos};

use super::install;
use super::recipe::Recipe;
use crate::process::{Simulator, announce, end, free_port, get};

/// Starting takes vLLM on two busy cores up to ten minutes.
const LONGEST_START: Nanos = Nanos::from_secs(1_200);
const PAUSE: Duration = Duration::from_millis(100);

/// A running server, or an external one.
pub(super) struct Server {
    pub(super) url: String,
    /// Where its counters are read: the simulated server's behind a gateway.
    pub(super) counters_url: String,
    /// How long it took to come up. `None` for an external one.
    pub(super) start_s: Option<f64>,
    child: Option<Child>,
    _upstream: Option<Simulator>,
}

pub(super) struct Parts<'a> {
    pub(super) recipe: &'a Recipe,
    /// Its folder below `target/real`.
    pub(super) own: PathBuf,
    pub(super) model: Option<PathBuf>,
    /// The built `tokometer`, which is the server behind a gateway.
    pub(super) program: &'a Path,
}

impl Server {
    pub(super) fn elsewhere(url: &str) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        Self { counters_url: url.clone(), url, start_s: None, child: None, _upstream: None }
    }

    /// Starts a server and waits until it is up. What it prints goes to `server.log`.
    pub(super) fn start(parts: &Parts<'_>) -> Result<Self> {
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let (upstream, counters_url) = match parts.model {
            Some(_) => (None, url.clone()),
            None => {
                // With as short a context as the real models have.
                let short = ["--model", "tiny", "--set", "max_model_len=2048"];
                let server = Simulator::start(parts.program, &short)?;
                let url = server.url.clone();
                (Some(server), url)
            }
        };
        let fill = |text: &str| parts.fill(text, port, &counters_url);
        let log = File::create(parts.own.join("server.log"))?;
        let line = fill(parts.recipe.command);
        announce(&line);
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().context("a command line is empty")?);
        command
            .args(words)
            .current_dir(&parts.own)
            .env("HF_HUB_OFFLINE", "1")
            .env("HF_HOME", install::folder().join("hf"))
            .envs(parts.recipe.variables.iter().map(|(name, value)| (*name, fill(value))))
            // Kept open: the script of llama.cpp serves until it closes.
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
        let mut server =
            Self { url, counters_url, start_s: None, child: Some(child), _upstream: upstream };
        server.wait_until_up(parts)?;
        Ok(server)
    }

    fn wait_until_up(&mut self, parts: &Parts<'_>) -> Result<()> {
        let begin = MonotonicClock.now();
        let log = parts.own.join("server.log");
        let health = format!("{}{}", self.url, parts.recipe.health);
        while !matches!(get(&health), Ok((200, _))) {
            let ended = self.child.as_mut().map_or(Ok(None), Child::try_wait)?;
            if let Some(status) = ended {
                bail!("the server ended before it was up ({status}); see {}", log.display());
            }
            if MonotonicClock.now() - begin > LONGEST_START {
                bail!("the server did not come up in 20 minutes; see {}", log.display());
            }
            std::thread::sleep(PAUSE);
        }
        self.start_s = Some((MonotonicClock.now() - begin).as_secs_f64());
        Ok(())
    }
}

impl Parts<'_> {
    fn fill(&self, text: &str, port: u16, upstream: &str) -> String {
        let slots = self.recipe.slots.unwrap_or(1).to_string();
        let model = self.model.as_deref().unwrap_or(Path::new(""));
        let shown = |path: &Path| path.display().to_string();
        text.replace("{bin}", &shown(&self.own.join("venv/bin")))
            .replace("{here}", &shown(&install::scripts()))
            .replace("{folder}", &shown(&self.own))
            .replace("{model}", &shown(model))
            .replace("{port}", &port.to_string())
            .replace("{slots}", &slots)
            .replace("{upstream}", upstream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }
}
