//! The rows of a trace file, one after the other, in memory that does not grow with the file.
//!
//! JSON lines, a JSON array, objects written over several lines, or a table with a header; plain or
//! compressed with gzip. Whether a row is valid is for the reader of its form to say.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use csv::StringRecord;
use flate2::read::MultiGzDecoder;
use memchr::{memchr, memchr2};

use crate::input;

const BLOCK_BYTES: usize = 256 << 10;

/// One row as it is written.
#[derive(Clone, Copy)]
pub(super) enum Row<'a> {
    Json(&'a [u8]),
    Cells(&'a Cells),
}

/// A row of a table, with the names of its columns in lower case.
pub(super) struct Cells {
    pub(super) header: Vec<String>,
    pub(super) record: StringRecord,
}

impl Cells {
    /// What stands in a column. `None` where it is absent or empty.
    pub(super) fn cell(&self, name: &str) -> Option<&str> {
        let at = self.header.iter().position(|column| column == name)?;
        self.record.get(at).map(str::trim).filter(|cell| !cell.is_empty())
    }
}

pub(super) enum Rows {
    Json(JsonRows),
    Table {
        reader: csv::Reader<Box<dyn Read + Send>>,
        cells: Cells,
        /// Lines that the reader counts too few: where they end in `\r\n`, it stops between the two.
        uncounted: u64,
    },
}

impl Rows {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::of(bytes(path)?)
    }

    pub(super) fn of(mut from: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut start = vec![0; 4 << 10];
        let mut read = 0;
        while read < start.len() {
            match from.read(&mut start[read..])? {
                0 => break,
                more => read += more,
            }
        }
        start.truncate(read);
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
        let first = text.trim_ascii_start().first();
        let is_json = first.is_none_or(|byte| b"[{".contains(byte));
        let is_crlf = memchr(b'\n', text).is_some_and(|end| text[..end].ends_with(b"\r"));
        let from: Box<dyn Read + Send> = Box::new(io::Cursor::new(text.to_vec()).chain(from));
        if is_json {
            return Ok(Self::Json(JsonRows::new(from)));
        }
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(from);
        let header = reader.headers()?.iter().map(|name| name.trim().to_lowercase()).collect();
        let cells = Cells { header, record: StringRecord::new() };
        Ok(Self::Table { reader, cells, uncounted: u64::from(is_crlf) })
    }

    /// The next row and its line, counted from 1. The inner error is that of one row, behind which reading
    /// can go on.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Result<Row<'_>, String>)>> {
        match self {
            Self::Json(rows) => Ok(rows.next()?.map(|(line, row)| (line, Ok(Row::Json(row))))),
            Self::Table { reader, cells, uncounted } => {
                let line = reader.position().line() + *uncounted;
                match reader.read_record(&mut cells.record) {
                    Ok(false) => Ok(None),
                    Ok(true) => Ok(Some((line, Ok(Row::Cells(cells))))),
                    Err(why) if why.is_io_error() => Err(why.into()),
                    Err(why) => Ok(Some((line, Err(why.to_string())))),
                }
            }
        }
    }
}

fn bytes(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    if is_file {
        let mut start = Vec::new();
        let _read = File::open(path)?.take(2).read_to_end(&mut start)?;
        if start == [0x1f, 0x8b] {
            let file = BufReader::with_capacity(BLOCK_BYTES, File::open(path)?);
            return Ok(Box::new(MultiGzDecoder::new(file)));
        }
    }
    Ok(Box::new(input::open(path)?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Unknown,
    /// A value on each line: what is wrong with one row ends with it.
    Lines,
    /// The elements of an array, or objects that span lines.
    Values,
}

/// Rows of JSON text.
pub(super) struct JsonRows {
    from: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were given out.
    taken: usize,
    line: u64,
    layout: Layout,
    is_end: bool,
}

impl JsonRows {
    fn new(from: Box<dyn Read + Send>) -> Self {
        let layout = Layout::Unknown;
        Self { from, buffer: Vec::new(), taken: 0, line: 1, layout, is_end: false }
    }

    fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if self.layout == Layout::Unknown {
            self.layout = self.layout()?;
        }
        let is_lines = self.layout == Layout::Lines;
        if !self.skip(|byte| byte.is_ascii_whitespace() || (!is_lines && b",[]".contains(&byte)))? {
            return Ok(None);
        }
        let line = self.line;
        let length = if is_lines { self.line_length()? } else { self.value_length()? };
        let row = &self.buffer[self.taken..self.taken + length];
        self.line += memchr::memchr_iter(b'\n', row).count() as u64;
        self.taken += length;
        Ok(Some((line, row)))
    }

    fn layout(&mut self) -> io::Result<Layout> {
        if !self.skip(|byte| byte.is_ascii_whitespace())? || self.buffer[self.taken] == b'[' {
            return Ok(Layout::Values);
        }
        let length = self.value_length()?;
        let is_line = memchr(b'\n', &self.buffer[self.taken..self.taken + length]).is_none();
        Ok(if is_line || self.is_end { self.lines_unless_whole(length) } else { Layout::Values })
    }

    /// A value that ends the file is whole however it is written; otherwise a damaged first line would be taken
    /// for one that spans the file.
    fn lines_unless_whole(&self, length: usize) -> Layout {
        let value = &self.buffer[self.taken..self.taken + length];
        let spans_lines = memchr(b'\n', value).is_some();
        if spans_lines && value.ends_with(b"}") { Layout::Values } else { Layout::Lines }
    }

    /// Passes over bytes; says whether another one follows.
    fn skip(&mut self, is_blank: impl Fn(u8) -> bool) -> io::Result<bool> {
        loop {
            while let Some(byte) = self.buffer.get(self.taken) {
                if !is_blank(*byte) {
                    return Ok(true);
                }
                self.line += u64::from(*byte == b'\n');
                self.taken += 1;
            }
            if !self.fill()? {
                return Ok(false);
            }
        }
    }

    fn line_length(&mut self) -> io::Result<usize> {
        let mut seen = 0;
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(length) = memchr(b'\n', &rest[seen..]) {
                return Ok(seen + length);
            }
            seen = rest.len();
            if !self.fill()? {
                return Ok(seen);
            }
        }
    }

    /// The length of the value that begins here; of the rest, where it is cut.
    fn value_length(&mut self) -> io::Result<usize> {
        let (mut scan, mut seen) = (ValueScan::default(), 0);
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(length) = scan.end(rest, &mut seen) {
                return Ok(length);
            }
            if !self.fill()? {
                return Ok(self.buffer.len() - self.taken);
            }
        }
    }

    /// Reads more; says whether there was more.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + BLOCK_BYTES, 0);
        let read = self.from.read(&mut self.buffer[filled..])?;
        self.buffer.truncate(filled + read);
        self.is_end = read == 0;
        Ok(read > 0)
    }
}

