//! One run: from a plan to a record on disk.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};

use serde_json::json;
use tokometer_base::{Clock, MonotonicClock, Nanos, Seed};
use tokometer_client::KeepText;
use tokometer_client::control::Model;
use tokometer_drive::{self as drive, Interrupt, Live, Outlets, Prepare};
use tokometer_metrics::sends::Capped;
use tokometer_metrics::server::{Keep, parse};
use tokometer_plan::{Content, Form, Plan, Profiler};
use tokometer_record::run::SCHEMA_VERSION;
use tokometer_record::server::{SERVER_INFO_ACCEPT_LENGTH, Scrape};
use tokometer_record::{self as record, RunEnd, RunInfo, RunWriter};
use tokometer_schedule::{Extent, Limits, Offsets};
use tokometer_tokenize::Tokenizer;
use tokometer_workload::Family;

use super::alternating::{self, Alternating, BlockTimes, Switch};
use super::between::{SidesPlace, between};
use super::conversation::{Conversations, Telling};
use super::exporter::Exporter;
use super::preparer::Preparer;
use super::progress::{Bar, Goal, Progress};
use super::readiness;
use super::recorder::{Onlookers, Recorded, Recorder};
use super::retokenize::retokenize;
use super::sidelights::Sidelights;
use super::signals::Signals;
use super::target::{Reached, reach};
use super::tokenizer::tokenizer;
use super::watch::Watch;
use super::workload::{self, Means, Opened};
use crate::dashboard::{Dashboard, Watched};
use crate::exit::{Exit, Refusal};
use crate::lower::Secrets;

/// What several runs of one measurement share: the server, the tokenizer, the terminal.
pub(crate) struct Session {
    secrets: Secrets,
    signals: Signals,
    bar: Bar,
    ready: Option<Ready>,
}

/// A target and its tokenizer, kept from point to point.
struct Ready {
    target: Vec<tokometer_plan::Target>,
    wish: Option<String>,
    reached: Reached,
    /// The second target, where two are measured in turn.
    against: Option<Reached>,
    tokenizer: Arc<dyn Tokenizer>,
    remarks: Vec<String>,
    /// Whether it has passed the plan's ready check.
    is_proved: bool,
}

/// Looks at a server that should become idle, and the time between two.
const IDLE_TRIES: u32 = 120;
const IDLE_PAUSE: std::time::Duration = std::time::Duration::from_millis(250);

/// Requests that the server runs or lets wait; `None` where it does not tell.
fn busy(metrics_text: &str) -> Option<f64> {
    let scrape = Scrape {
        at: Nanos::ZERO,
        endpoint: 0,
        values: parse(metrics_text, Keep::Values),
        error: None,
    };
    let reading = tokometer_metrics::server::read(&scrape)?;
    Some(reading.running.unwrap_or(0.0) + reading.waiting.unwrap_or(0.0))
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Its record.
    pub(crate) folder: PathBuf,
    /// Why it stopped; absent when its end could not be written.
    pub(crate) end: Option<RunEnd>,
    /// Why the record could not be written to its end.
    pub(crate) write_failure: Option<record::Error>,
}

impl Session {
    /// A session that has reached nobody yet.
    pub(crate) fn new(secrets: Secrets, signals: Signals, bar: Bar) -> Self {
        Self { secrets, signals, bar, ready: None }
    }

    /// Whether the server that was measured last cannot be reached any more.
    pub(crate) fn is_target_gone(&self) -> bool {
        let answer = self.ready.as_ref().map(|ready| ready.reached.control.get("/v1/models"));
        matches!(answer, Some(Err(tokometer_client::Error::Reach { .. })))
    }

    /// What SGLang's server says of itself, where SGLang's result file is asked for.
    pub(crate) fn server_info(&self, plan: &Plan) -> Option<serde_json::Value> {
        let ready = self.ready.as_ref().filter(|_| plan.output.sglang_result.is_some())?;
        let reached = &ready.reached;
        let is_sglang = reached.dialect.name().starts_with("sglang");
        is_sglang.then(|| reached.control.server_info().ok())?
    }

