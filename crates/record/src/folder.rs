//! The run folder: `plan.json`, `requests.arrows`, `starts.arrows`, `server.jsonl`, `end.json`.
//!
//! A killed writer loses at most the last second: every batch is one write to the kernel, `plan.json`
//! exists before the first request, and `end.json` only after the last one. A folder without
//! `end.json` belongs to a run that was killed; `starts.arrows` shows which requests were in flight
//! then. An incomplete last batch ends the reading and is not an error.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use tokometer_base::Nanos;

use crate::batches::{Batches, Damages};
use crate::columns;
use crate::run::{RunEnd, RunInfo, RunState, SCHEMA_VERSION};
use crate::server::Scrape;
use crate::timeline::Timeline;

/// File names inside a run folder.
pub mod names {
    /// The plan, and everything known before the first request.
    pub const PLAN: &str = "plan.json";
    /// One row per ended attempt.
    pub const REQUESTS: &str = "requests.arrows";
    /// One row per sent attempt.
    pub const STARTS: &str = "starts.arrows";
    /// Scrapes of the server's metrics.
    pub const SERVER: &str = "server.jsonl";
    /// Everything known after the last request.
    pub const END: &str = "end.json";
    /// The figures, for other programs.
    pub const SUMMARY: &str = "summary.json";
    /// All of them. The plan is last: removing it is what makes the folder no longer a run.
    pub(super) const ALL: [&str; 6] = [END, SUMMARY, SERVER, STARTS, REQUESTS, PLAN];
}

/// Why a run folder could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file system operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// Completes the sentence "cannot …", such as `read`.
        action: &'static str,
        /// The file or folder of the operation.
        path: PathBuf,
        /// From the operating system.
        source: io::Error,
    },
    /// A folder that is not a run.
    #[error(
        "cannot read {} as a run: it has no {}\n  a run folder is what `tokometer bench` writes below `runs/`",
        path.display(),
        names::PLAN
    )]
    NotARun {
        /// The folder without a plan.
        path: PathBuf,
    },
    /// A file with unexpected content.
    #[error("cannot read {}: {reason}", path.display())]
    Content {
        /// The file with that content.
        path: PathBuf,
        /// From its parser.
        reason: String,
    },
    /// A batch of rows that is damaged; the others can be read.
    #[error("cannot read batch {batch} of {}: {reason}", path.display())]
    Damaged {
        /// The file of rows.
        path: PathBuf,
        /// Number of the batch, from zero.
        batch: u64,
        /// From the check or the decoder.
        reason: String,
    },
    /// A run of a later version of the program.
    #[error(
        "cannot read {}: its record has version {found}, this program reads versions up to {SCHEMA_VERSION}",
        path.display()
    )]
    Newer {
        /// The run's folder.
        path: PathBuf,
        /// The version in its plan.
        found: u32,
    },
    /// Arrow failed to encode a batch.
    #[error("cannot encode the record: {0}")]
    Encode(#[from] ArrowError),
}

pub(crate) fn file_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File { action, path: path.to_owned(), source }
}

/// An Arrow stream in which each batch is one write to the kernel.
struct BatchFile {
    path: PathBuf,
    file: File,
    writer: Option<StreamWriter<Vec<u8>>>,
}

impl BatchFile {
    fn create(path: PathBuf) -> Result<Self, Error> {
        let file = File::create(&path).map_err(file_error("create", &path))?;
        Ok(Self { path, file, writer: None })
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(StreamWriter::try_new(Vec::new(), &batch.schema())?),
        };
        writer.write(batch)?;
        let bytes = std::mem::take(writer.get_mut());
        self.file.write_all(&bytes).map_err(file_error("write", &self.path))
    }

    fn finish(&mut self) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.finish()?;
        let bytes = std::mem::take(writer.get_mut());
        self.file.write_all(&bytes).map_err(file_error("write", &self.path))
    }
}

/// Writes rows in batches: call [`RunWriter::flush`] at least once a second.
pub struct RunWriter {
    folder: PathBuf,
    origin: Nanos,
    requests: BatchFile,
    starts: BatchFile,
    server: Option<File>,
    waiting: Vec<Timeline>,
    started: Vec<(u64, u32, Nanos)>,
    waiting_bytes: usize,
    has_text: bool,
}

/// Rows are written when they take this much memory.
const WAITING_BYTES_MAX: usize = 8 << 20;

impl RunWriter {
    /// Creates the folder with its parents, and writes `plan.json`. Files of an earlier run in it are
    /// removed: its end must not be read with the rows of this one.
    pub fn create(folder: &Path, info: &RunInfo) -> Result<Self, Error> {
        create_private(folder).map_err(file_error("create", folder))?;
        if folder.join(names::PLAN).is_file() {
            clear(folder)?;
        }
        write_json(&folder.join(names::PLAN), info)?;
        Ok(Self {
            folder: folder.to_owned(),
            origin: info.origin,
            requests: BatchFile::create(folder.join(names::REQUESTS))?,
            starts: BatchFile::create(folder.join(names::STARTS))?,
            server: None,
            waiting: Vec::new(),
            started: Vec::new(),
            waiting_bytes: 0,
            has_text: false,
        })
    }

