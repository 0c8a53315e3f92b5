//! Runs one case: server, path, disturbance and client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::prctl;
use serde_json::{Value, json};

use super::cases::{Case, Disturbance};
use super::disturb::{self, Disturber};
use super::outcome;
use super::path::Route;
use super::relay::{Relay, Treatment};
use crate::namespace::{NAMESPACE, Namespace};
use crate::process::{Kept, Simulator, built, first_line};

/// A run that takes longer is killed, and the case left out.
const LONGEST: Duration = Duration::from_secs(60);
/// From the start of the client to the disturbance: program start, warm-up and the run's first second.
pub(super) const INTO_THE_RUN: Duration = Duration::from_millis(1_600);
/// The client's core, and the server's.
const CORES: [&str; 2] = ["0", "1"];

/// The program of the argument, else the debug build beside this study.
pub(crate) fn program(named: Option<&String>) -> Result<PathBuf> {
    let path = match named {
        Some(path) => std::path::absolute(path)?,
        None => built("debug", "tokometer"),
    };
    ensure!(path.exists(), "{} does not exist: run `cargo build`", path.display());
    Ok(path)
}

pub(crate) struct Stage {
    program: PathBuf,
    folder: PathBuf,
}

/// Work of the server's front for each request, one after another, in the process as in virtual time. A process takes
/// 50 µs to read a request, so that without this a burst enters its engine in another order than in virtual
/// time, where it enters at once.
const FRONT: &str = "--set front_end.serial_ms=0.2";

impl Stage {
    pub(crate) fn new(program: PathBuf, folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        Ok(Self { program, folder })
    }

    pub(super) fn results(&self) -> PathBuf {
        self.folder.join("results")
    }

    /// The figures of a plan in virtual time.
    pub(crate) fn predicted(&self, flags: &str, seed: u64) -> Result<BTreeMap<String, f64>> {
        let line = format!("predict --engine default {flags} --seed {seed} --format json");
        let output = self.command("", &line).stdout(Stdio::piped()).output()?;
        ensure!(output.status.success(), "`tokometer {line}` failed");
        let page: Value = serde_json::from_slice(&output.stdout)?;
        Ok(outcome::values(&page["summary"]))
    }

    /// Measures the embedded simulator.
    pub(crate) fn bench(&self, flags: &str) -> Result<Value> {
        let line = format!("bench {flags} --quiet --overwrite --run-dir measured");
        let mut child = self.command("", &line).spawn()?;
        finish(&mut child)?;
        self.result("measured")
    }

    /// The summary of a run, and the client's health.
    fn result(&self, run: &str) -> Result<Value> {
        let read = |name: &str| -> Result<Value> {
            let path = self.folder.join(run).join(name);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Ok(serde_json::from_str(&text)?)
        };
        let mut summary = read("summary.json")?["summary"].take();
        // Long lists that no table uses.
        for key in ["windows", "blocks", "families", "steps"] {
            summary[key] = Value::Null;
        }
        let health = read("end.json").map(|mut end| end["health"].take()).unwrap_or_default();
        Ok(json!({ "summary": summary, "health": health }))
    }

