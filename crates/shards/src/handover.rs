//! A record on its way to a leader that does not see this machine's files.
//!
//! Rows are sent while the run goes on, so that the leader has them when this shard dies. What was sent is
//! remembered with its digest: a file that is rewritten after the run is sent again as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;

use ring::digest::{Context, SHA256};
use tokometer_record::folder::names;

use crate::message::{FilePart, ToLeader};

/// Content of one message with a piece of a file.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes of a file that are sent at a time while the run goes on.
const STREAM_MAX: u64 = 8 << 20;

/// Files that grow during a run, after the one that says what they are.
const GROWING: [&str; 3] = [names::PLAN, names::STARTS, names::REQUESTS];

/// A small file that is replaced during a run. Without it the times of a shard that dies could only be
/// compared by the wall clock.
const REPLACED: &str = names::CLOCK;

/// All files. The end comes last: a record without one is not complete.
const ALL: [&str; 6] =
    [names::PLAN, names::STARTS, names::SERVER, names::REQUESTS, names::CLOCK, names::END];

/// A connection to the leader.
pub(crate) trait RecordOutlet {
    fn send(&self, message: &ToLeader) -> io::Result<()>;
    fn send_bytes(&self, content: &[u8]) -> io::Result<()>;
}

/// The first bytes of a file that the leader has.
struct SentPart {
    bytes: u64,
    digest: Context,
}

impl SentPart {
    fn nothing() -> Self {
        Self { bytes: 0, digest: Context::new(&SHA256) }
    }

    /// Whether the file still begins with what was sent.
    fn is_start_of(&self, file: &mut File) -> io::Result<bool> {
        let mut digest = Context::new(&SHA256);
        let mut left = self.bytes;
        let mut piece = vec![0; PIECE_BYTES];
        while left > 0 {
            let read = read_piece(file, &mut piece, left)?;
            if read == 0 {
                return Ok(false);
            }
            digest.update(&piece[..read]);
            left -= read as u64;
        }
        Ok(digest.finish().as_ref() == self.digest.clone().finish().as_ref())
    }
}

/// What the leader has of the record of one point.
pub(crate) struct SentRecord {
    point: u32,
    files: BTreeMap<&'static str, SentPart>,
}

impl SentRecord {
    pub(crate) fn new(point: u32) -> Self {
        Self { point, files: BTreeMap::new() }
    }

    pub(crate) fn point(&self) -> u32 {
        self.point
    }

    /// Sends what the growing files have gained.
    pub(crate) fn stream(&mut self, folder: &Path, out: &impl RecordOutlet) -> io::Result<()> {
        for name in GROWING {
            self.send(folder, name, STREAM_MAX, out)?;
        }
        if !self.is_sent(folder, REPLACED)? {
            // From its first byte: more of it after the old content would be neither of both.
            let _ = self.files.remove(REPLACED);
            self.send(folder, REPLACED, STREAM_MAX, out)?;
        }
        Ok(())
    }

    /// Whether the leader has exactly the content of a file.
    fn is_sent(&self, folder: &Path, name: &str) -> io::Result<bool> {
        let (Some(part), Ok(mut file)) = (self.files.get(name), File::open(folder.join(name)))
        else {
            return Ok(false);
        };
        Ok(file.metadata()?.len() == part.bytes && part.is_start_of(&mut file)?)
    }

    /// Sends everything that the leader does not have.
    pub(crate) fn complete(mut self, folder: &Path, out: &impl RecordOutlet) -> io::Result<()> {
        for name in ALL {
            let is_kept = match (self.files.get(name), File::open(folder.join(name))) {
                (Some(part), Ok(mut file)) => part.is_start_of(&mut file)?,
                _ => false,
            };
            if !is_kept {
                let _ = self.files.remove(name);
            }
            self.send(folder, name, u64::MAX, out)?;
        }
        Ok(())
    }