    /// As given to [`RunWriter::create`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a row has the text of its response.
    pub fn has_text(&self) -> bool {
        self.has_text
    }

    /// Adds a sent attempt of the measured phase. It is written with the next flush.
    pub fn start(&mut self, index: u64, attempt: u32, at: Nanos) {
        self.started.push((index, attempt, at));
    }

    /// Adds an ended attempt. It is written with the next flush, which happens automatically when
    /// enough rows wait.
    pub fn push(&mut self, timeline: Timeline) -> Result<(), Error> {
        self.waiting_bytes += size_of::<Timeline>()
            + timeline.events.capacity() * size_of::<crate::Event>()
            + timeline.text.as_ref().map_or(0, String::len);
        self.has_text |= timeline.text.is_some();
        self.waiting.push(timeline);
        if self.waiting_bytes >= WAITING_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    /// Writes all waiting rows. Call it at least once a second.
    pub fn flush(&mut self) -> Result<(), Error> {
        if !self.started.is_empty() {
            let batch = starts_batch(&self.started, self.origin)?;
            self.starts.append(&batch)?;
            self.started.clear();
        }
        if !self.waiting.is_empty() {
            self.requests.append(&columns::encode(&self.waiting, self.origin)?)?;
            self.waiting.clear();
            self.waiting_bytes = 0;
        }
        Ok(())
    }

    /// Adds one scrape of the server's metrics.
    pub fn scrape(&mut self, scrape: &Scrape) -> Result<(), Error> {
        let path = self.folder.join(names::SERVER);
        if self.server.is_none() {
            self.server = Some(File::create(&path).map_err(file_error("create", &path))?);
        }
        let mut line = serde_json::to_vec(scrape)
            .map_err(|why| Error::Content { path: path.clone(), reason: why.to_string() })?;
        line.push(b'\n');
        let Some(file) = &mut self.server else { return Ok(()) };
        file.write_all(&line).map_err(file_error("write", &path))
    }

    /// Writes the end marks and `end.json`.
    pub fn finish(mut self, end: &RunEnd) -> Result<PathBuf, Error> {
        self.flush()?;
        self.requests.finish()?;
        self.starts.finish()?;
        write_json(&self.folder.join(names::END), end)?;
        Ok(self.folder)
    }
}

/// Creates a folder that only its owner can read, since a record may contain prompts. An existing one
/// keeps its mode; parents get the default mode.
pub fn create_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match create_private_new(folder) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        other => other,
    }
}

