//! Files of datasets; `-` is standard input.
//!
//! A dataset is read more than once: for its index, for its rows, and again for each point of a sweep.
//! Standard input and pipes, which can be read once, are therefore copied to an unnamed temporary file first,
//! and so is text in UTF-16, as UTF-8.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tokometer_base::Fingerprint;

const STDIN: &str = "-";

/// What was read from where it can be read once, for the rest of the program's life.
static COPIES: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());

/// Opens a file at its beginning. Text in UTF-16 is given as UTF-8; a compressed file is refused.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(copy) = copies.get(path) {
        return rewound(copy);
    }
    let is_copy = is_read_once(path);
    let file = if is_copy { copied(path)? } else { File::open(path)? };
    let copy = match converted(&file)? {
        Some(text) => text,
        None if is_copy => file,
        None => return Ok(file),
    };
    rewound(copies.entry(path.to_owned()).or_insert(copy))
}

/// A handle of its own at the beginning of a copy.
fn rewound(copy: &File) -> io::Result<File> {
    // The position is shared, and rows are read by their offset.
    let mut copy = copy.try_clone()?;
    copy.rewind().map(|()| copy)
}

const COMPRESSED: [(&[u8], &str, &str); 5] = [
    (&[0x1f, 0x8b], "gzip", "zcat"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "Zstandard", "zstdcat"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz", "xzcat"),
    (b"BZh", "bzip2", "bzcat"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];

/// The content of a file that is not in UTF-8, as a file in UTF-8. `None` for one that can be read as it is.
fn converted(file: &File) -> io::Result<Option<File>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut first = [0; 8];
    // A folder has no bytes; the reader that follows says what it is.
    let Ok(read) = file.read_at(&mut first, 0) else { return Ok(None) };
    let first = &first[..read];
    if let Some((_, name, tool)) = COMPRESSED.iter().find(|(mark, ..)| first.starts_with(mark)) {
        return Err(invalid(format!(
            "it is compressed ({name})\n  unpack it first, or try `--dataset-path <({tool} FILE)`"
        )));
    }
    let of: fn([u8; 2]) -> u16 = match first {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        [0, 1..=255, ..] | [1..=255, 0, ..] => {
            let why =
                "it is not text in UTF-8\n  try `iconv -f UTF-16LE -t UTF-8 FILE`, or UTF-16BE";
            return Err(invalid(why.to_owned()));
        }
        _ => return Ok(None),
    };
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect();
    let mut text = tempfile::tempfile()?;
    text.write_all(String::from_utf16_lossy(&units).as_bytes())?;
    Ok(Some(text))
}

/// Whether a path names standard input, or a pipe such as `<(zcat rows.jsonl.gz)`.
fn is_read_once(path: &Path) -> bool {
    path == Path::new(STDIN) || is_pipe(path)
}

pub(crate) fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

fn copied(path: &Path) -> io::Result<File> {
    let mut from: Box<dyn Read> = if path == Path::new(STDIN) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path)?)
    };
    let mut copy = tempfile::tempfile()?;
    let _bytes = io::copy(&mut from, &mut copy)?;
    Ok(copy)
}

/// Blocks of a file that its fingerprint covers, spread evenly over it.
const BLOCKS: u64 = 16;
const BLOCK_BYTES: u64 = 64 << 10;

