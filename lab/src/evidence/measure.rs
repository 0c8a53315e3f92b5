//! `evidence run`: the list of a plan, measured twice and packed.
//!
//! Settings of the server come in their order in the first pass and backwards in the second, so that what
//! drifts drifts both ways and the last server of the first pass stays up. Behind the deadline no run is
//! begun, and one that does not end is interrupted and left out: what there is gets packed in any case.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokometer_base::{Clock, MonotonicClock, Nanos};

use super::USAGE;
use super::figures::Figures;
use super::plan::{LoadLevel, Plan, Run, Setting};
use super::rig::{Rig, Server, Size, is_pinned, told};
use crate::program::{self, announce};

/// No run is begun with less time left than this.
const LEAST: Nanos = Nanos::from_secs(25);
/// No run takes longer than this.
const LONGEST: Nanos = Nanos::from_secs(90);
/// Kept back for packing.
const RESERVE: Nanos = Nanos::from_secs(8);
const PAUSE: Duration = Duration::from_millis(50);
/// What the analysis needs of a run's folder.
const KEPT: [&str; 4] = ["plan.json", "end.json", "requests.arrows", "summary.json"];

/// What was asked for.
#[derive(Debug)]
struct RequestedLengths {
    plan: &'static Plan,
    out: PathBuf,
    program: Option<PathBuf>,
    python: String,
    wheels: Option<PathBuf>,
    deadline: Nanos,
    size: Size,
}

impl RequestedLengths {
    fn parse(arguments: &[String]) -> Result<Self> {
        let (mut plan, mut out, mut program, mut wheels) = (None, None, None, None);
        let (mut python, mut deadline, mut size) = ("python3".to_owned(), 540, Size::Full);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().with_context(|| format!("`{word}` needs a value\n{USAGE}"));
            match word.as_str() {
                "--server" => plan = Plan::named(value()?),
                "--out" => out = Some(std::path::absolute(value()?)?),
                "--program" => program = Some(std::path::absolute(value()?)?),
                "--wheels" => wheels = Some(std::path::absolute(value()?)?),
                "--python" => python.clone_from(value()?),
                "--deadline-s" => {
                    deadline = value()?.parse().context("seconds are a whole number")?;
                }
                "--quick" => size = Size::Quick,
                other => bail!("`evidence run` has no option `{other}`\n{USAGE}"),
            }
        }
        let plan = plan.with_context(|| format!("name a server\n{USAGE}"))?;
        let out = out.with_context(|| format!("name a folder with `--out`\n{USAGE}"))?;
        let deadline = Nanos::from_secs(deadline);
        Ok(Self { plan, out, program, python, wheels, deadline, size })
    }
}

/// Measures and packs.
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let begin = MonotonicClock.now();
    let asked = RequestedLengths::parse(arguments)?;
    let program = asked.program.clone().map_or_else(program::built, Ok)?;
    let work = std::env::temp_dir().join(format!("tokometer-evidence-{}", asked.plan.server));
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&asked.out)?;
    let mut rig = Rig::new(asked.plan, asked.size, &asked.python, work)?;
    if let Some(wheels) = &asked.wheels {
        rig.install(wheels)?;
    }
    rig.make_model()?;
    announce(&format!("ready after {:.0} s", (MonotonicClock.now() - begin).as_secs_f64()));
    let mut session = Session {
        rig,
        program,
        end: begin + asked.deadline,
        begin,
        capacity: None,
        rows: Vec::new(),
    };
    let facts = session.facts();
    let measured = session.both_passes();
    let manifest = json!({
        "server": asked.plan.server,
        "is_quick": asked.size == Size::Quick,
        "machine": facts,
        "load_average_after": load_average(),
        "capacity_requests_per_s": session.capacity,
        "runs": session.rows,
        "stopped": measured.as_ref().err().map(|why| format!("{why:#}")),
    });
    session.pack(&asked.out, &manifest)?;
    let spent = (MonotonicClock.now() - begin).as_secs_f64();
    announce(&format!("{} runs kept, {spent:.0} s in all", session.rows.len()));
    measured
}

/// The experiment under way.
struct Session {
    rig: Rig,
    program: PathBuf,
    begin: Nanos,
    end: Nanos,
    /// Request throughput of the closed loop that rates are shares of.
    capacity: Option<f64>,
    rows: Vec<Value>,
}