/// The same, but an error when the folder exists.
pub fn create_private_new(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Removes the files of a run from its folder, and nothing else.
pub fn clear(folder: &Path) -> Result<(), Error> {
    for name in names::ALL {
        for path in [folder.join(format!("{name}.part")), folder.join(name)] {
            match fs::remove_file(&path) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    return Err(file_error("remove", &path)(why));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn starts_batch(started: &[(u64, u32, Nanos)], origin: Nanos) -> Result<RecordBatch, Error> {
    let schema = Schema::new(vec![
        Field::new("index", DataType::UInt64, false),
        Field::new("attempt", DataType::UInt32, false),
        Field::new("sent_ns", DataType::UInt64, false),
    ]);
    let indexes: UInt64Array = started.iter().map(|start| Some(start.0)).collect();
    let attempts: UInt32Array = started.iter().map(|start| Some(start.1)).collect();
    let times: UInt64Array = started.iter().map(|start| Some((start.2 - origin).0)).collect();
    let columns = vec![Arc::new(indexes) as _, Arc::new(attempts) as _, Arc::new(times) as _];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// Writes to a temporary file first: a reader never sees half a file.
fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Error> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|why| Error::Content { path: path.to_owned(), reason: why.to_string() })?;
    bytes.push(b'\n');
    let beside = path.with_extension("json.part");
    fs::write(&beside, bytes).map_err(file_error("write", &beside))?;
    fs::rename(&beside, path).map_err(file_error("write", path))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let bytes = fs::read(path).map_err(file_error("read", path))?;
    serde_json::from_slice(&bytes)
        .map_err(|why| Error::Content { path: path.to_owned(), reason: why.to_string() })
}

/// Index and attempt of a measured request.
type Attempt = (u64, u32);

/// Reads a run folder, including one whose writer was killed.
#[derive(Debug)]
pub struct RunReader {
    folder: PathBuf,
    info: RunInfo,
    damages: Damages,
}

impl RunReader {
    /// Opens a folder and reads its plan.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let plan = folder.join(names::PLAN);
        if !plan.is_file() {
            return Err(Error::NotARun { path: folder.to_owned() });
        }
        let info = read_json::<RunInfo>(&plan)?.printable();
        if info.schema > SCHEMA_VERSION {
            return Err(Error::Newer { path: folder.to_owned(), found: info.schema });
        }
        Ok(Self { folder: folder.to_owned(), info, damages: Damages::default() })
    }

    /// Everything known before the first request.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// As given to [`RunReader::open`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How the run ended, or how many requests were in flight when its writer was killed.
    pub fn state(&self) -> Result<RunState, Error> {
        let end = self.folder.join(names::END);
        if end.is_file() {
            let ended: RunEnd = read_json(&end)?;
            if ended.measure_begin.max(ended.measure_end) - self.info.origin > columns::LONGEST {
                let reason = "its times lie outside of the run".to_owned();
                return Err(Error::Content { path: end, reason });
            }
            return Ok(RunState::Ended(Box::new(ended)));
        }
        let mut in_flight = self.attempts(names::STARTS)?;
        let ended = self.attempts(names::REQUESTS)?;
        in_flight.retain(|attempt| !ended.contains(attempt));
        let has_ended_before =
            |(index, attempt): &&Attempt| *attempt > 0 && ended.contains(&(*index, attempt - 1));
        let retrying = in_flight.iter().filter(has_ended_before).count() as u64;
        Ok(RunState::Killed { in_flight: in_flight.len() as u64, retrying })
    }

    /// The measured attempts in a file. Warm-ups and probes also count their indexes from zero; they
    /// have no rows among the starts.
    fn attempts(&self, name: &str) -> Result<BTreeSet<Attempt>, Error> {
        let path = self.folder.join(name);
        if !path.is_file() {
            return Ok(BTreeSet::new());
        }
        let mut attempts = BTreeSet::new();
        for batch in Batches::open(&path, &self.damages)? {
            attempts.extend(columns::measured_attempts(&batch));
        }
        Ok(attempts)
    }

    /// All ended attempts in the order of their ends, read batch by batch.
    pub fn timelines(&self) -> Result<impl Iterator<Item = Timeline> + use<>, Error> {
        let path = self.folder.join(names::REQUESTS);
        let origin = self.info.origin;
        let damages = self.damages.clone();
        let mut batches = Batches::open(&path, &damages)?;
        let rows = move || {
            let batch = batches.next()?;
            let note = |reason: String| damages.note(&path, batches.last_number(), &reason);
            Some(columns::decode(&batch, origin).map_err(note).ok())
        };
        Ok(std::iter::from_fn(rows).flatten().flatten())
    }

    /// Damaged batches found since the last call.
    pub fn take_damages(&self) -> Vec<Error> {
        self.damages.take()
    }

    /// The scrapes of the server's metrics. Broken lines are skipped: the last one may be incomplete.
    pub fn scrapes(&self) -> Result<Vec<Scrape>, Error> {
        let path = self.folder.join(names::SERVER);
        if !path.is_file() {
            return Ok(Vec::new());
        }
        let bytes = fs::read(&path).map_err(file_error("read", &path))?;
        let lines = bytes.split(|byte| *byte == b'\n');
        let scrapes = lines.filter_map(|line| serde_json::from_slice::<Scrape>(line).ok());
        let is_plausible = |at: Nanos| at - self.info.origin <= columns::LONGEST;
        Ok(scrapes.filter(|scrape| is_plausible(scrape.at)).collect())
    }

    /// Replaces the rows by the result of `change`, for counts that are found after the run. Columns
    /// that this version does not know are lost.
    pub fn rewrite(&self, mut change: impl FnMut(&mut Timeline)) -> Result<(), Error> {
        let path = self.folder.join(names::REQUESTS);
        let beside = self.folder.join("requests.arrows.part");
        let mut file = BatchFile::create(beside.clone())?;
        let damages = Damages::default();
        let mut batches = Batches::open(&path, &damages)?;
        while let Some(batch) = batches.next() {
            let note = |reason: String| damages.note(&path, batches.last_number(), &reason);
            let decoded = columns::decode(&batch, self.info.origin).map_err(note).ok();
            let mut timelines: Vec<Timeline> = decoded.into_iter().flatten().collect();
            timelines.iter_mut().for_each(&mut change);
            file.append(&columns::encode(&timelines, self.info.origin)?)?;
        }
        file.finish()?;
        replace(&beside, &path, &damages)
    }

    /// Removes incomplete last batches and adds end marks, for readers that require them. Returns the
    /// names of the repaired files.
    pub fn repair(&self) -> Result<Vec<&'static str>, Error> {
        let mut mended = Vec::new();
        for name in [names::REQUESTS, names::STARTS] {
            let path = self.folder.join(name);
            if !path.is_file() {
                continue;
            }
            let damages = Damages::default();
            let batches = Batches::open(&path, &damages)?;
            if batches.is_whole() {
                continue;
            }
            let beside = path.with_extension("arrows.part");
            let mut file = BatchFile::create(beside.clone())?;
            for batch in batches {
                file.append(&batch)?;
            }
            file.finish()?;
            replace(&beside, &path, &damages)?;
            mended.push(name);
        }
        Ok(mended)
    }
}

/// Replaces a file by the one made from it, unless a batch of it was damaged: that batch would be
/// lost.
fn replace(beside: &Path, path: &Path, damages: &Damages) -> Result<(), Error> {
    match damages.take().into_iter().next() {
        None => fs::rename(beside, path).map_err(file_error("write", path)),
        Some(error) => {
            fs::remove_file(beside).map_err(file_error("remove", beside))?;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
