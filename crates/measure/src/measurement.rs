//! Runs of one measurement against the same targets, each from its plan to a record on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokometer_base::{Clock, Nanos};
use tokometer_client::KeepText;
use tokometer_drive::Interrupt;
use tokometer_figures::server::{KeptSeries, parse};
use tokometer_plan::{self as plan, FirstExchange, Plan};
use tokometer_record::server::Scrape;
use tokometer_record::{self as record, RemoveEarlier, RunEnd, RunReader, RunWriter};
use tokometer_schedule::Share;
use tokometer_tokenize::Tokenizer;

use crate::alternating;
use crate::identify::server_name;
use crate::observer::Observer;
use crate::readiness;
use crate::retokenize::{AfterCount, CountedTexts, CountingEnd, retokenize};
use crate::run::{DrivenRun, RunSetup};
use crate::run_config::{info, keep_text, preparer, salt, switch_command};
use crate::secrets::Credentials;
use crate::shard::{self, CapRule, Coordination};
use crate::target::{Reached, reach};
use crate::tokenizer::tokenizer;
use crate::workload::{self, OpenedWorkload, WorkloadInputs};
use crate::{Error, ErrorKind};

/// Everything that a measurement gets from outside.
pub struct Tools {
    /// Not part of the plan, which is written to disk.
    pub secrets: Credentials,
    /// For waits outside the measured phase; the run has its own.
    pub clock: Arc<dyn Clock>,
    /// Receives progress and remarks.
    pub observer: Arc<dyn Observer>,
    /// Version of this program, for the record.
    pub version: String,
    /// The other processes of the run; `None` where this one makes all of it.
    pub shard: Option<Arc<dyn Coordination>>,
    /// The command that started this program, without secrets, for the record.
    pub command: String,
}

/// State that several runs share: the server and its tokenizer.
pub struct Measurement {
    tools: Tools,
    ready: Option<ReadyTargets>,
    /// Runs that are planned, for a display.
    points: usize,
    /// What the measurement replaces, to be removed when its first request has left.
    remove_earlier: Option<RemoveEarlier>,
}

/// Targets and their tokenizer, kept between runs.
pub(crate) struct ReadyTargets {
    targets: Vec<plan::Target>,
    /// As given by the user.
    named_tokenizer: Option<String>,
    pub(crate) reached: Reached,
    /// The second target of an A/B measurement.
    pub(crate) against: Option<Reached>,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) remarks: Vec<String>,
    /// Whether the targets have passed the plan's ready check.
    is_proved: bool,
    /// Whether the next exchange is to be shown.
    pub(crate) wants_exchange: AtomicBool,
}

/// Looks for a server that went away, and the time between two.
const RETURN_TRIES: u32 = 60;
const RETURN_PAUSE: Nanos = Nanos::from_millis(500);
/// Looks at a server that should become idle, and the time between two.
const IDLE_TRIES: u32 = 120;
const IDLE_PAUSE: Nanos = Nanos::from_millis(250);

/// Requests running or waiting on the server; `None` where it does not report them.
fn busy(metrics_text: &str) -> Option<f64> {
    let scrape = Scrape {
        at: Nanos::ZERO,
        endpoint: 0,
        values: parse(metrics_text, KeptSeries::Values),
        error: None,
    };
    let reading = tokometer_figures::server::read(&scrape)?;
    Some(reading.running.unwrap_or(0.0) + reading.waiting.unwrap_or(0.0))
}

#[derive(Debug)]
pub struct MeasuredRun {
    pub folder: PathBuf,
    pub end: RunEnd,
    /// Why the record could not be written to its end.
    pub write_failure: Option<record::Error>,
    /// Reads all of the run where its folder does not have it.
    pub reader: Option<RunReader>,
}

impl MeasuredRun {
    /// Counts kept texts. Where the counts cannot be written they are in the reader.
    fn count(
        &mut self,
        tokenizer: &dyn Tokenizer,
        texts: CountedTexts,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let unreadable = |why: record::Error| Error::new(ErrorKind::Write, why.to_string());
        let (mut reader, is_kept) = match self.reader.take() {
            Some(reader) => (reader, true),
            None => (RunReader::open(&self.folder).map_err(unreadable)?, false),
        };
        // A run that the first signal ended is counted all the same; one more ends the counting.
        let interrupt = Arc::new(Interrupt::default());
        let routed = observer.route_interrupts(&interrupt);
        let before = interrupt.times();
        let is_stopped = || interrupt.times() > before;
        let counted = retokenize(&mut reader, tokenizer, texts, &is_stopped);
        drop(routed);
        if counted.as_ref().is_ok_and(|counting| *counting == CountingEnd::Stopped) {
            observer.remark(
                "counting the tokens of the answers was interrupted; answers without usage have no count",
            );
        }
        self.reader = Some(reader).filter(|_| is_kept || counted.is_err());
        self.write_failure = self.write_failure.take().or(counted.err());
        Ok(())
    }
}

