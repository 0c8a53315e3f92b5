//! Writes a run folder.
//!
//! Every batch reaches the kernel in a single write. A write that fails takes nothing away: the file is
//! cut back to its last complete batch, the rows stay in memory, and [`RunWriter::give_up`] makes a
//! reader of both.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokometer_base::Nanos;

use crate::batch_file::BatchFile;
use crate::columns;
use crate::end::RunEnd;
use crate::folder::{
    Error, clear, create_private, file_error, json_bytes, names, replace, write_json,
};
use crate::reader::{Kept, RunReader};
use crate::rows::{PendingRows, SentAttempt, timeline_bytes};
use crate::run::RunInfo;
use crate::server::Scrape;
use crate::timeline::Timeline;
use crate::whole_file::beside;

#[derive(Debug, Clone, Copy, Default)]
struct RowCounts {
    started: usize,
    ended: usize,
    scrapes: usize,
}

/// Events of a batch, about. Writing or reading a batch takes a few times the memory of its rows.
const BATCH_EVENTS: usize = 1 << 16;

/// The first rows, as many as belong in one batch. `None` when there are none left.
fn next_batch(rows: &[Timeline]) -> Option<&[Timeline]> {
    let mut events = 0;
    let mut is_further = |row: &Timeline| {
        events += row.events.len();
        events <= BATCH_EVENTS
    };
    let length = rows.iter().position(|row| !is_further(row)).unwrap_or(rows.len());
    // One answer may have more events than that.
    rows.get(..length.max(1))
}

/// Writes rows in batches: call [`RunWriter::flush`] at least once a second.
pub struct RunWriter {
    folder: PathBuf,
    info: RunInfo,
    requests: BatchFile,
    starts: BatchFile,
    server: Option<BatchFile>,
    waiting: PendingRows,
    waiting_bytes: usize,
    has_text: bool,
    /// Rows of ended attempts in the file.
    rows: u64,
    /// Where the files are as long as the folder holds an earlier run.
    staged: Option<Staged>,
    /// Removes what else the new run replaces.
    remove_earlier: Option<RemoveEarlier>,
}

/// Removes earlier runs that a new one replaces. Called when its first request has left; calls after that find
/// nothing.
pub type RemoveEarlier = Arc<dyn Fn() -> Result<(), Error> + Send + Sync>;

/// A folder below that of an earlier run, with the files of the run that is to replace it. What is still in
/// it is removed with this value: that run has sent nothing.
struct Staged(PathBuf);

impl Staged {
    const NAME: &str = ".next";

    /// `None` where no run is in the way.
    fn below(folder: &Path) -> Result<Option<Self>, Error> {
        if !folder.join(names::PLAN).is_file() {
            return Ok(None);
        }
        let staged = Self(folder.join(Self::NAME));
        create_private(&staged.0).map_err(file_error("create", &staged.0))?;
        // What a killed process left.
        clear(&staged.0)?;
        Ok(Some(staged))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = clear(&self.0);
        let _ = fs::remove_dir(&self.0);
    }
}

/// Rows wait for this much memory at most before they are written.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// Bytes that are reserved for `end.json`, so that a full disk cannot keep out why the run ended.
const END_BYTES: usize = 64 << 10;

impl RunWriter {
    /// Creates the folder with its parents, and writes `plan.json`. Files of an earlier run in it are
    /// replaced when the first request has left, or at the end: its end must not be read with the rows of
    /// this one, and a run that sends nothing must not cost it.
    pub fn create(folder: &Path, info: &RunInfo) -> Result<Self, Error> {
        create_private(folder).map_err(file_error("create", folder))?;
        let staged = Staged::below(folder)?;
        let current = staged.as_ref().map_or(folder, |staged| &staged.0).to_owned();
        let begun = Self::begin(folder, staged, info);
        begun.inspect_err(|_| remove_begun(&current))
    }

