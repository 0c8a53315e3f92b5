//! Files of a record that a shard sends because it shares no storage with the leader.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tokometer_record::folder::{create_private, names};

use crate::members::LeaderShared;
use crate::message::FilePart;
use crate::shard_folder;
use crate::wire::WireError;

/// A file of a shard's record that is being received.
pub(crate) struct IncomingFile {
    file: File,
    left: u64,
    /// Its name while it is not complete, and its own.
    renamed: Option<(PathBuf, PathBuf)>,
}

/// Files that can be read only as a whole: one that a dying shard has cut would keep all shards from being
/// merged. Rows are of use as they come.
const WHOLE: [&str; 3] = [names::PLAN, names::CLOCK, names::END];

/// Files that a shard may send.
const TAKEN: [&str; 6] =
    [names::PLAN, names::REQUESTS, names::STARTS, names::SERVER, names::CLOCK, names::END];

impl IncomingFile {
    pub(crate) fn create(
        shared: &LeaderShared,
        rank: u32,
        part: &FilePart,
    ) -> Result<Self, WireError> {
        let FilePart { point, name, .. } = part;
        let folder =
            shared.state().folders.iter().find(|(of, _)| of == point).map(|(_, at)| at.clone());
        let (Some(folder), true) = (folder, TAKEN.contains(&name.as_str())) else {
            return Err(WireError::Garbage(format!("a file `{name}` of point {point}")));
        };
        Self::open(&shard_folder(&folder, rank), part)
    }

    fn open(folder: &Path, part: &FilePart) -> Result<Self, WireError> {
        let (name, offset, bytes) = (part.name.as_str(), part.offset, part.bytes);
        create_private(folder).map_err(WireError::Unwritten)?;
        let path = folder.join(name);
        if offset > 0 {
            let file = File::options().append(true).open(path).map_err(WireError::Unwritten)?;
            if file.metadata().map_err(WireError::Unwritten)?.len() != offset {
                return Err(WireError::Garbage(format!("more of `{name}` after {offset} bytes")));
            }
            return Ok(Self { file, left: bytes, renamed: None });
        }
        // Rows that are sent again must not be lost before the new ones are there.
        let is_renamed = bytes > 0 && (WHOLE.contains(&name) || path.exists());
        let renamed = is_renamed.then(|| (folder.join(format!("{name}.incoming")), path.clone()));
        let name = renamed.as_ref().map_or(&path, |(incoming, _)| incoming);
        let file = File::create(name).map_err(WireError::Unwritten)?;
        Ok(Self { file, left: bytes, renamed })
    }

    pub(crate) fn write(&mut self, content: &[u8]) -> Result<(), WireError> {
        self.left = self
            .left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| WireError::Garbage("more content than announced".to_owned()))?;
        self.store(content).map_err(WireError::Unwritten)
    }

    fn store(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        match self.renamed.take_if(|_| self.left == 0) {
            Some((incoming, path)) => fs::rename(incoming, path),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, name: &str, offset: u64, bytes: u64) -> Result<IncomingFile, WireError> {
        let part = FilePart { point: 0, name: name.to_owned(), offset, bytes };
        IncomingFile::open(folder, &part)
    }

    /// A shard that died between the name of `end.json` and its content left an empty one, and the leader
    /// could not merge any shard.
    #[test]
    fn a_file_that_is_read_as_a_whole_is_there_when_it_is_complete() {
        let root = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read(root.path().join(name)).ok();
        for name in WHOLE {
            let mut file = open(root.path(), name, 0, 5).unwrap();
            file.write(b"abc").unwrap();
            assert_eq!(read(name), None, "{name}");
            file.write(b"de").unwrap();
            assert_eq!(read(name).as_deref(), Some(&b"abcde"[..]), "{name}");
            assert!(file.write(b"f").is_err(), "more than announced");
            // It is sent again where it was rewritten.
            let mut again = open(root.path(), name, 0, 2).unwrap();
            assert_eq!(read(name).as_deref(), Some(&b"abcde"[..]), "{name}");
            again.write(b"xy").unwrap();
            assert_eq!(read(name).as_deref(), Some(&b"xy"[..]), "{name}");
        }
        let mut rows = open(root.path(), names::REQUESTS, 0, 5).unwrap();
        rows.write(b"abc").unwrap();
        assert_eq!(
            read(names::REQUESTS).as_deref(),
            Some(&b"abc"[..]),
            "what a dying shard had sent"
        );
        assert!(open(root.path(), names::REQUESTS, 4, 1).is_err());
        let mut more = open(root.path(), names::REQUESTS, 3, 1).unwrap();
        more.write(b"d").unwrap();
        assert_eq!(read(names::REQUESTS).as_deref(), Some(&b"abcd"[..]));
        let mut again = open(root.path(), names::REQUESTS, 0, 4).unwrap();
        again.write(b"AB").unwrap();
        assert_eq!(read(names::REQUESTS).as_deref(), Some(&b"abcd"[..]), "not complete");
        again.write(b"CD").unwrap();
        assert_eq!(read(names::REQUESTS).as_deref(), Some(&b"ABCD"[..]));
    }
}
