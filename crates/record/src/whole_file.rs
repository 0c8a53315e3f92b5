//! Files that are complete or not there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// The path that stands for standard output.
pub const STDOUT: &str = "-";

/// The name under which a file is written before it takes its place.
pub(crate) fn beside(path: &Path) -> PathBuf {
    path.with_added_extension("part")
}

/// Writes a file beside its place first: a reader never sees half of it, and a full disk leaves what was
/// there before.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    WholeFile::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.keep()
    })
}

/// A file that takes its place only when it is complete.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    place: PathBuf,
    beside: Option<PathBuf>,
}

impl WholeFile {
    /// Creates the file beside its place. What is no regular file, such as a pipe or standard output
    /// (`-`), is written directly.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path == Path::new(STDOUT) {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self { file, place: path.to_owned(), beside: None });
        }
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&place).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(&place)?;
            return Ok(Self { file, place, beside: None });
        }
        let beside = beside(&place);
        Ok(Self { file: File::create(&beside)?, place, beside: Some(beside) })
    }

    /// Puts the file in its place, after its content has reached the disk.
    pub fn keep(mut self) -> io::Result<()> {
        let Some(beside) = self.beside.take() else { return Ok(()) };
        let kept = self.file.sync_all().and_then(|()| replace(&beside, &self.place));
        if kept.is_err() {
            let _ = fs::remove_file(&beside);
        }
        kept
    }
}

/// A file that is mounted by itself, as containers do, cannot be replaced: it is overwritten.
fn replace(beside: &Path, place: &Path) -> io::Result<()> {
    match fs::rename(beside, place) {
        Err(why) if why.kind() == io::ErrorKind::ResourceBusy => {
            fs::copy(beside, place)?;
            fs::remove_file(beside)
        }
        renamed => renamed,
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            // A reader that closed the pipe has read what it wanted.
            Err(why)
                if self.place == Path::new(STDOUT) && why.kind() == io::ErrorKind::BrokenPipe =>
            {
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}
