//! Files that are complete or not there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// The path that stands for standard output.
pub const STDOUT: &str = "-";

/// The name under which a file is written before it is renamed.
pub(crate) fn beside(path: &Path) -> PathBuf {
    path.with_added_extension("part")
}

/// Writes a file beside its final path first: a reader never sees half of it, and a full disk leaves what was
/// there before.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    WholeFile::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.keep()
    })
}

/// A file that gets its name only when it is complete.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    path: PathBuf,
    beside: Option<PathBuf>,
}

impl WholeFile {
    /// Creates the file beside its final path. What is no regular file, such as a pipe or standard output
    /// (`-`), is written directly.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path == Path::new(STDOUT) {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self { file, path: path.to_owned(), beside: None });
        }
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(&path)?;
            return Ok(Self { file, path, beside: None });
        }
        let beside = beside(&path);
        Ok(Self { file: File::create(&beside)?, path, beside: Some(beside) })
    }

    /// Gives the file its name, after its content has reached the disk.
    pub fn keep(mut self) -> io::Result<()> {
        let Some(beside) = self.beside.take() else { return Ok(()) };
        let kept = self.file.sync_all().and_then(|()| replace(&beside, &self.path));
        if kept.is_err() {
            let _ = fs::remove_file(&beside);
        }
        kept
    }
}

/// A file that is mounted by itself, as containers do, cannot be replaced: it is overwritten.
fn replace(beside: &Path, path: &Path) -> io::Result<()> {
    match fs::rename(beside, path) {
        Err(why) if why.kind() == io::ErrorKind::ResourceBusy => {
            fs::copy(beside, path)?;
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
                if self.path == Path::new(STDOUT) && why.kind() == io::ErrorKind::BrokenPipe =>
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
