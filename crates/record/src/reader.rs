//! Reads a run folder, also one whose writer was killed: `starts.arrows` shows which requests were in flight
//! then. An incomplete last batch ends the reading and is not an error.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use tokometer_base::Nanos;

use crate::batch_file::BatchFile;
use crate::batches::{Batches, Damages, Positioned};
use crate::columns::{self, EventColumns};
use crate::end::{RunEnd, RunState, Stop};
use crate::folder::{Error, file_error, names, open_file, read_info, read_json, write_json};
use crate::rows::{PendingRows, SentAttempt, timeline_bytes};
use crate::run::{NEWEST_SCHEMA, PACKED_SCHEMA, RunInfo};
use crate::server::Scrape;
use crate::sharding::ShardClock;
use crate::timeline::Timeline;
use crate::whole_file::beside;

/// Memory of the rows of one batch, about: the head of a batch is large, so few batches make a small file.
const BATCH_BYTES: usize = 16 << 20;

/// Index and attempt of a measured request.
type Attempt = (u64, u32);

/// Reads a run folder, including one whose writer was killed.
#[derive(Debug)]
pub struct RunReader {
    folder: PathBuf,
    info: RunInfo,
    damages: Damages,
    /// Set for a run whose record could not be written to its end.
    kept: Option<Kept>,
}

/// What a run measured that is not, or not only, in its folder.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The files that were written, which may have been deleted since.
    pub(crate) requests: Option<File>,
    pub(crate) server: Option<File>,
    pub(crate) rows: Vec<Timeline>,
    pub(crate) scrapes: Vec<Scrape>,
    pub(crate) end: RunEnd,
}

impl RunReader {
    /// Reads a run that is partly in memory.
    pub(crate) fn of_kept(folder: PathBuf, info: RunInfo, kept: Kept) -> Self {
        Self { folder, info, damages: Damages::default(), kept: Some(kept) }
    }

    /// Reads a folder whose writer still waits for the disk, with the rows that it has not reported as
    /// written. Some of them may be in the folder by now: they are taken once, and nothing that is
    /// written later is.
    pub fn with_unwritten(
        folder: &Path,
        info: &RunInfo,
        unwritten: PendingRows,
        end: &RunEnd,
    ) -> Self {
        let requests = open_file(&folder.join(names::REQUESTS)).ok();
        let server = open_file(&folder.join(names::SERVER)).ok();
        let kept =
            Kept { requests, server, rows: Vec::new(), scrapes: Vec::new(), end: end.clone() };
        let written = Self::of_kept(folder.to_owned(), info.clone(), kept);
        let mut rows: Vec<Timeline> = written.timelines().into_iter().flatten().collect();
        let mut scrapes = written.scrapes().unwrap_or_default();
        let key = |row: &Timeline| {
            let identity = &row.identity;
            (identity.index, identity.phase, identity.attempt, row.times.admitted)
        };
        let known: HashSet<_> = rows.iter().map(key).collect();
        rows.extend(unwritten.ended.into_iter().filter(|row| !known.contains(&key(row))));
        let last = scrapes.iter().map(|scrape| scrape.at).max();
        scrapes.extend(unwritten.scrapes.into_iter().filter(|scrape| Some(scrape.at) > last));
        let kept = Kept { requests: None, server: None, rows, scrapes, end: end.clone() };
        Self::of_kept(folder.to_owned(), info.clone(), kept)
    }

    /// Reads a run that is in memory alone, as one in virtual time is.
    pub fn in_memory(info: RunInfo, rows: Vec<Timeline>, end: RunEnd) -> Self {
        let kept = Kept { requests: None, server: None, rows, scrapes: Vec::new(), end };
        Self::of_kept(PathBuf::new(), info, kept)
    }

