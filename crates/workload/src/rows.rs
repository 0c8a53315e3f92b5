//! Rows of a dataset file, found in one pass and read one by one.
//!
//! In: a JSON array of objects of any size, or JSON lines. Out: where each row lies, and its text on
//! demand; no tree of the file is ever built, so memory does not grow with it. The pass looks only
//! at brackets and strings: whether a row is valid JSON is checked by its reader.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use memchr::{memchr, memchr2};

use crate::{Error, Result, input};

/// Read at once while looking for rows.
const BLOCK_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowSpan {
    offset: u64,
    bytes: u64,
}

/// Rows of one file, or of several, one after the other.
#[derive(Debug)]
pub(crate) struct FileRows {
    path: PathBuf,
    parts: Vec<RowFile>,
}

/// A file whose rows are known by their offsets.
#[derive(Debug)]
struct RowFile {
    path: PathBuf,
    file: File,
    spans: Vec<RowSpan>,
    is_cut: bool,
}

impl FileRows {
    fn of(part: RowFile) -> Self {
        Self { path: part.path.clone(), parts: vec![part] }
    }

    /// The rows of several files. `path` is what they have in common.
    pub(crate) fn join(path: PathBuf, mut rows: Vec<Self>) -> Self {
        match rows.len() {
            1 => rows.remove(0),
            _ => Self { path, parts: rows.into_iter().flat_map(|rows| rows.parts).collect() },
        }
    }

    /// Rows that were made of the file at `path`, which has another format. They may be larger than memory,
    /// so they go to a temporary file without a name, which the system removes when the program ends.
    pub(crate) fn spooled(
        path: &Path,
        rows: impl IntoIterator<Item = Result<String>>,
    ) -> Result<Self> {
        let file = tempfile::tempfile().map_err(Error::read(path))?;
        let mut out = BufWriter::new(&file);
        let (mut spans, mut offset) = (Vec::new(), 0);
        for row in rows {
            let row = row?;
            writeln!(out, "{row}").map_err(Error::read(path))?;
            spans.push(RowSpan { offset, bytes: row.len() as u64 });
            offset += row.len() as u64 + 1;
        }
        out.flush().map_err(Error::read(path))?;
        drop(out);
        Ok(Self::of(RowFile { path: path.to_owned(), file, spans, is_cut: false }))
    }

    /// Finds the rows of a JSON array or of JSON lines.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut file = input::open(path).map_err(Error::read(path))?;
        let mut scan = Scan::default();
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let read = file.read(&mut block).map_err(Error::read(path))?;
            if read == 0 {
                break;
            }
            scan.feed(&block[..read]).map_err(|reason| Error::Malformed {
                path: path.to_owned(),
                line: 1,
                reason,
            })?;
        }
        let is_cut = scan.finish();
        if scan.shape == Shape::Unknown {
            return Err(Error::Empty(path.to_owned()));
        }
        Ok(Self::of(RowFile { path: path.to_owned(), file, spans: scan.spans, is_cut }))
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.spans.len()).sum()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that holds a row, and where in it.
    fn part(&self, mut row: usize) -> (&RowFile, RowSpan) {
        for part in &self.parts {
            match part.spans.get(row) {
                Some(span) => return (part, *span),
                None => row -= part.spans.len(),
            }
        }
        unreachable!("rows are numbered below their count")
    }

    pub(crate) fn path_of(&self, row: usize) -> &Path {
        &self.part(row).0.path
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.parts.iter().any(|part| part.is_cut)
    }

    /// The text of a row; an error names the line of a byte that is no UTF-8.
    pub(crate) fn text(&self, row: usize) -> Result<String> {
        let (RowFile { path, file, .. }, RowSpan { offset, bytes }) = self.part(row);
        let mut text = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut text, offset).map_err(Error::read(path))?;
        input::utf8(text).map_err(|invalid| Error::Malformed {
            path: path.clone(),
            line: self.line(row) + invalid.lines,
            reason: invalid.reason(),
        })
    }

    /// The line on which a row begins, counted from 1. Reads the file again: for messages only.
    pub(crate) fn line(&self, row: usize) -> u64 {
        let (part, span) = self.part(row);
        let (mut at, mut lines) = (0, 1);
        let mut block = vec![0; BLOCK_BYTES];
        while at < span.offset {
            let left = usize::try_from(span.offset - at).unwrap_or(BLOCK_BYTES);
            let wanted = left.min(BLOCK_BYTES);
            let Ok(read @ 1..) = part.file.read_at(&mut block[..wanted], at) else { break };
            lines += memchr::memchr_iter(b'\n', &block[..read]).count() as u64;
            at += read as u64;
        }
        lines
    }
}