impl Session {
    fn both_passes(&mut self) -> Result<()> {
        let settings = self.rig.plan.settings();
        let there = settings.iter().map(|setting| (1, *setting));
        let back = settings.iter().rev().map(|setting| (2, *setting));
        let mut up: Option<(Server, Setting)> = None;
        for (repeat, setting) in there.chain(back) {
            if self.left() < LEAST {
                announce("the deadline: the rest is left out");
                break;
            }
            let mut server = match up.take().filter(|(_, with)| *with == setting) {
                Some((server, _)) => server,
                None => self.warm_server(setting)?,
            };
            for run in self.rig.plan.runs.iter().filter(|run| run.setting == setting) {
                if !server.is_up() {
                    announce("the server is gone: another one");
                    server = self.warm_server(setting)?;
                }
                self.measure(run, repeat, &server.url);
            }
            up = Some((server, setting));
        }
        Ok(())
    }

    fn left(&self) -> Nanos {
        let kept_back = self.end.0.saturating_sub(RESERVE.0);
        Nanos(kept_back.saturating_sub(MonotonicClock.now().0))
    }

    /// A server that has answered as many streams as there will be, with lengths of all kinds.
    fn warm_server(&self, setting: Setting) -> Result<Server> {
        let server = self.rig.start(setting)?;
        let streams = self.most_streams();
        let mixed = self.rig.plan.runs.iter().find(|run| run.lengths.spread > 0.0);
        let lengths = mixed.map_or(String::new(), lengths);
        let line = format!("--max-concurrency {streams} --num-prompts {} {lengths}", streams * 2);
        let folder = self.rig.work.join("warm");
        self.bench(&server.url, &line, &folder)?;
        std::fs::remove_dir_all(&folder)?;
        Ok(server)
    }

    fn most_streams(&self) -> u32 {
        match self.rig.plan.capacity().map(|run| run.load) {
            Some(LoadLevel::Streams { streams, .. }) => streams,
            _ => 1,
        }
    }

    fn measure(&mut self, run: &Run, repeat: u32, url: &str) {
        let name = format!("{}-{repeat}", run.name());
        if self.left() < LEAST {
            announce(&format!("{name} is left out: the deadline"));
            return;
        }
        let rate = self.rate(run);
        let line = format!("{} {}", load(run, rate, self.rig.size), lengths(run));
        let folder = self.rig.work.join("runs").join(&name);
        let begin = MonotonicClock.now();
        let figures = match self.bench(url, &line, &folder).and_then(|()| figures(&folder)) {
            Ok(figures) => figures,
            Err(why) => {
                announce(&format!("{name} is left out: {why:#}"));
                return;
            }
        };
        let seconds = (MonotonicClock.now() - begin).as_secs_f64();
        if repeat == 1 && self.rig.plan.capacity().is_some_and(|one| one == run) {
            self.capacity = Some(figures.requests_per_s);
        }
        let at = (MonotonicClock.now() - self.begin).as_secs_f64();
        announce(&format!(
            "{at:4.0} s: {name} took {seconds:.1} s, {:.2} req/s",
            figures.requests_per_s
        ));
        let row = json!({ "name": run.name(), "repeat": repeat, "rate": rate, "seconds": seconds });
        self.rows.push(row);
    }

    /// The rate of a run in requests per second, to two digits.
    fn rate(&self, run: &Run) -> Option<f64> {
        let LoadLevel::Share { percent, .. } = run.load else { return None };
        let capacity = self.capacity.unwrap_or(self.rig.plan.fallback_rate);
        Some(two_digits(capacity * f64::from(percent) / 100.0))
    }

    /// Measures to the end, or interrupts what takes too long.
    fn bench(&self, url: &str, line: &str, folder: &Path) -> Result<()> {
        let log = folder.with_extension("log");
        std::fs::create_dir_all(folder.parent().context("a run has a folder above it")?)?;
        let flags = self.rig.bench_flags();
        let mut command = self.rig.client(&self.program);
        command
            .args(["bench", "--base-url", url, "--dataset-name", "random", "--num-warmups", "0"])
            .args(["--no-scrape", "--disable-tqdm", "--quiet", "--overwrite", "--run-dir"])
            .arg(folder)
            .args(flags.split_whitespace())
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?);
        let child = command.spawn().context("cannot start tokometer")?;
        let limit = LONGEST.min(self.left());
        if !is_done(child, limit)? {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            bail!("it did not end well: {}\n{}", said.trim(), self.rig.log_end());
        }
        Ok(())
    }

    /// What is known of the machine.
    fn facts(&self) -> Value {
        let shell = |line: &str| told(Command::new("sh").args(["-c", line]));
        json!({
            "date": shell("date -u '+%F %H:%M UTC'"),
            "cores": shell("nproc"),
            "processor": shell("grep -m1 'model name' /proc/cpuinfo | cut -d: -f2"),
            "gpu": shell("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"),
            "kernel": shell("uname -sr"),
            "is_pinned": is_pinned(),
            "load_average_before": load_average(),
            "server": self.rig.versions(),
            "tokometer": told(Command::new(&self.program).arg("--version")),
        })
    }

    /// One archive per repeat, because what comes back from a machine is limited per file.
    fn pack(&self, out: &Path, manifest: &Value) -> Result<()> {
        let server = self.rig.plan.server;
        std::fs::write(out.join(format!("{server}.json")), format!("{manifest:#}\n"))?;
        for repeat in [1, 2] {
            let of = |row: &&Value| row["repeat"] == repeat;
            let name = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
            let folders = self.rows.iter().filter(of).map(|row| format!("{}-{repeat}", name(row)));
            let files = folders.flat_map(|folder| KEPT.map(|file| format!("{folder}/{file}")));
            let files: Vec<String> = files.collect();
            if files.is_empty() {
                continue;
            }
            let archive = out.join(format!("{server}-{repeat}.tar.gz"));
            let status = Command::new("tar")
                .arg("czf")
                .arg(&archive)
                .arg("-C")
                .arg(self.rig.work.join("runs"))
                .args(&files)
                .status()
                .context("cannot start tar")?;
            if !status.success() {
                bail!("tar could not pack {} ({status})", archive.display());
            }
        }
        Ok(())
    }
}