    /// The signals.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Waits a while for the server to finish what it still has, where it tells what that is.
    pub(crate) fn wait_until_idle(&self) {
        let Some(ready) = &self.ready else { return };
        for _ in 0..IDLE_TRIES {
            let busy = ready.reached.control.metrics_text().ok().and_then(|text| busy(&text));
            if self.signals.is_interrupted() || busy.is_none_or(|count| count <= 0.0) {
                return;
            }
            std::thread::sleep(IDLE_PAUSE);
        }
    }

    /// Makes one run and leaves its record in `folder`. `point` salts the content.
    pub(crate) fn measure(
        &mut self,
        plan: &Plan,
        point: u32,
        folder: &Path,
    ) -> Result<Measured, Refusal> {
        self.make_ready(plan)?;
        let ready = self.ready.as_ref().ok_or_else(|| Refusal::usage("no target", ""))?;
        let clock = MonotonicClock;
        let salt = salt(plan, point, clock.wall().0);
        let hub = self.secrets.hub.clone();
        let means = Means { tokenizer: Arc::clone(&ready.tokenizer), salt, hub };
        let opened = workload::open(plan, means)?;
        self.prove_ready(plan, &opened)?;
        let ready = self.ready.as_ref().ok_or_else(|| Refusal::usage("no target", ""))?;
        let info = info(plan, ready, &opened, salt);
        let writer = RunWriter::create(folder, &info)
            .map_err(|why| Refusal::new(Exit::Write, why.to_string()))?;
        let measured = self.drive(plan, ready, &opened, writer)?;
        if keep_text(plan) == KeepText::Yes {
            let counted = retokenize(&measured.folder, &*ready.tokenizer);
            counted.map_err(|why| Refusal::new(Exit::Write, why.to_string()))?;
        }
        Ok(measured)
    }

    /// The whole terminal for the run, where it was asked for and there is one.
    fn dashboard(
        &self,
        plan: &Plan,
        goal: Goal,
        (live, interrupt): (&Arc<Live>, &Arc<Interrupt>),
        sidelights: Arc<Sidelights>,
    ) -> Result<Option<Dashboard>, Refusal> {
        if self.bar != Bar::Live {
            return Ok(None);
        }
        let watched = Watched {
            title: plan.name.clone(),
            planned: goal.requests,
            duration: goal.seconds.map(Nanos::from_secs_f64),
            live: Arc::clone(live),
            interrupt: Arc::clone(interrupt),
            sidelights,
        };
        Dashboard::open(watched).map(Some).map_err(|why| Refusal::usage(format!("{why:#}"), ""))
    }

    fn make_ready(&mut self, plan: &Plan) -> Result<(), Refusal> {
        let is_same =
            |ready: &Ready| ready.target == plan.targets && ready.wish == plan.prompts.tokenizer;
        if self.ready.as_ref().is_some_and(is_same) {
            return self.settle(plan);
        }
        // Dropped before the next one starts: two simulated servers would share the cores.
        self.ready = None;
        if let Some(command) = switch_command(plan) {
            alternating::switch(command, 0, &Interrupt::default())?;
        }
        let reached = reach(plan, &self.secrets)?;
        let against = plan.second().map(|second| reach(&second, &self.secrets)).transpose()?;
        let opened = tokenizer(plan, &self.secrets, Some(&reached))?;
        let remarks = reached.remarks.iter().cloned().chain(opened.notes).collect();
        self.ready = Some(Ready {
            target: plan.targets.clone(),
            wish: plan.prompts.tokenizer.clone(),
            reached,
            against,
            tokenizer: opened.tokenizer,
            remarks,
            is_proved: false,
        });
        Ok(())
    }