/// Finds the end of a value by its brackets and strings.
#[derive(Default)]
struct ValueScan {
    depth: u32,
    is_text: bool,
}

impl ValueScan {
    /// The length of the value, if it ends within these bytes; `seen` of them were looked at before.
    fn end(&mut self, bytes: &[u8], seen: &mut usize) -> Option<usize> {
        while *seen < bytes.len() {
            if self.is_text {
                let Some(length) = memchr2(b'"', b'\\', &bytes[*seen..]) else {
                    *seen = bytes.len();
                    return None;
                };
                let at = *seen + length;
                if bytes[at] == b'\\' {
                    // The escaped byte may not have been read yet.
                    *seen = at;
                    bytes.get(at + 1)?;
                    *seen = at + 2;
                } else {
                    *seen = at + 1;
                    self.is_text = false;
                }
                continue;
            }
            let byte = bytes[*seen];
            *seen += 1;
            match byte {
                b'"' => self.is_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(*seen);
                    }
                }
                // Something else than an object or a list is a row that its reader refuses.
                b'\n' | b',' if self.depth == 0 => return Some(*seen),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a text in pieces of a few bytes.
    struct Trickle(io::Cursor<Vec<u8>>, usize);

    impl Read for Trickle {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(into.len());
            self.0.read(&mut into[..most])
        }
    }

    fn rows_in_pieces(text: &str, piece: usize) -> Vec<(u64, String)> {
        let from = Box::new(Trickle(io::Cursor::new(text.as_bytes().to_vec()), piece));
        let mut rows = Rows::of(from).unwrap();
        let mut found = Vec::new();
        while let Some((line, row)) = rows.next().unwrap() {
            let text = match row.unwrap() {
                Row::Json(row) => String::from_utf8_lossy(row).trim_end().to_owned(),
                Row::Cells(cells) => cells.record.iter().collect::<Vec<_>>().join("|"),
            };
            found.push((line, text));
        }
        found
    }

    fn rows(text: &str) -> Vec<(u64, String)> {
        rows_in_pieces(text, usize::MAX)
    }

    fn lines(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
        expected.iter().map(|(line, row)| (*line, (*row).to_owned())).collect()
    }

    #[test]
    fn every_way_of_writing_rows_gives_them_with_their_lines() {
        assert_eq!(rows("{\"a\":1}\r\n\n{\"b\":2}"), lines(&[(1, "{\"a\":1}"), (3, "{\"b\":2}")]));
        assert_eq!(rows("[{\"a\":\"]\"},\n {}]\n"), lines(&[(1, "{\"a\":\"]\"}"), (2, "{}")]));
        assert_eq!(rows("{\n\"a\":1\n}\n{\n}\n"), lines(&[(1, "{\n\"a\":1\n}"), (4, "{\n}")]));
        assert_eq!(rows("{\n\"a\":1\n}"), lines(&[(1, "{\n\"a\":1\n}")]));
        assert_eq!(rows("\u{feff}a,b\r\n1,2\r\n3,4"), lines(&[(2, "1|2"), (3, "3|4")]));
        assert_eq!(rows("a,b\n1,2\n3,4\n"), lines(&[(2, "1|2"), (3, "3|4")]));
        assert_eq!(rows(""), []);
        assert_eq!(rows("[]"), []);
    }

    /// One damaged line took all that follow with it.
    #[test]
    fn a_damaged_line_ends_with_its_line() {
        let found = rows("{\"a\":1}\n{\"b\":\n{\"c\":3}\n");
        assert_eq!(found, lines(&[(1, "{\"a\":1}"), (2, "{\"b\":"), (3, "{\"c\":3}")]));
    }

    proptest! {
        #[test]
        fn splitting_a_file_anywhere_changes_nothing(
            values in proptest::collection::vec("[\"\\\\{}\\[\\]a, \n]{0,12}", 0..6),
            piece in 1_usize..9,
            shape in 0..3,
        ) {
            let value = |text: &String| serde_json::json!({ "v": text }).to_string();
            let expected: Vec<String> = values.iter().map(value).collect();
            let text = match shape {
                0 => expected.join("\n"),
                1 => format!("[{}]", expected.join(", ")),
                _ => expected.join("\n").replace("{\"v\":", "{\n\"v\":"),
            };
            let found = rows_in_pieces(&text, piece);
            let found: Vec<String> =
                found.into_iter().map(|(_, row)| row.replace("{\n", "{")).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
