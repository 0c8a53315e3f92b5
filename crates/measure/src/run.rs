//! One run, from its open record to its end: recorder, progress, load, and what follows the last request.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};

use tokometer_base::Clock;
use tokometer_drive::{self as drive, AwaitStart, Interrupt, Live, Outlets};
use tokometer_plan::Profiler;
use tokometer_record::server::{SERVER_INFO_ACCEPT_LENGTH, Scrape};
use tokometer_record::{RunEnd, RunInfo, RunReader, RunWriter, Stop};

use crate::alternating::AwaitBlock;
use crate::between::{Beside, BesideCell, between};
use crate::live_notes::LiveNotes;
use crate::measured_run::MeasuredRun;
use crate::observer::{Goal, Guard, RunInProgress};
use crate::recorder::{Consumers, Recorder, WAITING_BYTES_MAX, WriteResult};
use crate::run_config::{RunSetup, config, source};
use crate::shard::{self, ShardRun};
use crate::target::Reached;
use crate::watch::Watch;
use crate::{Error, ErrorKind};

/// A run whose record has ended.
pub(crate) struct DrivenRun {
    pub(crate) measured: MeasuredRun,
    pub(crate) has_text: bool,
}

impl RunSetup<'_> {
    pub(crate) fn drive(&self, writer: RunWriter, info: &RunInfo) -> Result<DrivenRun, Error> {
        let Self { tools, plan, ready, opened, .. } = *self;
        let folder = writer.folder().to_owned();
        let (live, interrupt) = (Arc::new(Live::default()), Arc::new(Interrupt::default()));
        let watch = Watch::start(&plan.load, &live, &interrupt, &tools.clock);
        let notes = Arc::new(LiveNotes::new(plan.load.max_concurrency));
        let consumers = Consumers {
            tap: watch.tap(),
            notes: Arc::clone(&notes),
            secrets: tools.secrets.clone(),
            interrupt: Arc::clone(&interrupt),
            clock: Arc::clone(&tools.clock),
            say: {
                let observer = Arc::clone(&tools.observer);
                Box::new(move |text| observer.remark(text))
            },
            waiting_bytes_max: WAITING_BYTES_MAX,
        };
        let (notices, from_run) = channel();
        let (scrapes, from_server) = channel();
        let recorder =
            Recorder::start(writer, from_run, from_server, consumers).map_err(|why| {
                Error::new(ErrorKind::Write, format!("cannot start the recorder: {why}"))
            })?;
        // The recorder ends with the last sender of notices: it must still be there for the last scrape.
        let (after_run, until_last_scrape) = (scrapes.clone(), notices.clone());
        let cell = BesideCell::default();
        let beside = Beside {
            scrapes,
            notices: notices.clone(),
            live: Arc::clone(&live),
            cell: Arc::clone(&cell),
        };
        let between = between(plan, &ready.reached, beside, tools)?;
        let shown = self.show(&live, &interrupt, &notes)?;
        let interrupts = tools.observer.route_interrupts(&interrupt);
        let (start, block) = self.waits(&live, &interrupt, &notes, &folder);
        let source = source(self, &interrupt, block)?;
        let outlets = Outlets { notices, live, interrupt, between: Some(between), start };
        let mut config = config(plan, ready, opened);
        config.keeps_transcript = ready.wants_exchange.swap(false, Ordering::Relaxed);
        config.cap_lending = tools.shard.as_ref().and_then(|shard| shard.cap_lending());
        let ended = drive::run(config, source, outlets);
        drop(interrupts);
        drop(shown);
        drop(cell.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.settle_server(&after_run);
        drop((after_run, until_last_scrape));
        let written = recorder.finish();
        let mut end = ended.map_err(|why| failed(&why, &folder))?;
        let given = tools.shard.as_ref().and_then(|shard| shard.stop_reason());
        if let Some(reason) = watch.finish().or(given.filter(|_| end.stop == Stop::Interrupted)) {
            end.stop = reason;
        }
        let has_text = written.disk.as_ref().is_some_and(RunWriter::has_text);
        Ok(DrivenRun { measured: finish(folder, info, written, end), has_text })
    }

    /// Shows the run until the guard is dropped.
    fn show(
        &self,
        live: &Arc<Live>,
        interrupt: &Arc<Interrupt>,
        notes: &Arc<LiveNotes>,
    ) -> Result<Guard, Error> {
        let Self { tools, plan, opened, point, points, .. } = *self;
        let part = tools.shard.as_ref().map(|shard| shard.part(point));
        let counts_all = part.is_some_and(|part| part.counts_all);
        tools.observer.run_begins(&RunInProgress {
            plan,
            point: (points > 1).then_some((point + 1, points)),
            goal: Goal::new(&plan.load, if counts_all { opened.len() } else { opened.own_len() }),
            live,
            interrupt,
            notes,
        })
    }

    /// The waits for the other processes of the run, where there are any: before the run, and before a
    /// block of it.
    fn waits(
        &self,
        live: &Arc<Live>,
        interrupt: &Arc<Interrupt>,
        notes: &Arc<LiveNotes>,
        folder: &Path,
    ) -> (Option<AwaitStart>, Option<AwaitBlock>) {
        let Some(shard) = &self.tools.shard else { return (None, None) };
        let run = Arc::new(ShardRun {
            point: self.point,
            prompts: shard::digest(self.opened),
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

    /// Stops the server's profiler and reads what the server reports only after a run.
    fn settle_server(&self, scrapes: &Sender<Scrape>) {
        let reached = &self.ready.reached;
        if self.plan.phases.profiler == Profiler::On {
            // A profiler that does not stop cannot change what was measured.
            drop(reached.control.stop_profile());
        }
        if self.opened.share.is_first() {
            record_accept_length(reached, scrapes, &*self.tools.clock);
        }
    }
}

/// Records the accept length that an SGLang server reports after a run, as SGLang's benchmark does.
/// Without a response or without speculative decoding nothing is recorded.
fn record_accept_length(reached: &Reached, scrapes: &Sender<Scrape>, clock: &dyn Clock) {
    let has_info = reached.dialect.has_server_info();
    let info = has_info.then(|| reached.control.server_info().ok()).flatten();
    if let Some(length) = info.as_ref().and_then(tokometer_figures::server::reported_accept_length)
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
        drive::Error::Start { .. } => Error::new(ErrorKind::Points, why.to_string()),
        drive::Error::Panicked { .. } => {
            let kept = format!("what was measured is kept: tokometer report {}", folder.display());
            Error::new(ErrorKind::Internal, why.to_string()).hint(kept)
        }
        _ => Error::usage(why.to_string(), ""),
    }
}

/// Ends the record. One that cannot be written to its end is read from memory as well.
fn finish(
    folder: PathBuf,
    info: &RunInfo,
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
