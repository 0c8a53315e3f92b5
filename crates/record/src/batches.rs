//! Reads the batches of an Arrow stream from disk, each checked before it is decoded.
//!
//! A damaged file may declare any length. Every length that the decoder relies on is first compared
//! with the bytes that exist: no file makes the program panic or use more memory than a small
//! multiple of its size. A damaged batch is reported and skipped. A truncated file, as a killed
//! writer leaves it, ends at its last complete batch; that is not damage.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::{self as ipc, MessageHeader};
use arrow_schema::{DataType, SchemaRef};

use crate::folder::{Error, file_error};

/// Every message begins with four bytes `0xff` and its length; the end mark has length zero.
const MARK: [u8; 4] = [0xff; 4];
const END_MARK: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Damage found while a folder was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Damages(Arc<Mutex<Vec<Error>>>);

impl Damages {
    pub(crate) fn note(&self, path: &Path, batch: u64, reason: String) {
        let damaged = Error::Damaged { path: path.to_owned(), batch, reason };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(damaged);
    }

    pub(crate) fn take(&self) -> Vec<Error> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

enum Stopped {
    /// The stream has ended, or was truncated.
    Over,
    /// What follows is not a message.
    Damaged(String),
}

/// A message of the stream as stored on disk.
struct Message {
    head: Vec<u8>,
    body: Buffer,
}

/// The complete batches of a stream.
pub(crate) struct Batches {
    path: PathBuf,
    file: BufReader<File>,
    /// Bytes left in the file.
    left: u64,
    /// Whether the file has its end mark, so that a length beyond its end is damage.
    is_whole: bool,
    is_over: bool,
    schema: Option<SchemaRef>,
    /// Number of the next batch, from zero.
    number: u64,
    damages: Damages,
}

impl Batches {
    pub(crate) fn open(path: &Path, damages: &Damages) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(file_error("read", path))?;
        let left = file.metadata().map_err(file_error("read", path))?.len();
        let is_whole =
            left == 0 || has_end_mark(&mut file, left).map_err(file_error("read", path))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            left,
            is_whole,
            is_over: false,
            schema: None,
            number: 0,
            damages: damages.clone(),
        })
    }

    /// Whether the stream has its end mark, or is empty.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Number of the last batch read.
    pub(crate) fn last_number(&self) -> u64 {
        self.number.saturating_sub(1)
    }

    /// The next `count` bytes of the file, if it has them.
    fn take(&mut self, count: u64) -> Result<Vec<u8>, Stopped> {
        let cut = || Stopped::Damaged(format!("it needs {count} bytes, the file ends before"));
        if count > self.left {
            return Err(if self.is_whole { cut() } else { Stopped::Over });
        }
        let mut bytes = vec![0; usize::try_from(count).map_err(|_| cut())?];
        self.file.read_exact(&mut bytes).map_err(|why| Stopped::Damaged(why.to_string()))?;
        self.left -= count;
        Ok(bytes)
    }

    fn message(&mut self) -> Result<Message, Stopped> {
        if self.left == 0 {
            return Err(Stopped::Over);
        }
        let begin = self.take(8)?;
        let (mark, length) = begin.split_at(4);
        if mark != MARK {
            return Err(Stopped::Damaged("no message begins where one should".to_owned()));
        }
        let length = length.try_into().map_or(0, u32::from_le_bytes);
        if length == 0 {
            return Err(Stopped::Over);
        }
        let head = self.take(u64::from(length))?;
        let message = ipc::root_as_message(&head)
            .map_err(|why| Stopped::Damaged(format!("its head cannot be read: {why}")))?;
        let length = u64::try_from(message.bodyLength())
            .map_err(|_| Stopped::Damaged("its length is negative".to_owned()))?;
        let body = Buffer::from_vec(self.take(length)?);
        Ok(Message { head, body })
    }

    /// The batch in a message; `None` for the schema, which is stored.
    fn decode(&mut self, message: &Message) -> Result<Option<RecordBatch>, String> {
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
                let (schema, version) = (Arc::clone(schema), head.version());
                read_record_batch(&message.body, batch, schema, &HashMap::new(), None, &version)
                    .map(Some)
                    .map_err(|why| why.to_string())
            }
            _ => Err("it is no batch of rows".to_owned()),
        }
    }
}

impl Iterator for Batches {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        while !self.is_over {
            let message = match self.message() {
                Ok(message) => message,
                Err(stopped) => {
                    self.is_over = true;
                    if let Stopped::Damaged(reason) = stopped {
                        self.damages.note(&self.path, self.number, reason);
                    }
                    return None;
                }
            };
            match self.decode(&message) {
                Ok(None) => {}
                Ok(Some(batch)) => {
                    self.number += 1;
                    return Some(batch);
                }
                Err(reason) => {
                    self.damages.note(&self.path, self.number, reason);
                    // Without a schema no batch can be decoded.
                    self.is_over = self.schema.is_none();
                    self.number += 1;
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

fn has_end_mark(file: &mut File, length: u64) -> std::io::Result<bool> {
    let mut last = [0; END_MARK.len()];
    if length < END_MARK.len() as u64 {
        return Ok(false);
    }
    let _at = file.seek(SeekFrom::End(-8))?;
    file.read_exact(&mut last)?;
    let _at = file.seek(SeekFrom::Start(0))?;
    Ok(last == END_MARK)
}