    /// The program behind other words, such as `taskset -c 0`.
    fn command(&self, before: &str, line: &str) -> Command {
        let program = self.program.display().to_string();
        let words: Vec<&str> = before
            .split_whitespace()
            .chain([program.as_str()])
            .chain(line.split_whitespace())
            .collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn server(&self, route: Route) -> Result<Simulator> {
        let before = match route {
            Route::SameHost => String::new(),
            _ => format!("ip netns exec {NAMESPACE} chrt -f 20 taskset -c {}", CORES[1]),
        };
        let line = format!("sim --host {} --port 0 {FRONT}", route.host());
        Simulator::of(&mut self.command(&before, &line))
    }

    /// The result of a case, with the plan's figures in virtual time.
    pub(super) fn run(&self, case: &Case) -> Result<Value> {
        let expected = self.predicted(&format!("{FRONT} {}", case.load.flags()), case.seed)?;
        let _namespace = match case.route {
            Route::SameHost => None,
            _ => Some(Namespace::new()?),
        };
        let _tunnel = tunnel(case)?;
        let server = self.server(case.route)?;
        let mut url = server.url.clone();
        let relay = match case.route {
            Route::Relayed => {
                let server = url.trim_start_matches("http://").to_owned();
                Some(Relay::start(server, treatment(case.disturbance))?)
            }
            _ => None,
        };
        if let Some(relay) = &relay {
            url = format!("http://127.0.0.1:{}", relay.port);
        }
        let _second = self.second_client(case, &url)?;
        let mut client = self.client(case, &url)?;
        let disturber = Disturber::start(case.disturbance, client.0.id(), CORES[0])?;
        let ended = finish(&mut client.0);
        drop(disturber);
        ended?;
        let mut result = self.result("measured")?;
        let Case { disturbance, load, route, seed } = case;
        let (kind, level) = disturbance.words();
        let (load, route) = (format!("{load:?}"), format!("{route:?}"));
        result["case"] =
            json!({ "kind": kind, "level": level, "load": load, "route": route, "seed": seed });
        result["expected"] = json!(expected);
        Ok(result)
    }

    fn client(&self, case: &Case, url: &str) -> Result<Kept> {
        let flags = case.load.flags();
        let line = format!(
            "bench --base-url {url} {flags} --seed {} --num-warmups 4 --quiet --overwrite --run-dir measured",
            case.seed
        );
        let core = match case.route {
            // A proxy on this machine looks like a server on it, which may not share a single core.
            Route::SameHost | Route::Relayed => String::new(),
            _ => format!("taskset -c {}", CORES[0]),
        };
        let group = disturb::group();
        let before = match case.disturbance {
            Disturbance::Calibration => format!("chrt -f 10 {core}"),
            Disturbance::Quota(percent) => {
                disturb::make_group(percent)?;
                format!("{core} sh {} {group}", disturb::enter_script(&self.folder)?)
            }
            _ => core,
        };
        let slack = match case.disturbance {
            Disturbance::TimerSlack(micros) => micros * 1_000,
            _ => 0,
        };
        let mut client = self.command(&before, &line);
        if let Disturbance::ClockStep(millis) = case.disturbance {
            client.envs(disturb::stepped_clock(&self.folder, millis)?);
        }
        // A child inherits it; zero restores the default.
        prctl::set_timerslack(slack)?;
        let child = client.spawn().context("cannot start the client");
        prctl::set_timerslack(0)?;
        Ok(Kept(child?))
    }

    fn second_client(&self, case: &Case, url: &str) -> Result<Option<Kept>> {
        let Disturbance::SecondClient(rate) = case.disturbance else { return Ok(None) };
        let line = format!(
            "bench --base-url {url} --request-rate {rate} --duration 8 --random-input-len 32 \
             --random-output-len 12 --num-warmups 0 --quiet --overwrite --run-dir second"
        );
        Ok(Some(Kept(self.command(&format!("taskset -c {}", CORES[1]), &line).spawn()?)))
    }
}

fn treatment(disturbance: Disturbance) -> Treatment {
    match disturbance {
        Disturbance::Join(millis) => Treatment::Join(Duration::from_millis(millis)),
        Disturbance::PathStall(millis) => {
            Treatment::Stall { begin: INTO_THE_RUN, length: Duration::from_millis(millis) }
        }
        _ => Treatment::Plain,
    }
}

fn tunnel(case: &Case) -> Result<Option<Kept>> {
    if case.route != Route::Tunnel {
        return Ok(None);
    }
    let (loss, delay) = match case.disturbance {
        Disturbance::Packets { loss, delay } => (loss, delay),
        _ => (0.0, 0),
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verdicts/tunnel.py");
    let started = Command::new("chrt")
        .args(["-f", "30", "taskset", "-c", CORES[1], "python3"])
        .arg(script)
        .args([NAMESPACE, &loss.to_string(), &delay.to_string()])
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Kept(started.context("cannot start the tunnel")?);
    let line = first_line(&mut child.0)?;
    ensure!(line.trim() == "ready", "the tunnel did not start");
    Ok(Some(child))
}

fn finish(child: &mut Child) -> Result<()> {
    let pause = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while waited < LONGEST {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "the run failed ({status})");
            return Ok(());
        }
        std::thread::sleep(pause);
        waited += pause;
    }
    let _ = child.kill();
    let _ = child.wait();
    bail!("the run did not end within {LONGEST:?}")
}
