//! Writes the record without ever delaying a request.
//!
//! One thread takes what the run reports and keeps it in memory; another one writes it. When the disk
//! fails, or is so slow that [`WAITING_BYTES_MAX`] of rows wait, the run is asked to stop sending. What
//! it still measures is kept in memory for the report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel,
};
use std::thread::JoinHandle;
use std::time::Duration;

use tokometer_base::{Clock, Nanos};
use tokometer_drive::{Interrupt, Notice};
use tokometer_record::server::Scrape;
use tokometer_record::{Error, Health, PendingRows, RunWriter, SentAttempt, timeline_bytes};

use crate::live_notes::LiveNotes;
use crate::secrets::Credentials;
use crate::transcript;
use crate::watch::Tap;

/// Rows are written at least this often; a killed run loses no more than that.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// Wake-ups between flushes. With the pause below a busy run is flushed several times a second and
/// costs one wake-up per [`PAUSE`], not one per request.
const FLUSH_AFTER: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

/// Notices that are taken at one wake-up.
const TAKEN_MAX: usize = 20_000;

/// Rows that may wait for the disk. A run that has more of them stops.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 20;

/// How long the disk may take after the last request, looked at in steps.
const FINISH_STEP: Duration = Duration::from_millis(10);
const FINISH_STEPS: u32 = 3_000;

/// A write that takes longer is reported.
const SLOW: Nanos = Nanos::from_secs(1);

/// What rows are written to.
pub(crate) trait Disk: Send + 'static {
    /// Writes rows; those that cannot be written are kept.
    fn write(&mut self, rows: &PendingRows) -> Result<(), Error>;
    /// For messages.
    fn folder(&self) -> &Path;
}

impl Disk for RunWriter {
    fn write(&mut self, rows: &PendingRows) -> Result<(), Error> {
        self.write_rows(rows)
    }

    fn folder(&self) -> &Path {
        self.folder()
    }
}

pub(crate) struct Recorder<D> {
    thread: JoinHandle<WriteResult<D>>,
    folder: PathBuf,
}

/// Who else looks at what is recorded, and what the recorder needs to end the run.
pub(crate) struct Consumers {
    /// A rule that may end the run.
    pub(crate) tap: Option<Arc<Tap>>,
    pub(crate) notes: Arc<LiveNotes>,
    /// What a server may have sent back, to be removed first.
    pub(crate) secrets: Credentials,
    /// Raised when the record cannot be written any further.
    pub(crate) interrupt: Arc<Interrupt>,
    /// Measures how long the disk takes.
    pub(crate) clock: Arc<dyn Clock>,
    /// Shows a message to the user.
    pub(crate) say: Box<dyn Fn(&str) + Send>,
    /// Bytes of rows that may wait for the disk.
    pub(crate) waiting_bytes_max: usize,
}

/// What became of a record.
pub(crate) struct WriteResult<D> {
    /// The writer, to be finished. Absent while it still waits for the disk.
    pub(crate) disk: Option<D>,
    /// Rows that never reached it.
    pub(crate) unwritten: PendingRows,
    pub(crate) failure: Option<Error>,
    /// Longest wait for the disk, and most rows that waited.
    longest_wait: Nanos,
    rows_waiting_max: u64,
}

impl<D> WriteResult<D> {
    /// Notes in the run's health what the disk did.
    pub(crate) fn describe(&self, health: &mut Health) {
        health.write_failure = self.failure.as_ref().map(Error::reason);
        if self.longest_wait >= SLOW {
            health.disk_wait = Some(self.longest_wait);
            health.rows_waiting_max = self.rows_waiting_max;
        }
    }
}

