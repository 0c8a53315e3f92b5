//! Files of a record that a shard sends because it shares no storage with the leader.

use std::fs::File;
use std::io::Write as _;

use tokometer_record::folder::{create_private, names};

use crate::leader::LeaderShared;
use crate::shard_folder;
use crate::wire::WireError;

/// A file of a shard's record that is being received.
pub(crate) struct IncomingFile {
    file: File,
    left: u64,
}

/// Files that a shard may send.
const TAKEN: [&str; 6] =
    [names::PLAN, names::REQUESTS, names::STARTS, names::SERVER, names::CLOCK, names::END];

impl IncomingFile {
    pub(crate) fn create(
        shared: &LeaderShared,
        (rank, point): (u32, u32),
        name: &str,
        (offset, bytes): (u64, u64),
    ) -> Result<Self, WireError> {
        let folder =
            shared.state().folders.iter().find(|(of, _)| *of == point).map(|(_, at)| at.clone());
        let (Some(folder), true) = (folder, TAKEN.contains(&name)) else {
            return Err(WireError::Garbage(format!("a file `{name}` of point {point}")));
        };
        let folder = shard_folder(&folder, rank);
        create_private(&folder)?;
        let path = folder.join(name);
        if offset == 0 {
            return Ok(Self { file: File::create(path)?, left: bytes });
        }
        let file = File::options().append(true).open(path)?;
        if file.metadata()?.len() != offset {
            return Err(WireError::Garbage(format!("more of `{name}` after {offset} bytes")));
        }
        Ok(Self { file, left: bytes })
    }

    pub(crate) fn write(&mut self, content: &[u8]) -> Result<(), WireError> {
        self.left = self
            .left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| WireError::Garbage("more content than announced".to_owned()))?;
        Ok(self.file.write_all(content)?)
    }
}