    pub fn open(folder: &Path) -> Result<Self, Error> {
        let plan = folder.join(names::PLAN);
        if !plan.is_file() {
            return Err(Error::NotARun { path: folder.to_owned() });
        }
        let info = read_info(&plan)?.printable();
        if info.schema > NEWEST_SCHEMA {
            return Err(Error::Newer { path: folder.to_owned(), found: info.schema });
        }
        Ok(Self { folder: folder.to_owned(), info, damages: Damages::default(), kept: None })
    }

    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How this shard's clock relates to the leader's. `None` where it was not measured.
    pub fn clock(&self) -> Option<ShardClock> {
        read_json(&self.folder.join(names::CLOCK)).ok()
    }

    /// How the run ended, or how many requests were in flight when its writer was killed.
    pub fn state(&self) -> Result<RunState, Error> {
        if let Some(kept) = &self.kept {
            return Ok(RunState::Ended(Box::new(kept.end.clone())));
        }
        let end = self.folder.join(names::END);
        if end.is_file() {
            let ended: RunEnd = read_json(&end)?;
            if ended.measure_begin.max(ended.measure_end) - self.info.origin > columns::LONGEST {
                let reason = "its times lie outside of the run".to_owned();
                return Err(Error::Content { path: end, reason });
            }
            return Ok(RunState::Ended(Box::new(ended)));
        }
        let ended = self.ended()?;
        let has_ended = |attempt: &Attempt| ended.binary_search(attempt).is_ok();
        let started = self.starts()?.map(|sent| (sent.index, sent.attempt));
        let in_flight: BTreeSet<Attempt> = started.filter(|start| !has_ended(start)).collect();
        let has_ended_before =
            |(index, attempt): &&Attempt| *attempt > 0 && has_ended(&(*index, attempt - 1));
        let retrying = in_flight.iter().filter(has_ended_before).count() as u64;
        Ok(RunState::Killed { in_flight: in_flight.len() as u64, retrying })
    }

    /// The measured attempts that ended, sorted. Warm-ups and probes also count their indexes from zero.
    fn ended(&self) -> Result<Vec<Attempt>, Error> {
        let batches = self.batches(names::REQUESTS)?;
        let mut ended: Vec<_> =
            batches.flat_map(|batch| columns::measured_attempts(&batch)).collect();
        ended.sort_unstable();
        Ok(ended)
    }

    /// None where there is no such file.
    fn batches(&self, name: &str) -> Result<impl Iterator<Item = RecordBatch> + use<>, Error> {
        let path = self.folder.join(name);
        let batches = path.is_file().then(|| Batches::open(&path, &self.damages)).transpose()?;
        Ok(batches.into_iter().flatten())
    }

    /// All ended attempts, read batch by batch: in the order of their ends, of a merged run shard by
    /// shard.
    pub fn timelines(&self) -> Result<impl Iterator<Item = Timeline> + use<>, Error> {
        let path = self.folder.join(names::REQUESTS);
        let origin = self.info.origin;
        let damages = self.damages.clone();
        let mut batches = match &self.kept {
            Some(Kept { requests: Some(file), .. }) => {
                Some(Batches::of_file(file, &path, &damages)?)
            }
            Some(_) => None,
            None => Some(self.stored(&path)?),
        };
        let unwritten = self.kept.as_ref().map(|kept| kept.rows.clone()).unwrap_or_default();
        let rows = move || {
            let batches = batches.as_mut()?;
            let batch = batches.next()?;
            let note = |reason: String| damages.note(&path, batches.last_number(), &reason);
            Some(columns::decode(&batch, origin).map_err(note).ok())
        };
        Ok(std::iter::from_fn(rows).flatten().flatten().chain(unwritten))
    }

    fn stored(&self, path: &Path) -> Result<Batches, Error> {
        let batches = Batches::open(path, &self.damages)?;
        let end: Option<RunEnd> = read_json(&self.folder.join(names::END)).ok();
        // On a full disk the end mark may be missing though the run could say why it stopped.
        let Some(end) = end.filter(|end| end.stop != Stop::DiskFull) else { return Ok(batches) };
        let batches = batches.of_finished_run();
        // Where no request ended, nothing was written.
        let has_lost_all = batches.is_empty() && self.starts()?.count() as u64 > end.abandoned;
        Ok(if has_lost_all { batches.without_end() } else { batches })
    }