/// What the first byte says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shape {
    #[default]
    Unknown,
    Array,
    Lines,
}

/// Finds rows in bytes that arrive in blocks, wherever these are cut.
#[derive(Debug, Default)]
struct Scan {
    shape: Shape,
    spans: Vec<RowSpan>,
    passed: u64,
    row_start: Option<u64>,
    depth: u32,
    within: Within,
}

/// What the bytes of an array are part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Within {
    #[default]
    Structure,
    Text,
    /// A string, right behind a backslash.
    Escape,
    Nothing,
}

impl Scan {
    fn feed(&mut self, block: &[u8]) -> std::result::Result<(), String> {
        let mut at = 0;
        if self.shape == Shape::Unknown {
            // A byte order mark is no content.
            let is_blank =
                |byte: &u8| byte.is_ascii_whitespace() || [0xef, 0xbb, 0xbf].contains(byte);
            let Some(first) = block.iter().position(|byte| !is_blank(byte)) else {
                self.passed += block.len() as u64;
                return Ok(());
            };
            (self.shape, at) = match block[first] {
                b'[' => (Shape::Array, first + 1),
                b'{' => (Shape::Lines, first),
                b'P' if block[first..].starts_with(b"PAR1") => {
                    return Err("it is a Parquet file\n  try `--dataset-name hf`".into());
                }
                _ => return Err("it is neither a JSON array nor JSON lines".into()),
            };
        }
        match self.shape {
            Shape::Array => self.feed_array(block, at),
            Shape::Lines => self.feed_lines(block, at),
            Shape::Unknown => {}
        }
        self.passed += block.len() as u64;
        Ok(())
    }

    fn feed_lines(&mut self, block: &[u8], mut at: usize) {
        while at < block.len() {
            let start = *self.row_start.get_or_insert(self.passed + at as u64);
            let Some(length) = memchr(b'\n', &block[at..]) else { return };
            at += length + 1;
            self.row_start = None;
            self.push(start, self.passed + at as u64 - 1);
        }
    }

    fn push(&mut self, offset: u64, end: u64) {
        // A line of blanks is no row. Rows that are nothing but blanks are rare and short.
        if end > offset + 1 {
            self.spans.push(RowSpan { offset, bytes: end - offset });
        }
    }

    fn feed_array(&mut self, block: &[u8], mut at: usize) {
        while at < block.len() && self.within != Within::Nothing {
            if self.within != Within::Structure {
                at = self.skip_string(block, at);
                continue;
            }
            match block[at] {
                b'"' => self.within = Within::Text,
                b'{' | b'[' => {
                    if self.depth == 0 {
                        self.row_start = Some(self.passed + at as u64);
                    }
                    self.depth += 1;
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if let (0, Some(start)) = (self.depth, self.row_start) {
                        self.row_start = None;
                        self.push(start, self.passed + at as u64 + 1);
                    }
                }
                b']' => self.within = Within::Nothing,
                _ => {}
            }
            at += 1;
        }
    }

