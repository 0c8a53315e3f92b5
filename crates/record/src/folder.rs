//! The run folder: `plan.json`, `requests.arrows`, `starts.arrows`, `server.jsonl`, `end.json`.
//!
//! Written so that a killed writer loses at most its last second: every batch reaches the kernel in a
//! single write, `plan.json` is there before the first request and `end.json` only after the last
//! one. A folder without `end.json` belongs to a run that was killed; which requests were in flight
//! then is known from `starts.arrows`. A torn last batch ends the reading, it is not an error.

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
    /// What was planned, and everything known before the first request.
    pub const PLAN: &str = "plan.json";
    /// One row per ended request.
    pub const REQUESTS: &str = "requests.arrows";
    /// One row per sent request.
    pub const STARTS: &str = "starts.arrows";
    /// What the server said about itself.
    pub const SERVER: &str = "server.jsonl";
    /// What is known after the last request.
    pub const END: &str = "end.json";
    /// The metrics, for other programs.
    pub const SUMMARY: &str = "summary.json";
    /// All of them. The plan is last: it is what makes a folder a run.
    pub(super) const ALL: [&str; 6] = [END, SUMMARY, SERVER, STARTS, REQUESTS, PLAN];
}

/// What can go wrong with a run folder.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A folder that holds no run.
    #[error(
        "cannot read {} as a run: it has no {}\n  a run folder is what `tokometer bench` writes below `runs/`",
        path.display(),
        names::PLAN
    )]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// A file whose content is not what this program writes.
    #[error("cannot read {}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A batch of rows that cannot be read; the others can.
    #[error("cannot read batch {batch} of {}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Number of the batch, from zero.
        batch: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A run of a later version of the program.
    #[error(
        "cannot read {}: its record has version {found}, this program reads versions up to {SCHEMA_VERSION}",
        path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Arrow refused to encode a batch.
    #[error("cannot encode the record: {0}")]
    Encode(#[from] ArrowError),
}

pub(crate) fn file_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File { action, path: path.to_owned(), source }
}

/// An Arrow stream of which each batch is handed to the kernel in one write.
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

/// Writes a run folder.
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

/// Rows wait for this much memory at most before they are written.
const WAITING_BYTES_MAX: usize = 8 << 20;

impl RunWriter {
    /// Makes the folder and writes `plan.json`. The folder's parents are created. What an earlier run
    /// left in it is removed: its end must not stand beside the rows of this one.
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

    /// The folder that is written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether some row has the text of its answer.
    pub fn has_text(&self) -> bool {
        self.has_text
    }

    /// Notes that a measured request was sent. It reaches the disk with the next flush.
    pub fn start(&mut self, index: u64, attempt: u32, at: Nanos) {
        self.started.push((index, attempt, at));
    }

    /// Adds an ended request. It reaches the disk with the next flush, which happens by itself when
    /// enough rows wait.
    pub fn push(&mut self, timeline: Timeline) -> Result<(), Error> {
        self.waiting_bytes += size_of::<Timeline>()
            + timeline.events.capacity() * size_of::<crate::Event>()
            + timeline.text.as_ref().map_or(0, String::len);
        self.has_text |= timeline.text.is_some();
        self.waiting.push(timeline);
        if self.waiting_bytes >= WAITING_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    /// Hands all waiting rows to the kernel. To be called at least once a second.
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

/// Makes a folder that only its owner can read, since a record may hold prompts. One that is already
/// there keeps its mode; parents are made as usual.
pub fn create_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match create_private_new(folder) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        other => other,
    }
}

/// The same for a folder that must not be there yet.
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

/// Writes `value` beside its place first: a reader never sees half a file.
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

/// Reads a run folder, also one whose writer was killed.
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
        let info: RunInfo = read_json(&plan)?;
        if info.schema > SCHEMA_VERSION {
            return Err(Error::Newer { path: folder.to_owned(), found: info.schema });
        }
        Ok(Self { folder: folder.to_owned(), info, damages: Damages::default() })
    }

    /// What was known before the first request.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How the run ended, or how many requests were in flight when its writer died.
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

    /// The measured attempts in a file. Warm-ups and probes count their indexes from zero as well;
    /// they have no rows among the starts.
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

    /// All ended requests, in the order in which they ended, batch by batch from disk.
    pub fn timelines(&self) -> Result<impl Iterator<Item = Timeline> + use<>, Error> {
        let path = self.folder.join(names::REQUESTS);
        let origin = self.info.origin;
        let damages = self.damages.clone();
        let mut batches = Batches::open(&path, &damages)?;
        let rows = move || {
            let batch = batches.next()?;
            let note = |reason| damages.note(&path, batches.last_number(), reason);
            Some(columns::decode(&batch, origin).map_err(note).unwrap_or_default())
        };
        Ok(std::iter::from_fn(rows).flatten())
    }

    /// The batches that could not be read since this was last asked.
    pub fn take_damages(&self) -> Vec<Error> {
        self.damages.take()
    }

    /// The scrapes of the server's metrics. Broken lines are skipped: the last one may be torn.
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

    /// Replaces the rows by what `change` makes of them, keeping the schema's unknown columns out of
    /// reach: used to add counts found after the run.
    pub fn rewrite(&self, mut change: impl FnMut(&mut Timeline)) -> Result<(), Error> {
        let path = self.folder.join(names::REQUESTS);
        let beside = self.folder.join("requests.arrows.part");
        let mut file = BatchFile::create(beside.clone())?;
        let damages = Damages::default();
        let mut batches = Batches::open(&path, &damages)?;
        while let Some(batch) = batches.next() {
            let note = |reason| damages.note(&path, batches.last_number(), reason);
            let decoded = columns::decode(&batch, self.info.origin).map_err(note);
            let mut timelines = decoded.unwrap_or_default();
            timelines.iter_mut().for_each(&mut change);
            file.append(&columns::encode(&timelines, self.info.origin)?)?;
        }
        file.finish()?;
        replace(&beside, &path, &damages)
    }

    /// Drops torn last batches and adds end marks, so that readers that insist on them are content.
    /// Returns the names of the files that were mended.
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

/// Puts a file in the place of the one that it was made of. Not where a batch of that was damaged: it
/// would be lost.
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
