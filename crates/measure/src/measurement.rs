//! Runs of one measurement against the same targets, each from its plan to a record on disk.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};

use tokometer_base::{Clock, Nanos};
use tokometer_client::KeepText;
use tokometer_drive::{self as drive, AwaitStart, Interrupt, Live, Outlets};
use tokometer_metrics::server::{KeptSeries, parse};
use tokometer_plan::{self as plan, Plan, Profiler};
use tokometer_record::server::{SERVER_INFO_ACCEPT_LENGTH, Scrape};
use tokometer_record::{self as record, RunEnd, RunInfo, RunReader, RunWriter, Stop};
use tokometer_schedule::Share;
use tokometer_tokenize::Tokenizer;

use crate::alternating::{self, AwaitBlock};
use crate::between::{Beside, BesidePlace, between};
use crate::error::{Error, ErrorKind};
use crate::live_notes::LiveNotes;
use crate::observer::{Goal, Observer, RunInProgress};
use crate::readiness;
use crate::recorder::{Consumers, Recorder, WAITING_BYTES_MAX, WriteResult};
use crate::retokenize::{AfterCount, CountedTexts, CountingEnd, retokenize};
use crate::run_config::{config, info, keep_text, preparer, salt, source, switch_command};
use crate::secrets::Credentials;
use crate::shard::{self, CapRule, Coordination, ShardRun};
use crate::target::{Reached, reach};
use crate::tokenizer::tokenizer;
use crate::watch::Watch;
use crate::workload::{self, OpenedWorkload, WorkloadInputs};

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
    let reading = tokometer_metrics::server::read(&scrape)?;
    Some(reading.running.unwrap_or(0.0) + reading.waiting.unwrap_or(0.0))
}