impl<D: Disk> Recorder<D> {
    /// Starts writing what comes through the two channels until the first is closed.
    pub(crate) fn start(
        disk: D,
        notices: Receiver<Notice>,
        scrapes: Receiver<Scrape>,
        consumers: Consumers,
    ) -> std::io::Result<Self> {
        let (to_disk, from_intake) = sync_channel::<Arc<PendingRows>>(1);
        let (report, reports) = channel();
        let folder = disk.folder().to_owned();
        let clock = Arc::clone(&consumers.clock);
        let write = move || write(disk, &from_intake, &*clock, &report);
        let writing = std::thread::Builder::new().name("disk".to_owned()).spawn(write)?;
        let mut intake = Intake {
            folder: folder.clone(),
            consumers,
            to_disk: Some(to_disk),
            reports,
            writing,
            has_failed: false,
            rows: PendingRows::default(),
            bytes: 0,
            in_hand: None,
            longest_wait: Nanos::ZERO,
            rows_waiting_max: 0,
            failure: None,
        };
        let take = move || {
            intake.take_all(&notices, &scrapes);
            intake.finish()
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(take)?;
        Ok(Self { thread, folder })
    }

    /// Waits until everything is written, or the disk has had time enough.
    pub(crate) fn finish(self) -> WriteResult<D> {
        self.thread.join().unwrap_or_else(|_panic| WriteResult {
            disk: None,
            unwritten: PendingRows::default(),
            failure: Some(internal_error(self.folder)),
            longest_wait: Nanos::ZERO,
            rows_waiting_max: 0,
        })
    }
}

fn internal_error(path: PathBuf) -> Error {
    let reason = "internal error: a thread panicked (please report this bug)".to_owned();
    Error::Unwritten { path, reason }
}

/// What the disk did with the rows that it was given: from then on they are its own.
struct WriteReport {
    took: Nanos,
    has_failed: bool,
}

/// Writes until the channel is closed or a write fails.
fn write<D: Disk>(
    mut disk: D,
    rows: &Receiver<Arc<PendingRows>>,
    clock: &dyn Clock,
    report: &Sender<WriteReport>,
) -> (D, Option<Error>) {
    while let Ok(rows) = rows.recv() {
        let begin = clock.now();
        let failure = disk.write(&rows).err();
        let took = clock.now() - begin;
        // Nobody listens once the disk has had time enough.
        let _ = report.send(WriteReport { took, has_failed: failure.is_some() });
        if failure.is_some() {
            return (disk, failure);
        }
    }
    (disk, None)
}

/// Takes rows from the run and hands them to the thread that writes.
struct Intake<D> {
    folder: PathBuf,
    consumers: Consumers,
    to_disk: Option<SyncSender<Arc<PendingRows>>>,
    reports: Receiver<WriteReport>,
    writing: JoinHandle<(D, Option<Error>)>,
    /// Whether the disk takes no more rows.
    has_failed: bool,
    rows: PendingRows,
    bytes: usize,
    /// Rows that are being written, and since when.
    in_hand: Option<(Arc<PendingRows>, Nanos)>,
    longest_wait: Nanos,
    rows_waiting_max: u64,
    /// Why the run was asked to stop, if not because a write failed.
    failure: Option<Error>,
}

impl<D: Disk> Intake<D> {
    fn take_all(&mut self, notices: &Receiver<Notice>, scrapes: &Receiver<Scrape>) {
        let mut since_flush = 0_u32;
        loop {
            match notices.recv_timeout(FLUSH_EVERY) {
                Ok(notice) => {
                    self.take(notice);
                    // Whatever else waits is taken along: one write for all of it.
                    notices.try_iter().take(TAKEN_MAX).for_each(|notice| self.take(notice));
                    since_flush += 1;
                }
                Err(RecvTimeoutError::Timeout) => since_flush = u32::MAX,
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.take_scrapes(scrapes);
            if since_flush >= FLUSH_AFTER {
                self.hand_over();
                since_flush = 0;
                std::thread::sleep(PAUSE);
            }
        }
        self.take_scrapes(scrapes);
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Started { index, attempt, at } => {
                self.rows.started.push(SentAttempt { index, attempt, sent: at });
            }
            Notice::Exchanged(transcript) => {
                (self.consumers.say)(&transcript::shown(&transcript, &self.consumers.secrets));
            }
            Notice::Ended(mut timeline) => {
                self.consumers.secrets.clean_timeline(&mut timeline);
                self.consumers.notes.ended(&timeline);
                if let Some(tap) = &self.consumers.tap {
                    tap.take(&timeline);
                }
                self.bytes += timeline_bytes(&timeline);
                self.rows.ended.push(*timeline);
            }
        }
    }

    fn take_scrapes(&mut self, scrapes: &Receiver<Scrape>) {
        for mut scrape in scrapes.try_iter() {
            self.consumers.secrets.clean_scrape(&mut scrape);
            self.consumers.notes.scraped(&scrape);
            self.rows.scrapes.push(scrape);
        }
    }

    /// Takes what the disk reports. Rows stay in hand where it panicked: they may not be written.
    fn hear(&mut self) {
        match self.reports.try_recv() {
            Ok(WriteReport { took, has_failed }) => {
                self.longest_wait = self.longest_wait.max(took);
                self.has_failed = has_failed;
                self.in_hand = None;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.has_failed = true,
        }
    }

    /// Gives waiting rows to the disk if it is free, and ends the run if it will not be.
    fn hand_over(&mut self) {
        self.hear();
        if let Some(to_disk) = &self.to_disk
            && self.in_hand.is_none()
            && !self.has_failed
            && !self.rows.is_empty()
        {
            let rows = Arc::new(std::mem::take(&mut self.rows));
            self.bytes = 0;
            // Where the other thread is gone the rows stay in hand, for the report.
            let _ = to_disk.try_send(Arc::clone(&rows));
            self.in_hand = Some((rows, self.consumers.clock.now()));
        }
        self.rows_waiting_max = self.rows_waiting_max.max(self.rows.ended.len() as u64);
        if self.bytes > self.consumers.waiting_bytes_max && self.failure.is_none() {
            let path = self.folder.clone();
            self.failure = Some(Error::Stalled { path, waiting: self.bytes });
        }
        let is_lost = self.has_failed || self.failure.is_some();
        if is_lost && !self.consumers.interrupt.is_raised() {
            self.consumers.interrupt.raise();
        }
    }

    fn finish(mut self) -> WriteResult<D> {
        for _ in 0..FINISH_STEPS {
            self.hand_over();
            if self.rows.is_empty() && self.in_hand.is_none() {
                self.to_disk = None;
            }
            if self.writing.is_finished() {
                break;
            }
            std::thread::sleep(FINISH_STEP);
        }
        // The last report may have come after the last look.
        self.hear();
        let now = self.consumers.clock.now();
        let mut unwritten = PendingRows::default();
        if let Some((rows, since)) = self.in_hand {
            self.longest_wait = self.longest_wait.max(now - since);
            unwritten = Arc::unwrap_or_clone(rows);
        }
        unwritten.started.append(&mut self.rows.started);
        unwritten.ended.append(&mut self.rows.ended);
        unwritten.scrapes.append(&mut self.rows.scrapes);
        let (longest_wait, rows_waiting_max) = (self.longest_wait, self.rows_waiting_max);
        let (disk, failure) = if self.writing.is_finished() {
            match self.writing.join() {
                Ok((disk, failure)) => (Some(disk), failure.or(self.failure)),
                Err(_panic) => (None, Some(internal_error(self.folder))),
            }
        } else {
            let waiting = unwritten.bytes();
            let stalled = Error::Stalled { path: self.folder, waiting };
            (None, Some(self.failure.unwrap_or(stalled)))
        };
        WriteResult { disk, unwritten, failure, longest_wait, rows_waiting_max }
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
