//! A file of rows that never holds a part of a batch.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;

use crate::folder::{Error, file_error};

/// A file, mostly an Arrow stream, of which each batch is handed to the kernel in one write.
pub(crate) struct BatchFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// Bytes of whole batches.
    length: u64,
    writer: Option<StreamWriter<Vec<u8>>>,
}

impl BatchFile {
    /// The file can also be read through its handle: what was written is still there when the folder has
    /// been deleted. It is locked as long as it is written: who replaces it meanwhile would lose rows.
    pub(crate) fn create(path: PathBuf) -> Result<Self, Error> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).map_err(file_error("create", &path))?;
        // A file system without locks is no reason to refuse a run.
        let _ = file.try_lock();
        Ok(Self { path, file, length: 0, writer: None })
    }

    /// An error where the file of this name is not, or no longer, the one that was written.
    pub(crate) fn check_place(&self) -> Result<(), Error> {
        let identity = |found: fs::Metadata| (found.dev(), found.ino(), found.len());
        let written = self.file.metadata().map_err(file_error("write", &self.path))?;
        if fs::metadata(&self.path).is_ok_and(|there| identity(there) == identity(written)) {
            return Ok(());
        }
        let reason = "it was moved, removed or replaced while the run wrote it".to_owned();
        Err(Error::Unwritten { path: self.path.clone(), reason })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(StreamWriter::try_new(Vec::new(), &batch.schema())?),
        };
        writer.write(batch)?;
        let bytes = std::mem::take(writer.get_mut());
        self.write(&bytes)
    }

    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.finish()?;
        let bytes = std::mem::take(writer.get_mut());
        self.write(&bytes)
    }

    /// Waits until the disk has everything that was written.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(file_error("write", &self.path))
    }

    /// Writes all of `bytes` or none of them: half a batch would hide the batches after it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.file.write_all(bytes);
        if written.is_err() {
            // Where that fails too, the reader skips the truncated part.
            let end = SeekFrom::Start(self.length);
            let _ = self.file.set_len(self.length).and_then(|()| self.file.seek(end));
            if self.length == 0 {
                // The schema is among the bytes that were not written.
                self.writer = None;
            }
        } else {
            self.length += bytes.len() as u64;
        }
        written.map_err(file_error("write", &self.path))
    }
}