    /// Text is most of such a file: it is passed over at the speed of `memchr`.
    fn skip_string(&mut self, block: &[u8], mut at: usize) -> usize {
        if self.within == Within::Escape {
            self.within = Within::Text;
            at += 1;
        }
        while let Some(length) = memchr2(b'"', b'\\', &block[at.min(block.len())..]) {
            at += length + 1;
            if block[at - 1] == b'"' {
                self.within = Within::Structure;
                return at;
            }
            if at == block.len() {
                self.within = Within::Escape;
                return at;
            }
            at += 1;
        }
        block.len()
    }

    /// Ends the scan; says whether the file was cut within a row.
    fn finish(&mut self) -> bool {
        match (self.shape, self.row_start.take()) {
            (Shape::Lines, Some(start)) => {
                self.push(start, self.passed);
                false
            }
            (Shape::Array, _) => self.within != Within::Nothing,
            (Shape::Lines | Shape::Unknown, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows_of(text: &str) -> Result<FileRows> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        std::fs::write(&path, text).unwrap();
        FileRows::open(&path)
    }

    fn texts(text: &str) -> Vec<String> {
        let rows = rows_of(text).unwrap();
        (0..rows.len()).map(|row| rows.text(row).unwrap()).collect()
    }

    #[test]
    fn arrays_and_lines_give_the_same_rows() {
        let check = |text: &str, expected: &[&str]| assert_eq!(texts(text), expected, "{text:?}");
        check(r#"[{"a":1},{"b":[2,{"c":"]}"}]}]"#, &[r#"{"a":1}"#, r#"{"b":[2,{"c":"]}"}]}"#]);
        check(" [\n {\"a\":\"\\\"{\"} ,\n {}\n]\n", &["{\"a\":\"\\\"{\"}", "{}"]);
        check("{\"a\":1}\n\n{\"b\":2}\r\n", &["{\"a\":1}", "{\"b\":2}\r"]);
        check("{\"a\":1}\n{\"b\":2}", &["{\"a\":1}", "{\"b\":2}"]);
        check("[]", &[]);
        check("\u{feff}[{}]", &["{}"]);
    }

    #[test]
    fn a_cut_array_keeps_its_whole_rows_and_says_so() {
        let rows = rows_of(r#"[{"a":1},{"b":"#).unwrap();
        assert_eq!((rows.len(), rows.is_cut()), (1, true));
        assert!(!rows_of("[{}]").unwrap().is_cut());
    }

    #[test]
    fn empty_files_and_other_formats_are_refused_with_their_name() {
        let refusal = |text: &str| rows_of(text).unwrap_err().to_string();
        assert!(refusal("").ends_with("it is empty"));
        assert!(refusal(" \n ").ends_with("it is empty"));
        assert!(refusal("id,text\n").contains("line 1: it is neither a JSON array nor JSON lines"));
        assert!(refusal("PAR1\u{15}").contains("`--dataset-name hf`"));
    }

    #[test]
    fn lines_of_rows_are_counted_from_one() {
        let rows = rows_of("[\n{\"a\":1},\n\n{\"b\":2}]").unwrap();
        assert_eq!((rows.line(0), rows.line(1)), (2, 4));
    }

    proptest! {
        #[test]
        fn splitting_a_file_anywhere_changes_nothing(
            values in proptest::collection::vec("[\"\\\\{}\\[\\]a, \n]{0,12}", 0..6),
            block in 1_usize..9,
        ) {
            let rows: Vec<_> = values.iter().map(|v| serde_json::json!({ "v": v }).to_string()).collect();
            let text = format!("[{}]", rows.join(", "));
            let mut scan = Scan::default();
            for piece in text.as_bytes().chunks(block) {
                scan.feed(piece).unwrap();
            }
            prop_assert!(!scan.finish());
            let found: Vec<_> = scan.spans.iter().map(|span| {
                let start = usize::try_from(span.offset).unwrap();
                text[start..start + usize::try_from(span.bytes).unwrap()].to_owned()
            }).collect();
            prop_assert_eq!(found, rows);
        }
    }
}