/// The result of a run.
#[derive(Debug)]
pub struct MeasuredRun {
    /// The run folder.
    pub folder: PathBuf,
    /// Why it stopped.
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
    /// Connects to no server yet.
    pub fn new(tools: Tools) -> Self {
        Self { tools, ready: None, points: 1 }
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
        let place = self.tools.shard.as_ref().map(|shard| shard.place(point));
        let share = place.as_ref().map_or(Share::WHOLE, |place| place.share);
        let rule = place.as_ref().map_or(CapRule::Split, |place| place.cap);
        shard::check(plan, (share, rule))?;
        let root =
            place.as_ref().map_or_else(|| self.tools.clock.wall(), |place| place.content_root);
        let (whole, plan) = (plan, &shard::own_plan(plan, share));
        let salt = salt(plan, point, root);
        let hub = self.tools.secrets.hub.clone();
        let means = WorkloadInputs { tokenizer: Arc::clone(&ready.tokenizer), salt, hub };
        let opened = OpenedWorkload { share, ..workload::open(plan, means)? };
        shard::check_conversations(plan, &opened, rule)?;
        self.check_interrupted()?;
        self.prove_ready(plan, ready, &opened)?;
        let info = info(whole, ready, &opened, (salt, &self.tools, place.as_ref()));
        let writer = RunWriter::create(folder, &info)
            .map_err(|why| Error::new(ErrorKind::Write, why.to_string()))?;
        let (mut measured, has_text) = self.drive(plan, ready, &opened, (writer, &info, point))?;
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
        let is_first =
            self.tools.shard.as_ref().is_none_or(|shard| shard.place(0).share.is_first());
        if let Some(command) = switch_command(plan).filter(|_| is_first) {
            let interrupt = Arc::new(Interrupt::default());
            let routed = self.tools.observer.route_interrupts(&interrupt);
            alternating::switch(command, 0, &interrupt)?;
            drop(routed);
            self.check_interrupted()?;
        }
        let secrets = &self.tools.secrets;
        let say = |text: &str| self.tools.observer.remark(text);
        let reached = reach(plan, secrets, &self.tools.clock, &say)?;
        let against = plan
            .second()
            .map(|second| {
                reach(&second, secrets, &self.tools.clock, &say)
                    .map_err(|why| Error { message: format!("target b: {}", why.message), ..why })
            })
            .transpose()?;
        let opened = tokenizer(plan, secrets, Some(&reached))?;
        let remarks = reached.remarks.iter().cloned().chain(opened.notes).collect();
        Ok(ReadyTargets {
            targets: plan.targets.clone(),
            named_tokenizer: plan.prompts.tokenizer.clone(),
            reached,
            against,
            tokenizer: opened.tokenizer,
            remarks,
            is_proved: false,
        })
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
            readiness::prove(plan, reached, &first, &self.tools)?;
        }
        ready.is_proved = true;
        Ok(())
    }

    /// The waits for the other processes of the run, where there are any: before the run, and before a
    /// block of it.
    fn waits(
        &self,
        opened: &OpenedWorkload,
        (live, interrupt, notes): (&Arc<Live>, &Arc<Interrupt>, &Arc<LiveNotes>),
        (folder, point): (&Path, u32),
    ) -> (Option<AwaitStart>, Option<AwaitBlock>) {
        let Some(shard) = &self.tools.shard else { return (None, None) };
        let run = Arc::new(ShardRun {
            point,
            prompts: shard::digest(opened),
            folder: folder.to_owned(),
            live: Arc::clone(live),
            interrupt: Arc::clone(interrupt),
            notes: Arc::clone(notes),
        });
        let (of_start, of_block) = (Arc::clone(shard), Arc::clone(shard));
        let same = Arc::clone(&run);
        let start: AwaitStart = Box::new(move || of_start.await_start(&run));
        let block: AwaitBlock = Box::new(move |block| of_block.await_block(&same, block));
        (Some(start), Some(block))
    }

    /// An error once the user has interrupted the measurement, before there is a run to end.
    fn check_interrupted(&self) -> Result<(), Error> {
        if self.is_interrupted() {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted before the run began"));
        }
        Ok(())
    }

    /// Also returns whether the record holds texts.
    fn drive(
        &self,
        plan: &Plan,
        ready: &ReadyTargets,
        opened: &OpenedWorkload,
        (writer, info, point): (RunWriter, &RunInfo, u32),
    ) -> Result<(MeasuredRun, bool), Error> {
        let folder = writer.folder().to_owned();
        let place = self.tools.shard.as_ref().map(|shard| shard.place(point));
        let counts_all = place.is_some_and(|place| place.counts_all);
        let observer = &self.tools.observer;
        let (notices, from_run) = channel();
        let (scrapes, from_server) = channel();
        let live = Arc::new(Live::default());
        let interrupt = Arc::new(Interrupt::default());
        let watch = Watch::start(&plan.load, (&live, &interrupt), &self.tools.clock);
        let notes = Arc::new(LiveNotes::new(plan.load.max_concurrency));
        let consumers = Consumers {
            tap: watch.tap(),
            notes: Arc::clone(&notes),
            secrets: self.tools.secrets.clone(),
            interrupt: Arc::clone(&interrupt),
            clock: Arc::clone(&self.tools.clock),
            waiting_bytes_max: WAITING_BYTES_MAX,
        };
        let recorder =
            Recorder::start(writer, from_run, from_server, consumers).map_err(|why| {
                Error::new(ErrorKind::Write, format!("cannot start the recorder: {why}"))
            })?;
        // The recorder ends with the last sender of notices: it must still be there for the last scrape.
        let (after_run, until_last_scrape) = (scrapes.clone(), notices.clone());
        let beside = BesidePlace::default();
        let outlets = Beside {
            scrapes,
            notices: notices.clone(),
            live: Arc::clone(&live),
            place: Arc::clone(&beside),
        };
        let between = between(plan, &ready.reached, outlets, &self.tools)?;
        let underway = RunInProgress {
            plan,
            point: (self.points > 1).then_some((point + 1, self.points)),
            goal: Goal::new(&plan.load, if counts_all { opened.len() } else { opened.own_len() }),
            live: &live,
            interrupt: &interrupt,
            notes: &notes,
        };
        let shown = observer.run_begins(&underway)?;
        let interrupts = observer.route_interrupts(&interrupt);
        let (start, block) = self.waits(opened, (&live, &interrupt, &notes), (&folder, point));
        let source = source(plan, ready, opened, (&interrupt, &self.tools.clock, block))?;
        let interrupt = Arc::clone(&interrupt);
        let outlets = Outlets { notices, live, interrupt, between: Some(between), start };
        let mut config = config(plan, ready, opened);
        config.cap_lending = self.tools.shard.as_ref().and_then(|shard| shard.cap_lending());
        let ended = drive::run(config, source, outlets);
        drop(interrupts);
        drop(shown);
        drop(beside.lock().unwrap_or_else(PoisonError::into_inner).take());
        if plan.phases.profiler == Profiler::On {
            // A profiler that does not stop cannot change what was measured.
            drop(ready.reached.control.stop_profile());
        }
        if opened.share.is_first() {
            record_accept_length(&ready.reached, &after_run, &*self.tools.clock);
        }
        drop((after_run, until_last_scrape));
        let written = recorder.finish();
        let mut end = ended.map_err(|why| failed(&why, &folder))?;
        let given = self.tools.shard.as_ref().and_then(|shard| shard.stop_reason());
        if let Some(reason) = watch.finish().or(given.filter(|_| end.stop == Stop::Interrupted)) {
            end.stop = reason;
        }
        let has_text = written.disk.as_ref().is_some_and(RunWriter::has_text);
        Ok((finish((folder, info), written, end), has_text))
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

/// Records the accept length that an SGLang server reports after a run, as SGLang's benchmark does.
/// Without a response or without speculative decoding nothing is recorded.
fn record_accept_length(reached: &Reached, scrapes: &Sender<Scrape>, clock: &dyn Clock) {
    let has_info = reached.dialect.has_server_info();
    let info = has_info.then(|| reached.control.server_info().ok()).flatten();
    if let Some(length) = info.as_ref().and_then(tokometer_metrics::server::reported_accept_length)
    {
        let values = [(SERVER_INFO_ACCEPT_LENGTH.to_owned(), length)].into();
        let reported = Scrape { at: clock.now(), endpoint: 0, values, error: None };
        // The recorder ends early only if the record cannot be written; nothing is lost here then.
        let _ = scrapes.send(reported);
    }
}

/// The error of a run that could not be made. A panic is an internal error, and what was recorded
/// before it stays.
fn failed(why: &drive::Error, folder: &Path) -> Error {
    match why {
        drive::Error::WarmUps { .. } => Error::new(ErrorKind::NoSuccess, why.to_string()),
        drive::Error::Panicked { .. } => {
            let kept = format!("what was measured is kept: tokometer report {}", folder.display());
            Error::new(ErrorKind::Internal, why.to_string()).hint(kept)
        }
        _ => Error::usage(why.to_string(), ""),
    }
}

/// Ends the record. One that cannot be written to its end is read from memory as well.
fn finish(
    (folder, info): (PathBuf, &RunInfo),
    recorded: WriteResult<RunWriter>,
    mut end: RunEnd,
) -> MeasuredRun {
    recorded.describe(&mut end.health);
    let WriteResult { disk, unwritten, mut failure, .. } = recorded;
    let Some(mut writer) = disk else {
        end.stop = Stop::DiskFull;
        let reader = RunReader::with_unwritten(&folder, info, unwritten, &end);
        return MeasuredRun { folder, end, write_failure: failure, reader: Some(reader) };
    };
    if failure.is_none() {
        failure = writer.end(&end).err();
    }
    let reader = failure.as_ref().map(|why| {
        end.stop = Stop::DiskFull;
        end.health.write_failure = Some(why.reason());
        writer.give_up(&unwritten, end.clone())
    });
    MeasuredRun { folder, end, write_failure: failure, reader }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic was reported as a usage error.
    #[test]
    fn a_panic_is_an_internal_error_and_names_what_is_kept() {
        let panic = drive::Error::Panicked { thread: "worker", message: "index".to_owned() };
        let error = failed(&panic, Path::new("runs/a"));
        assert_eq!(error.kind, ErrorKind::Internal);
        assert_eq!(error.hint, "what was measured is kept: tokometer report runs/a");
        let target = drive::Error::Target { index: 0, target: 3, targets: 1 };
        assert_eq!(failed(&target, Path::new("runs/a")).kind, ErrorKind::Usage);
    }
}