    /// Measured attempts that were sent and have no end: what was in flight when the writer was killed.
    pub fn unended(&self) -> Result<Vec<SentAttempt>, Error> {
        let ended = self.ended()?;
        let has_no_end =
            |sent: &SentAttempt| ended.binary_search(&(sent.index, sent.attempt)).is_err();
        Ok(self.starts()?.filter(has_no_end).collect())
    }

    /// Every sent attempt of the measured phase.
    pub fn starts(&self) -> Result<impl Iterator<Item = SentAttempt> + use<>, Error> {
        let origin = self.info.origin;
        Ok(self.batches(names::STARTS)?.flat_map(move |batch| columns::starts(&batch, origin)))
    }

    /// The scrapes of the server's metrics. A last line without its end is skipped: the writer was killed.
    /// Other lines that are no scrapes are a damage.
    pub fn scrapes(&self) -> Result<Vec<Scrape>, Error> {
        let path = self.folder.join(names::SERVER);
        let mut bytes = Vec::new();
        match &self.kept {
            Some(Kept { server: Some(file), .. }) => {
                let mut file = Positioned::of(file).map_err(file_error("read", &path))?;
                file.read_to_end(&mut bytes).map_err(file_error("read", &path))?;
            }
            None if path.is_file() => {
                bytes = fs::read(&path).map_err(file_error("read", &path))?;
            }
            Some(_) | None => {}
        }
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let mut broken = 0_u64;
        let mut written = Vec::new();
        for line in lines {
            match serde_json::from_slice::<Scrape>(line) {
                Ok(scrape) => written.push(scrape),
                Err(_) => broken += u64::from(line.ends_with(b"\n")),
            }
        }
        if broken > 0 {
            let all = broken + written.len() as u64;
            self.damages.note(&path, 0, &format!("{broken} of its {all} lines are not scrapes"));
        }
        let unwritten = self.kept.iter().flat_map(|kept| kept.scrapes.iter().cloned());
        let is_plausible = |at: Nanos| at - self.info.origin <= columns::LONGEST;
        Ok(written.into_iter().chain(unwritten).filter(|scrape| is_plausible(scrape.at)).collect())
    }

    /// Damaged batches found since the last call.
    pub fn take_damages(&self) -> Vec<Error> {
        self.damages.take()
    }

    /// Replaces the rows by the result of `change`, for counts that are found after the run. Columns
    /// that this version does not know are lost.
    pub fn rewrite(&mut self, mut change: impl FnMut(&mut Timeline)) -> Result<(), Error> {
        let written = match &self.kept {
            Some(_) => Ok(()),
            None => self.rewrite_file(&mut change),
        };
        if self.kept.is_none() && written.is_ok() {
            return Ok(());
        }
        let mut rows: Vec<Timeline> = self.timelines()?.collect();
        rows.iter_mut().for_each(change);
        let (scrapes, state) = (self.scrapes()?, self.state()?);
        if let RunState::Ended(end) = state {
            self.kept = Some(Kept { requests: None, server: None, rows, scrapes, end: *end });
        }
        written
    }

    fn rewrite_file(&self, change: impl FnMut(&mut Timeline)) -> Result<(), Error> {
        self.rewritten(EventColumns::Plain, change)?.replace_original()
    }

    /// Packs the events of a run that has ended: every timeline reads as before, from a file of about a
    /// fifth of the size. A record that is damaged stays as it is, and the first damage is returned; one
    /// that is not complete stays as well.
    pub fn pack_events(&self) -> Result<(), Error> {
        if self.kept.is_some() || !self.folder.join(names::END).is_file() {
            return Ok(());
        }
        let file = self.rewritten(EventColumns::Packed, |_| ())?;
        // Before the rows: an older program must refuse the folder instead of showing requests without
        // events.
        let plan = self.folder.join(names::PLAN);
        write_json(&plan, &RunInfo { schema: PACKED_SCHEMA, ..read_info(&plan)? })?;
        file.replace_original()
    }