impl Measurement {
    pub fn new(tools: Tools) -> Self {
        Self { tools, ready: None, points: 1, remove_earlier: None }
    }

    /// Whether the last measured server has become unreachable.
    pub fn is_target_gone(&self) -> bool {
        let answer = self.ready.as_ref().map(|ready| ready.reached.control.get("/v1/models"));
        matches!(answer, Some(Err(tokometer_client::Error::Reach { .. })))
    }

    /// SGLang's `/server_info`, where SGLang's result file is requested.
    pub fn server_info(&self, plan: &Plan) -> Option<serde_json::Value> {
        let ready = self.ready.as_ref().filter(|_| plan.output.sglang_result.is_some())?;
        let reached = &ready.reached;
        let has_info = reached.dialect.has_server_info();
        let info = has_info.then(|| reached.control.server_info().ok())?;
        // SGLang's server reports its own arguments, its key among them.
        info.map(|info| self.tools.secrets.clean_json(&info))
    }

    /// True after the first interrupt of the user.
    pub fn is_interrupted(&self) -> bool {
        self.tools.observer.is_interrupted()
    }

    /// Waits a while for a server that went away. True when it answers again, or when the user does
    /// not want to wait; `at_first` is called before the first wait.
    pub fn wait_for_return(&self, at_first: impl FnOnce()) -> bool {
        let mut at_first = Some(at_first);
        for _ in 0..RETURN_TRIES {
            if self.is_interrupted() || !self.is_target_gone() {
                return true;
            }
            if let Some(at_first) = at_first.take() {
                at_first();
            }
            self.tools.clock.sleep(RETURN_PAUSE);
        }
        false
    }

    /// Waits a while for the server to finish its running requests, where it reports how many.
    pub fn wait_until_idle(&self) {
        let Some(ready) = &self.ready else { return };
        for _ in 0..IDLE_TRIES {
            let busy = ready.reached.control.metrics_text().ok().and_then(|text| busy(&text));
            if self.is_interrupted() || busy.is_none_or(|count| count <= 0.0) {
                return;
            }
            self.tools.clock.sleep(IDLE_PAUSE);
        }
    }

    /// Says how many runs will be executed, for a display.
    pub fn set_points(&mut self, points: usize) {
        self.points = points;
    }

    /// Says what else to remove when the first request has left.
    pub fn replace_earlier(&mut self, remove: Option<RemoveEarlier>) {
        self.remove_earlier = remove;
    }

    /// Executes one run and writes its record to `folder`. `point` changes the content of prompts.
    pub fn run(&mut self, plan: &Plan, point: u32, folder: &Path) -> Result<MeasuredRun, Error> {
        let clean = |error, tools: &Tools| tools.secrets.clean_error(error);
        let mut ready = self.take_ready(plan).map_err(|error| clean(error, &self.tools))?;
        let measured = self.run_ready(plan, &mut ready, point, folder);
        // Kept after a failure as well, for the next point of a sweep.
        self.ready = Some(ready);
        measured.map_err(|error| clean(error, &self.tools))
    }

    fn run_ready(
        &self,
        plan: &Plan,
        ready: &mut ReadyTargets,
        point: u32,
        folder: &Path,
    ) -> Result<MeasuredRun, Error> {
        let part = self.tools.shard.as_ref().map(|shard| shard.part(point));
        let share = part.as_ref().map_or(Share::WHOLE, |part| part.share);
        let rule = part.as_ref().map_or(CapRule::Split, |part| part.cap);
        shard::check_division(plan, (share, rule))?;
        let root = part.as_ref().map_or_else(|| self.tools.clock.wall(), |part| part.content_root);
        let (whole, plan) = (plan, &shard::own_plan(plan, share));
        let salt = salt(plan, point, root);
        let hub = self.tools.secrets.hub.clone();
        let means = WorkloadInputs { tokenizer: Arc::clone(&ready.tokenizer), salt, hub };
        let opened = OpenedWorkload { share, ..workload::open(plan, means)? };
        shard::check_conversations(plan, &opened, rule)?;
        self.check_interrupted()?;
        self.prove_ready(plan, ready, &opened)?;
        let info = info(whole, ready, &opened, (salt, &self.tools, part.as_ref()));
        let mut writer = RunWriter::create(folder, &info)
            .map_err(|why| Error::new(ErrorKind::Write, why.to_string()))?;
        if let Some(remove) = &self.remove_earlier {
            writer.remove_later(Arc::clone(remove));
        }
        let setup = RunSetup {
            tools: &self.tools,
            plan,
            ready,
            opened: &opened,
            point,
            points: self.points,
        };
        let DrivenRun { mut measured, has_text } = setup.drive(writer, &info)?;
        let texts = match keep_text(plan) {
            KeepText::Yes => CountedTexts::All,
            // Responses of a conversation stay in the record with its prompts.
            _ if opened.has_turns() => CountedTexts::Uncounted(AfterCount::Kept),
            _ => CountedTexts::Uncounted(AfterCount::Dropped),
        };
        if has_text {
            measured.count(&*ready.tokenizer, texts, &*self.tools.observer)?;
        }
        Ok(measured)
    }