/// What tells the content of a file from another: its length, and a hash of parts of it, so that a
/// large file is not read as a whole. `None` for a folder.
pub(crate) fn fingerprint(path: &Path) -> Option<String> {
    let file = open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let bytes = file.metadata().ok()?.len();
    let mut hash = Fingerprint::default();
    let mut block = vec![0; usize::try_from(BLOCK_BYTES).ok()?];
    for at in 0..BLOCKS {
        let begin = bytes.saturating_sub(BLOCK_BYTES) * at / (BLOCKS - 1);
        let read = file.read_at(&mut block, begin).ok()?;
        hash = hash.with_part(&block[..read]);
    }
    Some(format!("{bytes} bytes, {:016x}", hash.value()))
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let _count = open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    utf8(read(path)?).map_err(|invalid| {
        let why = format!("line {}: {}", invalid.lines + 1, invalid.reason());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// What to try with text in another encoding.
pub(crate) const CONVERT: &str =
    "try `iconv -t UTF-8 FILE`, with `-f` and its encoding, such as `-f LATIN1`";

/// A byte that text in UTF-8 cannot have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidByte {
    byte: u8,
    /// Lines that end before it.
    pub(crate) lines: u64,
}

impl InvalidByte {
    pub(crate) fn reason(&self) -> String {
        let byte = self.byte;
        format!("it is not text in UTF-8 (byte 0x{byte:02x})\n  {CONVERT}")
    }
}

/// Text, or its first byte that is none: a replaced character would change a prompt in silence.
pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String, InvalidByte> {
    String::from_utf8(bytes).map_err(|why| {
        let (valid, rest) = why.as_bytes().split_at(why.utf8_error().valid_up_to());
        let lines = memchr::memchr_iter(b'\n', valid).count() as u64;
        InvalidByte { byte: rest.first().copied().unwrap_or_default(), lines }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second reading waited for a writer that would never come.
    #[test]
    fn a_pipe_is_read_once_and_opened_any_number_of_times() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let to = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(to, "rows").unwrap());
        for _ in 0..3 {
            assert_eq!(read_text(&pipe).unwrap(), "rows");
        }
        writer.join().unwrap();
        assert!(fingerprint(&pipe).unwrap().starts_with("4 bytes, "));
        assert!(is_pipe(&pipe));
        assert!(!is_pipe(folder.path()) && !is_pipe(&folder.path().join("none")));
    }

    /// Such files were taken for damaged JSON.
    #[test]
    fn text_in_utf_16_is_converted_and_compressed_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let units: Vec<u16> = "[\u{e9}, \u{1f600}]".encode_utf16().collect();
        let le: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let be: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for (name, mark, bytes) in [("le", [0xff, 0xfe], &le), ("be", [0xfe, 0xff], &be)] {
            let marked = path(name, &[&mark[..], bytes].concat());
            for _ in 0..2 {
                assert_eq!(read_text(&marked).unwrap(), "[\u{e9}, \u{1f600}]");
            }
        }
        let refusal = |bytes: &[u8]| open(&path("refused", bytes)).unwrap_err().to_string();
        assert!(refusal(&le).contains("iconv"), "{}", refusal(&le));
        assert!(refusal(&be).contains("iconv"), "{}", refusal(&be));
        assert!(refusal(&[0x1f, 0x8b, 8, 0]).contains("compressed (gzip)"));
        assert!(refusal(b"PK\x03\x04").contains("unzip"));
        assert_eq!(read_text(&path("short", b"[")).unwrap(), "[");
        assert!(read_text(&path("latin", b"caf\xe9")).unwrap_err().to_string().contains("iconv"));
    }

    #[test]
    fn a_file_that_has_changed_has_another_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let mut bytes = vec![b'a'; 3 << 20];
        std::fs::write(&path, &bytes).unwrap();
        let first = fingerprint(&path).unwrap();
        assert_eq!(fingerprint(&path), Some(first.clone()));
        for at in [0, bytes.len() - 1] {
            bytes[at] = b'b';
            std::fs::write(&path, &bytes).unwrap();
            assert_ne!(fingerprint(&path), Some(first.clone()), "{at}");
            bytes[at] = b'a';
        }
        std::fs::write(&path, b"short").unwrap();
        assert!(fingerprint(&path).unwrap().starts_with("5 bytes, "));
        assert_eq!(fingerprint(folder.path()), None);
        assert_eq!(fingerprint(&folder.path().join("none")), None);
    }
}
