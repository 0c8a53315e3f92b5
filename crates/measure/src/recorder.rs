//! Writes the record on its own thread, so that the disk never delays a request.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokometer_drive::Notice;
use tokometer_record::server::Scrape;
use tokometer_record::{RunWriter, folder};

use crate::live_notes::LiveNotes;
use crate::secrets::Secrets;
use crate::watch::Tap;

/// Rows are written at least this often; a killed run loses no more than that.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// A record that is being written.
pub(crate) struct Recorder {
    thread: JoinHandle<WriteResult>,
}

/// Other consumers of ended attempts.
pub(crate) struct Consumers {
    /// Collects values for a rule that may end the run.
    pub(crate) tap: Option<Arc<Tap>>,
    /// For a display.
    pub(crate) notes: Arc<LiveNotes>,
    /// What a server may have sent back, to be removed first.
    pub(crate) secrets: Secrets,
}

/// The result of writing a record.
pub(crate) struct WriteResult {
    /// The writer, to be finished. `None` after a failure: what was written stays.
    pub(crate) writer: Option<RunWriter>,
    /// Why writing stopped.
    pub(crate) failure: Option<folder::Error>,
}

impl Recorder {
    /// Starts writing what arrives on both channels until the first is closed.
    pub(crate) fn start(
        writer: RunWriter,
        notices: Receiver<Notice>,
        scrapes: Receiver<Scrape>,
        consumers: Consumers,
    ) -> std::io::Result<Self> {
        let write = move || {
            let mut writer = writer;
            // Dropping the receiver after a failure stops the run, which can no longer be recorded.
            match record(&mut writer, &notices, &scrapes, &consumers) {
                Ok(()) => WriteResult { writer: Some(writer), failure: None },
                Err(failure) => WriteResult { writer: None, failure: Some(failure) },
            }
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(write)?;
        Ok(Self { thread })
    }

    /// Waits until everything is written.
    pub(crate) fn finish(self) -> WriteResult {
        self.thread.join().unwrap_or(WriteResult { writer: None, failure: None })
    }
}

fn record(
    writer: &mut RunWriter,
    notices: &Receiver<Notice>,
    scrapes: &Receiver<Scrape>,
    consumers: &Consumers,
) -> Result<(), folder::Error> {
    let mut since_flush = 0_u32;
    loop {
        match notices.recv_timeout(FLUSH_EVERY) {
            Ok(notice) => {
                take(writer, notice, consumers)?;
                // Takes whatever else is waiting: one flush for all of it.
                for notice in notices.try_iter().take(1_000) {
                    take(writer, notice, consumers)?;
                }
                since_flush += 1;
            }
            Err(RecvTimeoutError::Timeout) => since_flush = u32::MAX,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        for mut scrape in scrapes.try_iter() {
            consumers.secrets.clean_scrape(&mut scrape);
            consumers.notes.scraped(&scrape);
            writer.scrape(&scrape)?;
        }
        if since_flush >= FLUSH_AFTER {
            writer.flush()?;
            since_flush = 0;
            std::thread::sleep(PAUSE);
        }
    }
    for mut scrape in scrapes.try_iter() {
        consumers.secrets.clean_scrape(&mut scrape);
        writer.scrape(&scrape)?;
    }
    writer.flush()
}

/// Wake-ups between flushes. With the pause below, a busy run is flushed several times a second and
/// costs one wake-up per [`PAUSE`], not one per request.
const FLUSH_AFTER: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

fn take(
    writer: &mut RunWriter,
    notice: Notice,
    consumers: &Consumers,
) -> Result<(), folder::Error> {
    match notice {
        Notice::Started { index, attempt, at } => {
            writer.start(index, attempt, at);
            Ok(())
        }
        Notice::Ended(mut timeline) => {
            consumers.secrets.clean_timeline(&mut timeline);
            consumers.notes.ended(&timeline);
            if let Some(tap) = &consumers.tap {
                tap.take(&timeline);
            }
            writer.push(*timeline)
        }
    }
}