    fn begin(folder: &Path, staged: Option<Staged>, info: &RunInfo) -> Result<Self, Error> {
        let current = staged.as_ref().map_or(folder, |staged| &staged.0).to_owned();
        let reserved = beside(&current.join(names::END));
        fs::write(&reserved, vec![b' '; END_BYTES]).map_err(file_error("write", &reserved))?;
        write_json(&current.join(names::PLAN), info)?;
        Ok(Self {
            folder: folder.to_owned(),
            info: info.clone(),
            requests: BatchFile::create(current.join(names::REQUESTS))?,
            starts: BatchFile::create(current.join(names::STARTS))?,
            server: None,
            waiting: PendingRows::default(),
            waiting_bytes: 0,
            has_text: false,
            rows: 0,
            staged,
            remove_earlier: None,
        })
    }

    fn current_folder(&self) -> &Path {
        self.staged.as_ref().map_or(&self.folder, |staged| &staged.0)
    }

    /// Has other runs removed as soon as the first request has left.
    pub fn remove_later(&mut self, remove: RemoveEarlier) {
        self.remove_earlier = Some(remove);
    }

    /// Replaces what was measured before.
    fn replace_earlier(&mut self) -> Result<(), Error> {
        if let Some(remove) = self.remove_earlier.take() {
            remove()?;
        }
        let Some(staged) = self.staged.take() else { return Ok(()) };
        replace(&staged.0, &self.folder)?;
        let end = self.folder.join(names::END);
        let reserved = beside(&staged.0.join(names::END));
        fs::rename(reserved, beside(&end)).map_err(file_error("write", &end))?;
        for file in [Some(&mut self.requests), Some(&mut self.starts), self.server.as_mut()] {
            let Some(file) = file else { continue };
            file.path = self.folder.join(file.path.file_name().unwrap_or_default());
        }
        Ok(())
    }