    /// Sends the first prompt to a target that has not answered one yet, where the plan says so.
    fn prove_ready(&mut self, plan: &Plan, opened: &Opened) -> Result<(), Refusal> {
        let Some(ready) = &mut self.ready else { return Ok(()) };
        if ready.is_proved {
            return Ok(());
        }
        for reached in std::iter::once(&ready.reached).chain(&ready.against) {
            let first = preparer(plan, reached, opened);
            readiness::prove(plan, reached, &first, &self.signals)?;
        }
        ready.is_proved = true;
        Ok(())
    }

    /// Sections of a plan may change the body's fields while the server stays.
    fn settle(&mut self, plan: &Plan) -> Result<(), Refusal> {
        let secrets = &self.secrets;
        let Some(ready) = &mut self.ready else { return Ok(()) };
        ready.reached.settle(plan, secrets)?;
        match (&mut ready.against, plan.second()) {
            (Some(against), Some(second)) => against.settle(&second, secrets),
            _ => Ok(()),
        }
    }

    fn drive(
        &self,
        plan: &Plan,
        ready: &Ready,
        opened: &Opened,
        writer: RunWriter,
    ) -> Result<Measured, Refusal> {
        let folder = writer.folder().to_owned();
        let (notices, from_run) = channel();
        let (scrapes, from_server) = channel();
        let live = Arc::new(Live::default());
        let interrupt = Arc::new(Interrupt::default());
        let watch = Watch::start(&plan.load, &live, &interrupt);
        let lights = Arc::new(Sidelights::new(Capped::by(plan.load.max_concurrency)));
        let onlookers = Onlookers { tap: watch.tap(), lights: Arc::clone(&lights) };
        let recorder =
            Recorder::start(writer, from_run, from_server, onlookers).map_err(|why| {
                Refusal::new(Exit::Write, format!("cannot start the recorder: {why}"))
            })?;
        let sides = SidesPlace::default();
        let told = scrapes.clone();
        let between = between(plan, &ready.reached, (scrapes, notices.clone()), &sides)?;
        let goal = Goal::new(&plan.load, opened.len());
        let progress = Progress::start(&live, goal, self.bar, plan.output.shown);
        let dashboard = self.dashboard(plan, goal, (&live, &interrupt), lights)?;
        let exporter =
            plan.output.prometheus_port.map(|port| Exporter::start(port, &live)).transpose()?;
        let interrupt_shared = Arc::clone(&interrupt);
        let outlets =
            Outlets { notices, live, interrupt: interrupt_shared, between: Some(between) };
        let directed = self.signals.direct_to(&interrupt);
        let source = source(plan, ready, opened, &interrupt)?;
        let ended = drive::run(config(plan, ready, opened), source, outlets);
        drop(directed);
        drop(progress);
        drop(dashboard);
        drop(exporter);
        drop(sides.lock().unwrap_or_else(PoisonError::into_inner).take());
        if plan.phases.profiler == Profiler::On {
            let _stopped = ready.reached.control.stop_profile();
        }
        tell_accept_length(&ready.reached, told);
        let written = recorder.finish();
        let mut end = ended.map_err(|why| match why {
            drive::Error::WarmUps { .. } => Refusal::new(Exit::NoSuccess, why.to_string()),
            other => Refusal::usage(other.to_string(), ""),
        })?;
        if let Some(reason) = watch.finish() {
            end.stop = reason;
        }
        Ok(finish(folder, written, end))
    }
}

/// Records the accept length that an SGLang server reports after a run, as SGLang's benchmark asks for
/// it. Whoever does not answer, or does not speculate, leaves no line.
fn tell_accept_length(reached: &Reached, scrapes: Sender<Scrape>) {
    let is_sglang = reached.dialect.name().contains("sglang");
    let info = is_sglang.then(|| reached.control.server_info().ok()).flatten();
    if let Some(length) = info.as_ref().and_then(tokometer_metrics::server::told_accept_length) {
        let values = [(SERVER_INFO_ACCEPT_LENGTH.to_owned(), length)].into();
        let told = Scrape { at: MonotonicClock.now(), endpoint: 0, values, error: None };
        let _sent = scrapes.send(told);
    }
}

