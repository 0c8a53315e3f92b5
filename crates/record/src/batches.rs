//! Reads the batches of an Arrow stream from disk, each checked before it is decoded.
//!
//! A damaged file may declare any length. Every length that the decoder relies on is first compared
//! with the bytes that exist: no file makes the program panic or use more memory than a small
//! multiple of its size. A damaged batch is reported and skipped. A truncated file, as a killed
//! writer leaves it, ends at its last complete batch; that is damage only if the run came to its end.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::{self as ipc, MessageHeader};
use arrow_schema::{DataType, SchemaRef};

use crate::folder::{Error, file_error, names, open_file};

/// Every message begins with four bytes `0xff` and its length; the end mark has length zero.
const MARK: [u8; 4] = [0xff; 4];
const END_MARK: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Damage found while a folder was read: the reason by file and batch. A file is read more
/// than once for one report.
#[derive(Debug, Clone, Default)]
pub(crate) struct Damages(Arc<Mutex<BTreeMap<(PathBuf, u64), String>>>);

impl Damages {
    pub(crate) fn note(&self, path: &Path, batch: u64, reason: &str) {
        // Decoders add several lines about their own layers.
        let reason = reason.lines().next().unwrap_or_default().trim().to_owned();
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.entry((path.to_owned(), batch)).or_insert(reason);
    }

    pub(crate) fn take(&self) -> Vec<Error> {
        let noted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let damaged = |((path, batch), reason): ((PathBuf, u64), String)| {
            // It has lines, not batches.
            if path.ends_with(names::SERVER) {
                return Error::Content { path, reason };
            }
            Error::Damaged { path, batch, reason }
        };
        noted.into_iter().map(damaged).collect()
    }
}

enum Stopped {
    Over,
    /// The message needs more bytes than the file has: it was truncated, or its length is damaged.
    Cut(u64),
    Damaged(String),
}

/// A head describes some sixty columns in a few kilobytes.
const HEAD_BYTES_MAX: u64 = 1 << 20;

/// Offsets that are tried as the beginning of a message after damage.
const TRIES_MAX: u32 = 1_000;

struct StreamMessage {
    head: Vec<u8>,
    body: Buffer,
}

impl StreamMessage {
    fn is_batch(&self) -> bool {
        let head = ipc::root_as_message(&self.head);
        head.is_ok_and(|head| head.header_type() == MessageHeader::RecordBatch)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// It may have been killed: a missing end mark is no damage.
    Unknown,
    Finished,
}

pub(crate) struct Batches {
    path: PathBuf,
    file: BufReader<Positioned>,
    /// Bytes of the file, and how many of them have been read.
    size: u64,
    at: u64,
    /// Whether the file has its end mark, so that a length beyond its end is damage.
    is_whole: bool,
    writer: Writer,
    is_over: bool,
    schema: Option<SchemaRef>,
    /// Number of the next batch, from zero.
    number: u64,
    damages: Damages,
}

impl Batches {
    pub(crate) fn open(path: &Path, damages: &Damages) -> Result<Self, Error> {
        let file = open_file(path).map_err(file_error("read", path))?;
        Self::read(Positioned { file, at: 0 }, path, damages)
    }

    /// Reads through a handle, also a file that has been deleted.
    pub(crate) fn of_file(file: &File, path: &Path, damages: &Damages) -> Result<Self, Error> {
        let file = Positioned::of(file).map_err(file_error("read", path))?;
        Self::read(file, path, damages)
    }