    /// Replaces what `plan.json` says, except the origin: the rows are relative to it.
    pub fn amend(&mut self, info: RunInfo) -> Result<(), Error> {
        let info = RunInfo { origin: self.info.origin, ..info };
        write_json(&self.current_folder().join(names::PLAN), &info)?;
        self.info = info;
        Ok(())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn has_text(&self) -> bool {
        self.has_text
    }

    /// Adds a sent attempt of the measured phase. It is written with the next flush.
    pub fn start(&mut self, index: u64, attempt: u32, sent: Nanos) {
        self.waiting.started.push(SentAttempt { index, attempt, sent });
    }

    /// Adds an ended attempt. It is written with the next flush, which happens automatically when
    /// enough rows wait.
    pub fn push(&mut self, timeline: Timeline) -> Result<(), Error> {
        self.waiting_bytes += timeline_bytes(&timeline);
        self.hold(timeline);
        if self.waiting_bytes >= WAITING_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    fn hold(&mut self, timeline: Timeline) {
        self.has_text |= timeline.text.is_some();
        self.waiting.ended.push(timeline);
    }

    /// Writes all waiting rows. Call it at least once a second. Rows that cannot be written stay.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut done = RowCounts::default();
        let written = self.write(&waiting, &mut done);
        waiting.started.drain(..done.started);
        waiting.ended.drain(..done.ended);
        waiting.scrapes.drain(..done.scrapes);
        self.waiting = waiting;
        self.waiting_bytes = self.waiting.bytes();
        written
    }

    /// Writes rows that the caller keeps until this returns. Those that cannot be written are kept here.
    pub fn write_rows(&mut self, rows: &PendingRows) -> Result<(), Error> {
        if !self.waiting.is_empty() {
            self.add(rows);
            return self.flush();
        }
        self.has_text |= rows.ended.iter().any(|timeline| timeline.text.is_some());
        let mut done = RowCounts::default();
        let written = self.write(rows, &mut done);
        if written.is_err() {
            self.add_after(rows, done);
            self.waiting_bytes = self.waiting.bytes();
        }
        written
    }

    /// Writes rows in order, and counts those that are in their files.
    fn write(&mut self, rows: &PendingRows, done: &mut RowCounts) -> Result<(), Error> {
        if !rows.started.is_empty() {
            self.replace_earlier()?;
            let batch = columns::encode_starts(&rows.started, self.info.origin)?;
            self.starts.append(&batch)?;
            done.started = rows.started.len();
        }
        while let Some(batch) = next_batch(&rows.ended[done.ended..]) {
            self.requests.append(&columns::encode(batch, self.info.origin)?)?;
            done.ended += batch.len();
            self.rows += batch.len() as u64;
        }
        if !rows.scrapes.is_empty() {
            self.write_scrapes(&rows.scrapes)?;
            done.scrapes = rows.scrapes.len();
        }
        Ok(())
    }

    pub fn scrape(&mut self, scrape: &Scrape) -> Result<(), Error> {
        self.write_scrapes(std::slice::from_ref(scrape))
    }

    fn write_scrapes(&mut self, scrapes: &[Scrape]) -> Result<(), Error> {
        let path = self.current_folder().join(names::SERVER);
        let mut lines = Vec::new();
        for scrape in scrapes {
            serde_json::to_writer(&mut lines, scrape)
                .map_err(|why| Error::Content { path: path.clone(), reason: why.to_string() })?;
            lines.push(b'\n');
        }
        match &mut self.server {
            Some(file) => file.write(&lines),
            None => self.server.insert(BatchFile::create(path)?).write(&lines),
        }
    }

    /// Adds rows, written with the next flush.
    pub fn add(&mut self, rows: &PendingRows) {
        self.add_after(rows, RowCounts::default());
    }

    fn add_after(&mut self, rows: &PendingRows, done: RowCounts) {
        self.waiting.started.extend(&rows.started[done.started..]);
        self.waiting.scrapes.extend(rows.scrapes[done.scrapes..].iter().cloned());
        rows.ended[done.ended..].iter().for_each(|timeline| self.hold(timeline.clone()));
    }

    /// Writes the end marks and `end.json`.
    pub fn finish(mut self, end: &RunEnd) -> Result<PathBuf, Error> {
        self.end(end)?;
        Ok(self.folder)
    }

    /// The same for a writer that is needed afterwards if that fails.
    pub fn end(&mut self, end: &RunEnd) -> Result<(), Error> {
        self.replace_earlier()?;
        self.flush()?;
        self.requests.finish()?;
        self.starts.finish()?;
        self.requests.check_place()?;
        self.write_end(end)
    }

    /// Writes `end.json` into the space that was reserved for it.
    fn write_end(&self, end: &RunEnd) -> Result<(), Error> {
        let path = self.folder.join(names::END);
        let bytes = json_bytes(&path, end)?;
        let reserved = beside(&path);
        let write = || -> io::Result<()> {
            let mut file = File::options().write(true).open(&reserved)?;
            file.write_all(&bytes)?;
            file.set_len(bytes.len() as u64)?;
            fs::rename(&reserved, &path)
        };
        write().map_err(file_error("write", &path))
    }

    /// Rows that were written and are not in the folder's file: it was removed or replaced.
    fn rows_lost(&self) -> u64 {
        if self.requests.check_place().is_ok() {
            return 0;
        }
        let there = RunReader::open(&self.folder).and_then(|reader| reader.timelines());
        self.rows.saturating_sub(there.map_or(0, Iterator::count) as u64)
    }

    /// Ends a run whose record could not be written to its end. What is still possible is written: the
    /// reason at least, since its space was reserved. The reader has every row, also those that are only
    /// in memory or in files that somebody has deleted.
    pub fn give_up(mut self, unwritten: &PendingRows, mut end: RunEnd) -> RunReader {
        self.add(unwritten);
        // Space may have been freed since; if not, the reason is known already.
        let _ = self.replace_earlier().and_then(|()| self.flush());
        let _ = self.requests.finish().and(self.starts.finish());
        end.health.rows_unwritten = self.waiting.ended.len() as u64 + self.rows_lost();
        let _ = self.write_end(&end);
        let kept = Kept {
            requests: Some(self.requests.file),
            server: self.server.map(|server| server.file),
            rows: self.waiting.ended,
            scrapes: self.waiting.scrapes,
            end,
        };
        RunReader::of_kept(self.folder, self.info, kept)
    }
}

/// Removes what a writer that could not begin has made: nothing was measured, and the next run is not to
/// find a folder that looks used.
fn remove_begun(folder: &Path) {
    let reserved = beside(Path::new(names::END));
    for name in [Path::new(names::PLAN), Path::new(names::REQUESTS), Path::new(names::STARTS)] {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_file(folder.join(reserved));
}