/// Whether a command ends well within its time. One that does not end is asked to, then killed.
fn is_done(mut child: Child, limit: Nanos) -> Result<bool> {
    let begin = MonotonicClock.now();
    let is_late = |more: Nanos| MonotonicClock.now() - begin > limit + more;
    let mut is_asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success() && !is_asked);
        }
        if is_late(Nanos::from_secs(5)) {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        if is_late(Nanos::ZERO) && !is_asked {
            kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT)?;
            is_asked = true;
        }
        std::thread::sleep(PAUSE);
    }
}

/// The figures of a run's folder. A run that left requests unanswered is none.
pub(super) fn figures(folder: &Path) -> Result<Figures> {
    let path = folder.join("summary.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let page: Value = serde_json::from_str(&text)?;
    let summary = &page["summary"];
    if summary["counts"]["failed"] != 0 || summary["ended"] != "complete" {
        bail!("{}: {}, {}", path.display(), summary["ended"], summary["counts"]);
    }
    Figures::read(&page).with_context(|| format!("in {}", path.display()))
}

fn lengths(run: &Run) -> String {
    let lengths = run.lengths;
    format!(
        "--random-input-len {} --random-output-len {} --random-range-ratio {}",
        lengths.prompt, lengths.answer, lengths.spread
    )
}

fn load(run: &Run, rate: Option<f64>, size: Size) -> String {
    let shortened = |count: u32, least: u32| match size {
        Size::Full => count,
        Size::Quick => (count / 8).max(least),
    };
    match (run.load, rate) {
        (LoadLevel::Share { seconds, .. }, Some(rate)) => {
            let seconds = shortened(seconds, 1);
            let count = (rate * f64::from(seconds)).ceil().max(6.0);
            format!("--request-rate {rate} --num-prompts {count:.0}")
        }
        (LoadLevel::Streams { streams, requests }, _) => {
            let count = shortened(requests, streams + streams / 2 + 4);
            format!("--max-concurrency {streams} --num-prompts {count}")
        }
        (LoadLevel::Share { .. }, None) => String::new(),
    }
}

fn two_digits(value: f64) -> f64 {
    let scale = 10_f64.powf(value.log10().floor() - 1.0);
    // Through text, so that 0.1 times 23 is 2.3.
    format!("{:.4}", (value / scale).round() * scale).parse().unwrap_or(value)
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::plan::LLAMACPP;

    #[test]
    fn rates_have_two_digits() {
        let shown = [22.31, 5.578, 17.85, 0.4321, 123.4].map(|rate| two_digits(rate).to_string());
        assert_eq!(shown.join(" "), "22 5.6 18 0.43 120");
    }

    #[test]
    fn a_run_becomes_the_flags_of_a_bench() {
        let of = |name: &str| LLAMACPP.runs.iter().find(|run| run.name() == name).unwrap();
        assert_eq!(load(of("c8-a"), None, Size::Full), "--max-concurrency 8 --num-prompts 130");
        assert_eq!(load(of("c24-a"), None, Size::Quick), "--max-concurrency 24 --num-prompts 40");
        let rate = load(of("rate80-a"), Some(22.0), Size::Full);
        assert_eq!(rate, "--request-rate 22 --num-prompts 154");
        let mix = "--random-input-len 128 --random-output-len 32 --random-range-ratio 0.5";
        assert_eq!(lengths(of("c8-mix")), mix);
    }

    #[test]
    fn words_that_make_no_sense_are_refused_with_the_usage() {
        for line in ["", "--server vllm --out x", "--server llamacpp", "--what", "--server"] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let why = RequestedLengths::parse(&words).unwrap_err().to_string();
            assert!(why.contains("usage:"), "{line}: {why}");
        }
    }
}