    /// Sends up to `most` more bytes of a file. One that is not there is left out.
    fn send(
        &mut self,
        folder: &Path,
        name: &'static str,
        most: u64,
        out: &impl RecordOutlet,
    ) -> io::Result<()> {
        let Ok(mut file) = File::open(folder.join(name)) else { return Ok(()) };
        let part = self.files.entry(name).or_insert_with(SentPart::nothing);
        let bytes = file.metadata()?.len().saturating_sub(part.bytes).min(most);
        if bytes == 0 && part.bytes > 0 {
            return Ok(());
        }
        let _ = file.seek(SeekFrom::Start(part.bytes))?;
        let offset = part.bytes;
        let part_of = FilePart { point: self.point, name: name.to_owned(), offset, bytes };
        out.send(&ToLeader::File(part_of))?;
        let mut left = bytes;
        let mut piece = vec![0; PIECE_BYTES];
        while left > 0 {
            let read = read_piece(&mut file, &mut piece, left)?;
            if read == 0 {
                break;
            }
            out.send_bytes(&piece[..read])?;
            part.digest.update(&piece[..read]);
            part.bytes += read as u64;
            left -= read as u64;
        }
        Ok(())
    }
}

fn read_piece(file: &mut File, piece: &mut [u8], left: u64) -> io::Result<usize> {
    let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
    file.read(&mut piece[..wanted])
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The leader's files, as it writes them.
    #[derive(Default)]
    struct Leader {
        files: RefCell<BTreeMap<String, Vec<u8>>>,
        open: RefCell<String>,
        sent: RefCell<usize>,
    }

    impl RecordOutlet for Leader {
        fn send(&self, message: &ToLeader) -> io::Result<()> {
            let ToLeader::File(FilePart { name, offset, .. }) = message else {
                panic!("{message:?}")
            };
            let mut files = self.files.borrow_mut();
            files.entry(name.clone()).or_default().truncate(usize::try_from(*offset).unwrap());
            self.open.borrow_mut().clone_from(name);
            Ok(())
        }

        fn send_bytes(&self, content: &[u8]) -> io::Result<()> {
            *self.sent.borrow_mut() += content.len();
            let mut files = self.files.borrow_mut();
            files.get_mut(self.open.borrow().as_str()).unwrap().extend_from_slice(content);
            Ok(())
        }
    }

    #[test]
    fn rows_are_sent_once_and_a_file_that_was_rewritten_is_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| {
            std::fs::write(folder.path().join(name), content).unwrap();
        };
        let leader = Leader::default();
        let mut sent = SentRecord::new(4);
        write(names::PLAN, b"plan");
        write(names::REQUESTS, b"rows");
        write(names::STARTS, b"one");
        sent.stream(folder.path(), &leader).unwrap();
        sent.stream(folder.path(), &leader).unwrap();
        assert_eq!(*leader.sent.borrow(), 11, "nothing twice");
        write(names::REQUESTS, b"rows and more rows");
        sent.stream(folder.path(), &leader).unwrap();
        assert_eq!(leader.files.borrow()[names::REQUESTS], b"rows and more rows");
        // The clock is replaced as a whole, by a longer or a shorter one.
        for clock in [&b"early"[..], b"early and late", b"late"] {
            write(names::CLOCK, clock);
            let before = *leader.sent.borrow();
            sent.stream(folder.path(), &leader).unwrap();
            sent.stream(folder.path(), &leader).unwrap();
            assert_eq!(leader.files.borrow()[names::CLOCK], clock);
            assert_eq!(*leader.sent.borrow() - before, clock.len(), "nothing twice");
        }
        // After the run one file is rewritten, and the end is there.
        write(names::REQUESTS, b"ROWS and more rows!");
        write(names::STARTS, b"one two");
        write(names::END, b"end");
        let before = *leader.sent.borrow();
        sent.complete(folder.path(), &leader).unwrap();
        assert_eq!(*leader.sent.borrow() - before, 19 + 4 + 3);
        let files = leader.files.borrow();
        assert_eq!(files[names::REQUESTS], b"ROWS and more rows!");
        assert_eq!(files[names::STARTS], b"one two");
        assert_eq!(
            (files[names::PLAN].as_slice(), files[names::END].as_slice()),
            (&b"plan"[..], &b"end"[..])
        );
    }
}