    fn read(file: Positioned, path: &Path, damages: &Damages) -> Result<Self, Error> {
        let size = file.file.metadata().map_err(file_error("read", path))?.len();
        let is_whole =
            size == 0 || has_end_mark(&file.file, size).map_err(file_error("read", path))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            size,
            at: 0,
            is_whole,
            writer: Writer::Unknown,
            is_over: false,
            schema: None,
            number: 0,
            damages: damages.clone(),
        })
    }

    /// Takes a missing end mark for damage.
    #[must_use]
    pub(crate) fn of_finished_run(self) -> Self {
        Self { writer: Writer::Finished, ..self }
    }

    /// Whether nothing was written, or nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Takes an empty file for one that was cut.
    #[must_use]
    pub(crate) fn without_end(self) -> Self {
        Self { is_whole: false, ..self }
    }

    /// Whether the stream has its end mark, or is empty.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(crate) fn last_number(&self) -> u64 {
        self.number.saturating_sub(1)
    }

    /// The next `count` bytes of the file, if it has them.
    fn take(&mut self, count: u64) -> Result<MutableBuffer, Stopped> {
        let length = usize::try_from(count).unwrap_or(usize::MAX);
        if count > self.size - self.at {
            return Err(Stopped::Cut(count));
        }
        // Aligned for numbers of any width, as a vector of bytes would not be.
        let mut bytes = MutableBuffer::from_len_zeroed(length);
        self.file.read_exact(&mut bytes).map_err(|why| Stopped::Damaged(why.to_string()))?;
        self.at += count;
        Ok(bytes)
    }

    fn message(&mut self) -> Result<StreamMessage, Stopped> {
        if self.at == self.size {
            return Err(Stopped::Over);
        }
        let begin = self.take(8)?;
        let (mark, length) = begin.split_at(4);
        if mark != MARK {
            return Err(Stopped::Damaged("no message begins where one should".to_owned()));
        }
        let length = u64::from(length.try_into().map_or(0, u32::from_le_bytes));
        match length {
            0 if self.at == self.size => return Err(Stopped::Over),
            0 => return Err(Stopped::Damaged("data follow the end mark".to_owned())),
            1..=HEAD_BYTES_MAX => {}
            _ => return Err(Stopped::Cut(length)),
        }
        let head = self.take(length)?;
        let message = ipc::root_as_message(&head)
            .map_err(|why| Stopped::Damaged(format!("its head cannot be read: {why}")))?;
        let length = u64::try_from(message.bodyLength())
            .map_err(|_| Stopped::Damaged("its length is negative".to_owned()))?;
        let body = self.take(length)?.into();
        Ok(StreamMessage { head: head.to_vec(), body })
    }

    /// Goes on behind what could not be read, and notes it. A message that is cut at the end of the
    /// file is how a killed writer leaves it, and no damage, unless the run came to its end.
    fn pass_over(&mut self, begin: u64, stopped: Stopped) {
        let is_over = matches!(stopped, Stopped::Over);
        let is_found = !is_over && self.schema.is_some() && self.find_batch(begin).unwrap_or(false);
        self.is_over = !is_found;
        let reason = match stopped {
            Stopped::Over | Stopped::Cut(_)
                if !is_found && !self.is_whole && self.writer == Writer::Finished =>
            {
                "the file was cut: its end and the rows there are missing".to_owned()
            }
            Stopped::Over => return,
            Stopped::Cut(_) if !is_found && !self.is_whole => return,
            Stopped::Cut(count) => format!("it needs {count} bytes, the file ends before"),
            Stopped::Damaged(reason) => reason,
        };
        self.damages.note(&self.path, self.number, &reason);
        self.number += 1;
    }

    /// Moves to the next offset after `from` where a whole batch begins. False if there is none.
    fn find_batch(&mut self, from: u64) -> std::io::Result<bool> {
        let mut from = from + 1;
        for _ in 0..TRIES_MAX {
            let Some(offset) = self.find_mark(from)? else { return Ok(false) };
            self.go_to(offset)?;
            if self.message().is_ok_and(|message| message.is_batch()) {
                self.go_to(offset)?;
                return Ok(true);
            }
            from = offset + 1;
        }
        Ok(false)
    }

    /// The next offset from `from` on where the mark of a message stands.
    fn find_mark(&mut self, from: u64) -> std::io::Result<Option<u64>> {
        self.go_to(from)?;
        let mut offset = from;
        let mut ones = 0_usize;
        loop {
            let read = self.file.fill_buf()?;
            if read.is_empty() {
                return Ok(None);
            }
            for (byte, after) in read.iter().zip(offset + 1..) {
                ones = if *byte == MARK[0] { ones + 1 } else { 0 };
                if ones == MARK.len() {
                    return Ok(Some(after - MARK.len() as u64));
                }
            }
            let length = read.len();
            offset += length as u64;
            self.file.consume(length);
        }
    }

    /// Whether a message begins here, or the file ends.
    fn is_at_mark(&mut self) -> std::io::Result<bool> {
        let offset = self.at;
        let found = self.take(MARK.len() as u64);
        self.go_to(offset)?;
        Ok(offset == self.size || found.is_ok_and(|bytes| bytes[..] == MARK))
    }

    fn go_to(&mut self, offset: u64) -> std::io::Result<()> {
        self.at = offset.min(self.size);
        self.file.seek(SeekFrom::Start(self.at)).map(drop)
    }

    /// The batch in a message; `None` for the schema, which is stored.
    fn decode(&mut self, message: &StreamMessage) -> Result<Option<RecordBatch>, String> {
        let head = ipc::root_as_message(&message.head).map_err(|why| why.to_string())?;
        match (head.header_type(), &self.schema) {
            (MessageHeader::Schema, None) => {
                let schema = head.header_as_schema().ok_or("the schema is missing")?;
                let schema =
                    ipc::convert::try_fb_to_schema(schema).map_err(|why| why.to_string())?;
                if let Some(odd) = schema.fields().iter().find(|f| !is_plain(f.data_type())) {
                    return Err(format!("column `{}` has an unexpected type", odd.name()));
                }
                self.schema = Some(Arc::new(schema));
                Ok(None)
            }
            (MessageHeader::RecordBatch, Some(schema)) => {
                let batch = head.header_as_record_batch().ok_or("the batch is missing")?;
                check(&batch, message.body.len() as u64)?;
                check_offsets(&batch, schema)?;
                let (schema, version) = (Arc::clone(schema), head.version());
                read_record_batch(&message.body, batch, schema, &HashMap::new(), None, &version)
                    .map(Some)
                    .map_err(|why| why.to_string())
            }
            _ => Err("it is not a batch of rows".to_owned()),
        }
    }
}