fn finish(folder: PathBuf, recorded: Recorded, end: RunEnd) -> Measured {
    let Recorded { writer, failure } = recorded;
    let finished = writer.map(|writer| writer.finish(&end));
    match (finished, failure) {
        (Some(Ok(_folder)), None) => Measured { folder, end: Some(end), write_failure: None },
        (Some(Err(why)), _) | (_, Some(why)) => {
            Measured { folder, end: None, write_failure: Some(why) }
        }
        (None, None) => Measured { folder, end: None, write_failure: None },
    }
}

/// The root of the content: fresh for every run and point, or the same for the same seed.
fn salt(plan: &Plan, point: u32, fresh: u64) -> Seed {
    let root = match plan.content {
        Content::Fresh => Seed(fresh),
        Content::Repeated => Seed(plan.seed),
    };
    Seed(root.stream("content").draw(u64::from(point)))
}

/// Text is kept where something needs it: counts of its tokens, or detailed result files.
fn keep_text(plan: &Plan) -> KeepText {
    let is_counted_by_usage = plan.targets.first().is_some_and(|target| {
        let dialect = tokometer_client::Dialect::named(&target.backend);
        dialect.is_some_and(|dialect| dialect.is_openai())
    });
    let is_detailed = plan.output.vllm_result.as_ref().is_some_and(|file| file.is_detailed)
        || plan.output.sglang_result.as_ref().is_some_and(|file| file.is_detailed);
    if plan.family == Family::Sglang || !is_counted_by_usage || is_detailed {
        KeepText::Yes
    } else {
        KeepText::No
    }
}

/// What makes the requests: one target's, or two targets' in turn.
fn source(
    plan: &Plan,
    ready: &Ready,
    opened: &Opened,
    interrupt: &Arc<Interrupt>,
) -> Result<Box<dyn Prepare>, Refusal> {
    if opened.has_turns() && (opened.against.is_some() || opened.kept.is_some()) {
        return Err(Refusal::usage(
            "cannot hold conversations with two targets in turn or with `--max-model-len`",
            "measure one target after the other, without that limit",
        ));
    }
    if opened.has_turns() && plan.prompts.form == Form::TokenIds {
        return Err(Refusal::usage(
            "cannot hold conversations in token ids: answers come back as text",
            "leave out --prompt-token-ids",
        ));
    }
    let own = preparer(plan, &ready.reached, opened);
    let Some((against, reached)) = opened.against.as_ref().zip(ready.against.as_ref()) else {
        return Ok(Box::new(own));
    };
    let other =
        Preparer { workload: Arc::clone(&against.workload), ..preparer(plan, reached, opened) };
    let config = config(plan, ready, opened);
    let extent = config.limits.extent;
    let of_side = Extent { count: extent.count.map(|count| count / 2), ..extent };
    let offsets = Offsets::new(&config.arrivals, of_side, config.seed)
        .map_err(|why| Refusal::usage(why.to_string(), ""))?;
    let patience = Nanos::from_secs_f64(plan.phases.ready_timeout_s);
    let switch = switch_command(plan).map(|command| {
        let control = ready.reached.control.clone();
        Switch::new(command.to_owned(), control, patience, interrupt)
    });
    Ok(Box::new(Alternating {
        sides: [own, other],
        turns: against.turns,
        warmups: plan.phases.warmups,
        count: extent.count,
        times: BlockTimes::new(offsets),
        switch,
        made: 0,
    }))
}

fn switch_command(plan: &Plan) -> Option<&str> {
    plan.interleave.as_ref()?.switch_command.as_deref()
}

