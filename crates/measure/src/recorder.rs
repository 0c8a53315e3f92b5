//! Writes the record on a thread of its own, so that no disk ever delays a request.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokometer_drive::Notice;
use tokometer_record::server::Scrape;
use tokometer_record::{RunWriter, folder};

use crate::live_notes::LiveNotes;
use crate::watch::Tap;

/// Rows reach the kernel at least this often; a killed run loses no more.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// A record that is being written.
pub(crate) struct Recorder {
    thread: JoinHandle<Recorded>,
}

/// Who else looks at what is recorded.
pub(crate) struct Onlookers {
    /// A rule that may end the run.
    pub(crate) tap: Option<Arc<Tap>>,
    /// A display.
    pub(crate) notes: Arc<LiveNotes>,
}

/// What became of a record.
pub(crate) struct Recorded {
    /// The writer, to be finished. Absent after a failure: what was written stays as it is.
    pub(crate) writer: Option<RunWriter>,
    /// Why writing stopped.
    pub(crate) failure: Option<folder::Error>,
}

impl Recorder {
    /// Starts writing what comes through the two channels until the first is closed.
    pub(crate) fn start(
        writer: RunWriter,
        notices: Receiver<Notice>,
        scrapes: Receiver<Scrape>,
        onlookers: Onlookers,
    ) -> std::io::Result<Self> {
        let write = move || {
            let mut writer = writer;
            // Dropping the receiver on failure tells the run that it cannot be recorded any more.
            match record(&mut writer, &notices, &scrapes, &onlookers) {
                Ok(()) => Recorded { writer: Some(writer), failure: None },
                Err(failure) => Recorded { writer: None, failure: Some(failure) },
            }
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(write)?;
        Ok(Self { thread })
    }

    /// Waits until everything is written.
    pub(crate) fn finish(self) -> Recorded {
        self.thread.join().unwrap_or(Recorded { writer: None, failure: None })
    }
}

fn record(
    writer: &mut RunWriter,
    notices: &Receiver<Notice>,
    scrapes: &Receiver<Scrape>,
    onlookers: &Onlookers,
) -> Result<(), folder::Error> {
    let mut since_flush = 0_u32;
    loop {
        match notices.recv_timeout(FLUSH_EVERY) {
            Ok(notice) => {
                take(writer, notice, onlookers)?;
                // Whatever else waits is taken along: one flush for all of it.
                for notice in notices.try_iter().take(1_000) {
                    take(writer, notice, onlookers)?;
                }
                since_flush += 1;
            }
            Err(RecvTimeoutError::Timeout) => since_flush = u32::MAX,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        for scrape in scrapes.try_iter() {
            onlookers.notes.scraped(&scrape);
            writer.scrape(&scrape)?;
        }
        if since_flush >= FLUSH_AFTER {
            writer.flush()?;
            since_flush = 0;
            std::thread::sleep(PAUSE);
        }
    }
    for scrape in scrapes.try_iter() {
        writer.scrape(&scrape)?;
    }
    writer.flush()
}

/// Wake-ups between flushes. With the pause below a busy run is flushed several times a second and
/// costs one wake-up per [`PAUSE`], not one per request.
const FLUSH_AFTER: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

fn take(
    writer: &mut RunWriter,
    notice: Notice,
    onlookers: &Onlookers,
) -> Result<(), folder::Error> {
    match notice {
        Notice::Started { index, attempt, at } => {
            writer.start(index, attempt, at);
            Ok(())
        }
        Notice::Ended(timeline) => {
            onlookers.notes.ended(&timeline);
            if let Some(tap) = &onlookers.tap {
                tap.take(&timeline);
            }
            writer.push(*timeline)
        }
    }
}
