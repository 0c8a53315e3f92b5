//! Runs of one measurement against the same targets, each from its plan to a record on disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokometer_base::{Clock, Nanos};
use tokometer_client::KeepText;
use tokometer_drive::Interrupt;
use tokometer_figures::server::{KeptSeries, parse};
use tokometer_plan::{FirstExchange, Plan};
use tokometer_record::server::Scrape;
use tokometer_record::{RemoveEarlier, RunWriter};
use tokometer_schedule::Share;

use crate::alternating;
use crate::identify::server_name;
use crate::measured_run::MeasuredRun;
use crate::readiness;
use crate::ready_targets::ReadyTargets;
use crate::retokenize::{AfterCount, CountedTexts};
use crate::run::DrivenRun;
use crate::run_config::{RunSetup, info, keep_text, preparer, salt, switch_command};
use crate::shard::{self, CapRule};
use crate::target::{Reached, reach};
use crate::tokenizer::tokenizer;
use crate::tools::Tools;
use crate::workload::{self, OpenedWorkload, WorkloadInputs};
use crate::{Error, ErrorKind};

/// State that several runs share: the server and its tokenizer.
pub struct Measurement {
    tools: Tools,
    ready: Option<ReadyTargets>,
    /// Runs that are planned, for a display.
    points: usize,
    /// What the measurement replaces, to be removed when its first request has left.
    remove_earlier: Option<RemoveEarlier>,
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
        shard::check_division(plan, share, rule)?;
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
            readiness::prove(plan, reached, &first, &ready.wants_exchange, &self.tools)?;
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