fn preparer(plan: &Plan, reached: &Reached, opened: &Opened) -> Preparer {
    Preparer {
        workload: Arc::clone(&opened.workload),
        kept: opened.kept.clone(),
        dialect: reached.dialect,
        settings: Arc::clone(&reached.settings),
        warmups: plan.phases.warmups,
        warmup_output_max: plan.phases.warmup_output_max,
        lora: plan.request.lora.clone(),
        timing: plan.load.timing,
        seed: Seed(plan.seed),
        conversations: Conversations::new(if reached.dialect.is_chat() {
            Telling::Messages
        } else {
            Telling::Text
        }),
        made: 0,
    }
}

fn config(plan: &Plan, ready: &Ready, opened: &Opened) -> drive::Config {
    let target = |reached: &Reached| drive::config::Target {
        endpoint: reached.endpoint.clone(),
        dialect: reached.dialect,
        settings: Arc::clone(&reached.settings),
        keep_text: if opened.has_turns() { KeepText::Yes } else { keep_text(plan) },
    };
    let targets = std::iter::once(&ready.reached).chain(&ready.against).map(target).collect();
    let load = &plan.load;
    let extent = Extent {
        count: load.num_prompts.map(|_| opened.len()),
        duration: load.duration_s.map(Nanos::from_secs_f64),
    };
    let limits =
        Limits { max_concurrency: load.max_concurrency, extent, warmups: plan.phases.warmups };
    let client = &plan.client;
    drive::Config {
        arrivals: load.arrivals(plan.family),
        seed: Seed(plan.seed),
        connections: client.connections,
        harvest: client.harvest,
        stamps: client.stamps,
        places: match plan.family {
            Family::Sglang => drive::Places::PerConversation,
            Family::Vllm => drive::Places::PerTurn,
        },
        warm_ups: match plan.family {
            Family::Sglang => drive::WarmUps::Needed,
            Family::Vllm => drive::WarmUps::Tolerated,
        },
        timeouts: drive::Timeouts {
            connect: Nanos::from_secs_f64(client.connect_timeout_s),
            stall: client.stall_timeout_s.map(Nanos::from_secs_f64),
            total: client.timeout_s.map(Nanos::from_secs_f64),
            ..drive::Timeouts::default()
        },
        retries: client.retries,
        workers: client.workers,
        ..drive::Config::new(targets, limits)
    }
}

fn info(plan: &Plan, ready: &Ready, opened: &Opened, salt: Seed) -> RunInfo {
    let clock = MonotonicClock;
    RunInfo {
        schema: SCHEMA_VERSION,
        version: crate::version::long(),
        name: plan.name.clone(),
        started: clock.wall(),
        origin: clock.now(),
        seed: Seed(plan.seed),
        salt: salt.0,
        family: match plan.family {
            Family::Vllm => "vllm".to_owned(),
            Family::Sglang => "sglang".to_owned(),
        },
        targets: std::iter::once(&ready.reached)
            .chain(&ready.against)
            .map(|reached| reached.described.clone())
            .collect(),
        load: plan.load.asked(opened.len()),
        dataset: plan.workload.name().to_owned(),
        tokenizer: Some(ready.tokenizer.name().to_owned()),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        environment: environment(ready.reached.model.as_ref()),
        remarks: ready.remarks.iter().chain(&opened.remarks).cloned().collect(),
    }
}

/// Facts of the machine that a reader of old figures will ask for.
fn environment(model: Option<&Model>) -> serde_json::Value {
    let line = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let processor = line("/proc/cpuinfo").and_then(|text| {
        let row = text.lines().find(|row| row.starts_with("model name"))?;
        row.split_once(':').map(|(_, name)| name.trim().to_owned())
    });
    json!({
        "kernel": line("/proc/sys/kernel/osrelease"),
        "cores": std::thread::available_parallelism().ok().map(std::num::NonZero::get),
        "processor": processor,
        "model_root": model.and_then(|model| model.root.clone()),
        "max_model_len": model.and_then(|model| model.max_model_len),
    })
}
