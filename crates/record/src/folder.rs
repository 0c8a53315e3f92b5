//! The run folder: `plan.json`, `requests.arrows`, `starts.arrows`, `server.jsonl`, `end.json`.
//!
//! A killed writer loses at most the last second: every batch is one write to the kernel, `plan.json`
//! exists before the first request, and `end.json` only after the last one. A folder without
//! `end.json` belongs to a run that was killed. Here are the names of the files, how each is opened and
//! replaced, and what can go wrong.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;

use crate::load::put_stages;
use crate::run::NEWEST_SCHEMA;
use crate::run::RunInfo;
use crate::sharding::ShardClock;
use crate::whole_file::write_whole;

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
    pub const CLOCK: &str = "clock.json";
    /// All of them. The plan is last: removing it is what makes the folder no longer a run.
    pub(super) const ALL: [&str; 7] = [END, SUMMARY, CLOCK, SERVER, STARTS, REQUESTS, PLAN];
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// Completes the sentence "cannot …", such as `read`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "cannot read {} as a run: it has no {}\n  a run folder is what `tokometer bench` writes below `runs/`",
        path.display(),
        names::PLAN
    )]
    NotARun { path: PathBuf },
    #[error("cannot read {}: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    /// A batch of rows that is damaged; the others can be read.
    #[error("cannot read batch {batch} of {}: {reason}", path.display())]
    Damaged { path: PathBuf, batch: u64, reason: String },
    #[error("cannot repair {}: the run is still being written", path.display())]
    InUse { path: PathBuf },
    #[error("cannot write {} fast enough: {waiting} bytes wait in memory", path.display())]
    Stalled { path: PathBuf, waiting: usize },
    #[error("cannot write {}: {reason}", path.display())]
    Unwritten { path: PathBuf, reason: String },
    #[error(
        "cannot read {}: its record has version {found}, this program reads versions up to {NEWEST_SCHEMA}",
        path.display()
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("cannot encode the record: {0}")]
    Encode(#[from] ArrowError),
}

impl Error {
    /// For the record's own end: begins with "disk full" where that is the reason.
    pub fn reason(&self) -> String {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::File { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
                format!("disk full: {self}")
            }
            _ => self.to_string(),
        }
    }
}

pub(crate) fn file_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File { action, path: path.to_owned(), source }
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

/// Writes how a shard's clock relates to the leader's, replacing what was known before.
pub fn write_clock(folder: &Path, clock: &ShardClock) -> Result<(), Error> {
    write_json(&folder.join(names::CLOCK), clock)
}

/// Removes the files of a run from its folder, and nothing else.
pub fn clear(folder: &Path) -> Result<(), Error> {
    for name in names::ALL {
        remove_if_there(&folder.join(format!("{name}.part")))?;
        remove_if_there(&folder.join(name))?;
    }
    Ok(())
}

/// Moves the files of a run to another folder of the same file system, replacing the run there. The
/// end is removed first and moved last: a folder that this did not complete for has no end.
pub fn replace(from: &Path, to: &Path) -> Result<(), Error> {
    for name in [names::END, names::SUMMARY, names::CLOCK] {
        remove_if_there(&to.join(name))?;
    }
    for name in [names::SERVER, names::STARTS, names::REQUESTS, names::PLAN, names::END] {
        let (new, old) = (from.join(name), to.join(name));
        match fs::rename(&new, &old) {
            Err(why) if why.kind() == io::ErrorKind::NotFound && !new.exists() => {
                remove_if_there(&old)?;
            }
            moved => moved.map_err(file_error("write", &old))?,
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(file_error("remove", path)(why)),
        _ => Ok(()),
    }
}

/// Opens a file of a record. Opening a pipe of this name would wait for somebody who writes to it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}

pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let mut bytes = Vec::new();
    let read = open_file(path).and_then(|mut file| file.read_to_end(&mut bytes));
    let _count = read.map_err(file_error("read", path))?;
    serde_json::from_slice(&bytes)
        .map_err(|why| Error::Content { path: path.to_owned(), reason: why.to_string() })
}

/// What is known of a run, also where an older version wrote it.
pub(crate) fn read_info(path: &Path) -> Result<RunInfo, Error> {
    let mut run = read_json::<serde_json::Value>(path)?;
    put_stages(&mut run);
    serde_json::from_value(run)
        .map_err(|why| Error::Content { path: path.to_owned(), reason: why.to_string() })
}

pub(crate) fn json_bytes(path: &Path, value: &impl serde::Serialize) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|why| Error::Content { path: path.to_owned(), reason: why.to_string() })?;
    bytes.push(b'\n');
    Ok(bytes)
}

pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Error> {
    write_whole(path, &json_bytes(path, value)?).map_err(file_error("write", path))
}