impl Iterator for Batches {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        while !self.is_over {
            let begin = self.at;
            let message = match self.message() {
                Ok(message) => message,
                Err(stopped) => {
                    self.pass_over(begin, stopped);
                    continue;
                }
            };
            match self.decode(&message) {
                Ok(None) => {}
                Ok(Some(batch)) => {
                    self.number += 1;
                    return Some(batch);
                }
                Err(reason) => {
                    self.damages.note(&self.path, self.number, &reason);
                    self.number += 1;
                    // Bytes that were lost or added move all that follows.
                    let is_found = self.is_at_mark().unwrap_or(false)
                        || self.find_batch(begin).unwrap_or(false);
                    // Without a schema no batch can be read.
                    self.is_over = self.schema.is_none() || !is_found;
                }
            }
        }
        None
    }
}

/// Types whose values take space in the body, so that the body's size bounds their number.
fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(values) | DataType::LargeList(values) => is_plain(values.data_type()),
        DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary => true,
        other => other.is_primitive(),
    }
}

/// Compares the lengths that a batch declares with its bytes.
fn check(batch: &ipc::RecordBatch<'_>, body: u64) -> Result<(), String> {
    let is_within = |value: i64, most: u64| u64::try_from(value).is_ok_and(|value| value <= most);
    // The index column alone takes eight bytes per row.
    if !is_within(batch.length(), body / 8) {
        return Err(format!("it declares {} rows in {body} bytes", batch.length()));
    }
    if batch.compression().is_some() {
        return Err("it is compressed".to_owned());
    }
    for node in batch.nodes().into_iter().flatten() {
        let (length, nulls) = (node.length(), node.null_count());
        if !is_within(length, body.saturating_mul(8)) || !(0..=length).contains(&nulls) {
            return Err(format!("a column declares {length} values in {body} bytes"));
        }
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let room = u64::try_from(buffer.offset()).ok().and_then(|offset| body.checked_sub(offset));
        if !room.is_some_and(|room| is_within(buffer.length(), room)) {
            return Err("a column lies outside of it".to_owned());
        }
    }
    Ok(())
}

/// Buffers of offsets hold whole numbers, which the decoder takes for granted.
fn check_offsets(batch: &ipc::RecordBatch<'_>, schema: &SchemaRef) -> Result<(), String> {
    let mut lengths = batch.buffers().into_iter().flatten().map(ipc::Buffer::length);
    schema.fields().iter().try_for_each(|field| check_column(field.data_type(), &mut lengths))
}

fn check_column(
    data_type: &DataType,
    lengths: &mut impl Iterator<Item = i64>,
) -> Result<(), String> {
    let _validity = lengths.next();
    let width = match data_type {
        DataType::List(_) | DataType::Utf8 | DataType::Binary => 4,
        DataType::LargeList(_) | DataType::LargeUtf8 => 8,
        _ => {
            let _values = lengths.next();
            return Ok(());
        }
    };
    if lengths.next().is_none_or(|length| length % width != 0) {
        return Err("the offsets of a column are cut".to_owned());
    }
    match data_type {
        DataType::List(values) | DataType::LargeList(values) => {
            check_column(values.data_type(), lengths)
        }
        _ => {
            let _values = lengths.next();
            Ok(())
        }
    }
}

fn has_end_mark(file: &File, length: u64) -> std::io::Result<bool> {
    let mut last = [0; END_MARK.len()];
    let Some(at) = length.checked_sub(END_MARK.len() as u64) else { return Ok(false) };
    file.read_exact_at(&mut last, at)?;
    Ok(last == END_MARK)
}

/// A file with a position of its own: two readers of one handle would otherwise move each other's.
pub(crate) struct Positioned {
    file: File,
    at: u64,
}

impl Positioned {
    /// From the beginning, through the same handle.
    pub(crate) fn of(file: &File) -> std::io::Result<Self> {
        Ok(Self { file: file.try_clone()?, at: 0 })
    }
}

impl Read for Positioned {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Positioned {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = at.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
