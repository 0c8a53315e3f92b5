//! Files of datasets; `-` is standard input.
//!
//! A dataset is read more than once: for its index, for its rows, and again for each point of a sweep.
//! Standard input is therefore copied to an unnamed temporary file first.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;

use tokometer_base::Partial as _;

use crate::{PartialSpec, Spec};

/// The path that stands for standard input.
const STDIN: &str = "-";

/// Opens a file at its beginning.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    static COPY: OnceLock<io::Result<File>> = OnceLock::new();
    if path != Path::new(STDIN) {
        return File::open(path);
    }
    match COPY.get_or_init(copied) {
        // The position is shared, and rows are read by their place.
        Ok(copy) => copy.try_clone().and_then(|mut file| file.rewind().map(|()| file)),
        Err(why) => Err(io::Error::new(why.kind(), why.to_string())),
    }
}

fn copied() -> io::Result<File> {
    let mut copy = tempfile::tempfile()?;
    let _bytes = io::copy(&mut io::stdin().lock(), &mut copy)?;
    Ok(copy)
}

/// Blocks of a file that its fingerprint covers, spread evenly over it.
const BLOCKS: u64 = 16;
const BLOCK_BYTES: u64 = 64 << 10;

/// What tells the content of a dataset's file from another: its length, and a hash of parts of it, so
/// that a large file is not read as a whole. `None` for a dataset without a file, and for a folder.
pub fn fingerprint(spec: &Spec) -> Option<String> {
    let options = PartialSpec::of(spec.clone());
    let path = options.path.and_then(|path| path.0);
    let path = path.or_else(|| options.content_path.and_then(|path| path.0))?;
    let file =
        open(&path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let bytes = file.metadata().ok()?.len();
    let mut hash = Fnv::default();
    let mut block = vec![0; usize::try_from(BLOCK_BYTES).ok()?];
    for at in 0..BLOCKS {
        let begin = bytes.saturating_sub(BLOCK_BYTES) * at / (BLOCKS - 1);
        let read = file.read_at(&mut block, begin).ok()?;
        hash.feed(&block[..read]);
    }
    Some(format!("{bytes} bytes, {:016x}", hash.0))
}

/// FNV-1a, which needs no table and is the same everywhere.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let _count = open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let invalid =
        |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(read(path)?).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use tokometer_base::Conventions;

    use super::*;
    use crate::OrNone;

    fn of(path: &Path) -> Option<String> {
        let mut part = PartialSpec::of(Spec::defaults("sonnet", Conventions::Vllm).unwrap());
        part.path = Some(OrNone(Some(path.to_owned())));
        fingerprint(&part.complete().unwrap())
    }

    #[test]
    fn a_file_that_has_changed_has_another_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let mut bytes = vec![b'a'; 3 << 20];
        std::fs::write(&path, &bytes).unwrap();
        let first = of(&path).unwrap();
        assert_eq!(of(&path), Some(first.clone()));
        for at in [0, bytes.len() - 1] {
            bytes[at] = b'b';
            std::fs::write(&path, &bytes).unwrap();
            assert_ne!(of(&path), Some(first.clone()), "{at}");
            bytes[at] = b'a';
        }
        std::fs::write(&path, b"short").unwrap();
        assert!(of(&path).unwrap().starts_with("5 bytes, "));
        assert_eq!(of(folder.path()), None);
        assert_eq!(of(&folder.path().join("none")), None);
    }
}
