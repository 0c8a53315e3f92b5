//! Where reports come from: run folders, printed texts, result files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tokometer_base::printable;
use tokometer_compat::{Report, files};
use tokometer_record::folder::names;

use crate::bench::{RunView, SummarisedRun, summarise};
use crate::exit::{Refusal, reason};
use crate::input::{self, STDIN};
use crate::runs;

/// One thing that can be shown.
pub(crate) enum ReportSource {
    /// A run with its record.
    Run(Box<SummarisedRun>),
    /// Blocks of a text or a result file.
    Blocks(Vec<Report>),
}

impl ReportSource {
    /// Opens every path; a folder of runs gives each of them.
    pub(crate) fn open_all(
        paths: &[PathBuf],
        view: &RunView,
    ) -> Result<Vec<(String, Self)>, Refusal> {
        Self::open_each(paths, view).collect()
    }

    /// The same, with an error for each path that cannot be opened.
    pub(crate) fn open_each<'a>(
        paths: &'a [PathBuf],
        view: &'a RunView,
    ) -> impl Iterator<Item = Result<(String, Self), Refusal>> + 'a {
        let named = |path: PathBuf| {
            let source = Self::open(&path, view)?;
            // A name in the listing of a folder may contain line breaks.
            let name = match path.as_path() {
                path if path == Path::new(STDIN) => "standard input".to_owned(),
                path => printable::line(&path.display().to_string(), usize::MAX),
            };
            Ok((name, source))
        };
        paths.iter().flat_map(move |path| match expanded(path) {
            Ok(paths) => paths.into_iter().map(named).collect::<Vec<_>>(),
            Err(why) => vec![Err(why)],
        })
    }

    fn open(path: &Path, view: &RunView) -> Result<Self, Refusal> {
        if path.is_dir() {
            return summarise(path, view).map(|shown| Self::Run(Box::new(shown)));
        }
        read_reports(path).map(Self::Blocks)
    }

    /// Its blocks.
    pub(crate) fn reports(&self) -> Result<Vec<Report>, Refusal> {
        match self {
            Self::Run(shown) => Ok(vec![shown.report()?]),
            Self::Blocks(reports) => Ok(reports.clone()),
        }
    }
}

/// What can be read.
pub(crate) const SOURCES: &str = "give run folders, printed reports, or results of vLLM, SGLang, \
    AIPerf, GenAI-Perf, genai-bench, GuideLLM or inference-perf";

/// Whether the reports on standard input were read: given twice, they would be compared with themselves.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The reports of a file, or of standard input; never none.
pub(crate) fn read_reports(path: &Path) -> Result<Vec<Report>, Refusal> {
    let shown =
        if path == Path::new(STDIN) { "standard input".into() } else { path.display().to_string() };
    let unreadable = |why: String| Refusal::usage(format!("cannot read `{shown}`: {why}"), SOURCES);
    if path == Path::new(STDIN) && IS_TAKEN.swap(true, Ordering::Relaxed) {
        return Err(Refusal::usage(
            "cannot read reports from standard input twice: `-` was given more than once",
            "write the reports to files and name these",
        ));
    }
    let bytes = input::read(path).map_err(|why| unreadable(reason(&why)))?;
    let reports = files::read(&decoded(&bytes)).map_err(|why| unreadable(why.to_string()))?;
    if reports.is_empty() {
        let message = format!("cannot find a report in `{shown}`");
        if is_compressed(&bytes) {
            let hint = "it is compressed; unpack it, as in `zcat FILE | tokometer doctor -`";
            return Err(Refusal::usage(message, hint));
        }
        return Err(Refusal::usage(
            message,
            format!("a printed report starts with `= Serving Benchmark Result =`; {SOURCES}"),
        ));
    }
    Ok(reports)
}

/// Whether this is a file of gzip, Zstandard, xz, bzip2 or zip.
fn is_compressed(bytes: &[u8]) -> bool {
    const MARKS: [&[u8]; 5] =
        [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zXZ", b"BZh", b"PK\x03\x04"];
    MARKS.iter().any(|mark| bytes.starts_with(mark))
}

/// The text of a file. Windows shells redirect output as UTF-16; a byte that is no text costs only
/// itself.
fn decoded(bytes: &[u8]) -> String {
    let units = |of: fn([u8; 2]) -> u16| -> Vec<u16> {
        bytes[2..].chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect()
    };
    match bytes {
        [0xff, 0xfe, ..] => String::from_utf16_lossy(&units(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => String::from_utf16_lossy(&units(u16::from_be_bytes)),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// The runs below a folder that is not a run itself: the points of a sweep, in order.
pub(crate) fn expanded(path: &Path) -> Result<Vec<PathBuf>, Refusal> {
    if !path.is_dir() || path.join(names::PLAN).is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let _readable = std::fs::read_dir(path).map_err(|why| {
        let message = format!("cannot read `{}`: {}", path.display(), reason(&why));
        Refusal::usage(message, SOURCES)
    })?;
    let runs = runs::points(path);
    // A folder without any run is opened as one, for the message that says what is missing.
    Ok(if runs.is_empty() { vec![path.to_owned()] } else { runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_file_is_named_as_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bytes, hint) in
            [(&b"\x1f\x8b\x08\x00"[..], "zcat"), (b"no report here", "GuideLLM or inference-perf")]
        {
            std::fs::write(file.path(), bytes).unwrap();
            let refusal = read_reports(file.path()).err().unwrap();
            assert!(refusal.to_string().contains(hint), "{refusal}");
        }
    }

    #[test]
    fn text_in_any_encoding_is_decoded() {
        let text = "é = 1\n";
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(decoded(&[&[0xff, 0xfe][..], &le].concat()), text);
        assert_eq!(decoded(&[&[0xfe, 0xff][..], &be].concat()), text);
        assert_eq!(decoded(text.as_bytes()), text);
        assert_eq!(decoded(b"a\xffb"), "a\u{fffd}b");
    }
}