    /// A file with all rows after a change, beside the original. An error if a batch of it is damaged: that
    /// batch would be lost.
    fn rewritten(
        &self,
        events: EventColumns,
        mut change: impl FnMut(&mut Timeline),
    ) -> Result<Replacement, Error> {
        let mut file = Replacement::create(&self.folder.join(names::REQUESTS))?;
        let reader = Self::open(&self.folder)?;
        let mut append = |rows: &mut Vec<Timeline>| -> Result<(), Error> {
            let batch = columns::encode_as(events, rows, self.info.origin)?;
            rows.clear();
            file.append(&batch)
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for mut timeline in reader.timelines()? {
            change(&mut timeline);
            bytes += timeline_bytes(&timeline);
            rows.push(timeline);
            if bytes >= BATCH_BYTES {
                append(&mut rows)?;
                bytes = 0;
            }
        }
        if !rows.is_empty() {
            append(&mut rows)?;
        }
        file.finish(&reader.damages)?;
        Ok(file)
    }

    /// Removes incomplete last batches and adds end marks, for readers that require them. Returns the
    /// names of the repaired files. A run that is still being written is refused: it would go on in the file
    /// that was replaced.
    pub fn repair(&self) -> Result<Vec<&'static str>, Error> {
        let _lock = self.lock()?;
        let has_ended = self.folder.join(names::END).is_file();
        let mut repaired = Vec::new();
        for name in [names::REQUESTS, names::STARTS] {
            let path = self.folder.join(name);
            if !path.is_file() {
                continue;
            }
            let damages = Damages::default();
            let batches = Batches::open(&path, &damages)?;
            // A run that ended may have had nothing to write there.
            let is_empty = path.metadata().is_ok_and(|found| found.len() == 0) && !has_ended;
            if batches.is_whole() && !is_empty {
                continue;
            }
            let mut file = Replacement::create(&path)?;
            let mut batches = batches.peekable();
            if batches.peek().is_none() {
                // Without a batch there would be no schema either, and other readers refuse such a file.
                file.append(&self.empty_batch(name)?)?;
            }
            for batch in batches {
                file.append(&batch)?;
            }
            file.finish(&damages)?;
            file.replace_original()?;
            repaired.push(name);
        }
        Ok(repaired)
    }

    /// No rows, in the columns of this version.
    fn empty_batch(&self, name: &str) -> Result<RecordBatch, Error> {
        match name {
            names::STARTS => Ok(columns::encode_starts(&[], self.info.origin)?),
            _ => Ok(columns::encode(&[], self.info.origin)?),
        }
    }

    /// Locks the rows, which their writer has locked as long as it runs.
    fn lock(&self) -> Result<Option<File>, Error> {
        let path = self.folder.join(names::REQUESTS);
        let Ok(file) = open_file(&path) else { return Ok(None) };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: self.folder.clone() }),
            // A file system without locks cannot show a conflict.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
        }
    }
}

/// A file of rows that is made from another one, beside it. It is removed unless it replaces it.
struct Replacement {
    file: BatchFile,
    replaced: PathBuf,
}

impl Replacement {
    fn create(replaced: &Path) -> Result<Self, Error> {
        Ok(Self { file: BatchFile::create(beside(replaced))?, replaced: replaced.to_owned() })
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.file.append(batch)
    }

    /// Writes the end mark, and waits until the disk has everything: the original is gone afterwards. An error
    /// if the original was damaged.
    fn finish(&mut self, damages: &Damages) -> Result<(), Error> {
        self.file.finish()?;
        self.file.sync()?;
        damages.take().into_iter().next().map_or(Ok(()), Err)
    }

    fn replace_original(self) -> Result<(), Error> {
        fs::rename(self.file.path(), &self.replaced).map_err(file_error("write", &self.replaced))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // Nothing is left to remove once it has replaced the other.
        let _ = fs::remove_file(self.file.path());
    }
}

#[cfg(test)]
mod tests;