    /// The targets of the previous run if this plan has the same ones, otherwise new ones.
    fn take_ready(&mut self, plan: &Plan) -> Result<ReadyTargets, Error> {
        let is_same = |ready: &ReadyTargets| {
            ready.targets == plan.targets && ready.named_tokenizer == plan.prompts.tokenizer
        };
        // Dropped before another one starts: two simulated servers would share the cores.
        if let Some(mut ready) = self.ready.take().filter(is_same) {
            ready.settle(plan, &self.tools.secrets)?;
            return Ok(ready);
        }
        let is_first = self.tools.shard.as_ref().is_none_or(|shard| shard.part(0).share.is_first());
        if let Some(command) = switch_command(plan).filter(|_| is_first) {
            let interrupt = Arc::new(Interrupt::default());
            let routed = self.tools.observer.route_interrupts(&interrupt);
            alternating::switch(command, 0, &interrupt)?;
            drop(routed);
            self.check_interrupted()?;
        }
        let reached = self.reach(plan)?;
        let against = plan
            .second()
            .map(|second| {
                self.reach(&second)
                    .map_err(|why| Error { message: format!("target b: {}", why.message), ..why })
            })
            .transpose()?;
        let opened = tokenizer(plan, &self.tools.secrets, Some(&reached))?;
        let remarks = reached.remarks.iter().cloned().chain(opened.notes).collect();
        Ok(ReadyTargets {
            targets: plan.targets.clone(),
            named_tokenizer: plan.prompts.tokenizer.clone(),
            reached,
            against,
            tokenizer: opened.tokenizer,
            remarks,
            is_proved: false,
            wants_exchange: AtomicBool::new(plan.output.first_exchange == FirstExchange::Shown),
        })
    }

    fn reach(&self, plan: &Plan) -> Result<Reached, Error> {
        let say = |text: &str| self.tools.observer.remark(text);
        let secrets = &self.tools.secrets;
        let mut reached = reach(plan, secrets, &self.tools.clock, &say)?;
        // A simulated server speaks as the one that it stands for.
        if !reached.described.is_simulated {
            let name = server_name(&reached.control);
            reached.described.server = name.map(|name| secrets.clean(&name));
        }
        Ok(reached)
    }

    /// Sends the ready check to targets that have not passed it yet, where the plan has one.
    fn prove_ready(
        &self,
        plan: &Plan,
        ready: &mut ReadyTargets,
        opened: &OpenedWorkload,
    ) -> Result<(), Error> {
        if ready.is_proved {
            return Ok(());
        }
        for reached in ready.all_reached() {
            let first = preparer(plan, reached, opened);
            readiness::prove(plan, (reached, &first), &ready.wants_exchange, &self.tools)?;
        }
        ready.is_proved = true;
        Ok(())
    }

    /// An error once the user has interrupted the measurement, before there is a run to end.
    fn check_interrupted(&self) -> Result<(), Error> {
        if self.is_interrupted() {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted before the run began"));
        }
        Ok(())
    }
}

impl ReadyTargets {
    /// Sections of a plan may change fields of the body while the server stays the same.
    fn settle(&mut self, plan: &Plan, secrets: &Credentials) -> Result<(), Error> {
        self.reached.settle(plan, secrets)?;
        match (&mut self.against, plan.second()) {
            (Some(against), Some(second)) => against.settle(&second, secrets),
            _ => Ok(()),
        }
    }

    pub(crate) fn all_reached(&self) -> impl Iterator<Item = &Reached> {
        std::iter::once(&self.reached).chain(&self.against)
    }
}
