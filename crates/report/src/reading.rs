//! What every command reads: run folders, printed reports, result files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tokometer_base::Refusal;
use tokometer_base::refusal::reason;
use tokometer_compat::{Report, files};
use tokometer_decide::compare::Half;
use tokometer_figures::{Summary, SummaryOptions};
use tokometer_record::folder::names;
use tokometer_record::{RunReader, STDOUT, stored};

/// The path that stands for standard input.
const STDIN: &str = STDOUT;

#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The bytes of a file; of standard input for `-`.
    pub read: fn(&Path) -> io::Result<Vec<u8>>,
    /// Shows a message, such as one about a damaged record.
    pub show: fn(&str),
}

/// Damaged batches that are named one by one.
const DAMAGES_SHOWN: usize = 5;

impl Reading {
    /// The summary of a run: requests, scrapes and how it ended.
    pub fn summary(self, reader: &RunReader, options: &SummaryOptions) -> Result<Summary, Refusal> {
        let summary = Half::whole(reader, options)?.summary;
        self.show_damages(reader);
        Ok(summary)
    }

    pub(crate) fn show_damages(self, reader: &RunReader) {
        let damages = reader.take_damages();
        for damage in damages.iter().take(DAMAGES_SHOWN) {
            (self.show)(&format!("error: {damage}"));
        }
        if damages.len() > DAMAGES_SHOWN {
            let more = damages.len() - DAMAGES_SHOWN;
            (self.show)(&format!("error: cannot read {more} further batches"));
        }
        if !damages.is_empty() {
            (self.show)("  the figures are those of the other batches");
        }
    }
}

const SOURCES: &str = "give run folders, printed reports, or results of vLLM, SGLang, \
    AIPerf, GenAI-Perf, genai-bench, GuideLLM or inference-perf";

/// Whether the reports on standard input were read: given twice, they would be compared with themselves.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

impl Reading {
    /// The reports of a file, or of standard input; never none.
    pub fn reports(self, path: &Path) -> Result<Vec<Report>, Refusal> {
        let shown = if path == Path::new(STDIN) {
            "standard input".into()
        } else {
            path.display().to_string()
        };
        let unreadable =
            |why: String| Refusal::usage(format!("cannot read `{shown}`: {why}"), SOURCES);
        if path == Path::new(STDIN) && IS_TAKEN.swap(true, Ordering::Relaxed) {
            return Err(Refusal::usage(
                "cannot read reports from standard input twice: `-` was given more than once",
                "write the reports to files and name these",
            ));
        }
        let bytes = (self.read)(path).map_err(|why| unreadable(reason(&why)))?;
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
pub fn expanded(path: &Path) -> Result<Vec<PathBuf>, Refusal> {
    if !path.is_dir() || path.join(names::PLAN).is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let _readable = std::fs::read_dir(path).map_err(|why| {
        let message = format!("cannot read `{}`: {}", path.display(), reason(&why));
        Refusal::usage(message, SOURCES)
    })?;
    let runs = stored::points(path);
    // A folder without any run is opened as one, for the message that says what is missing.
    Ok(if runs.is_empty() { vec![path.to_owned()] } else { runs })
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;
    use tokometer_plan::ab_blocks;
    use tokometer_record::{Health, RunEnd, RunWriter, Stop, server};

    use super::*;
    use crate::testing::{READING, info};

    #[test]
    fn a_compressed_file_is_named_as_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bytes, hint) in
            [(&b"\x1f\x8b\x08\x00"[..], "zcat"), (b"no report here", "GuideLLM or inference-perf")]
        {
            std::fs::write(file.path(), bytes).unwrap();
            let refusal = READING.reports(file.path()).err().unwrap();
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

    /// Such a run was reported as one of a single target, with the requests of both mixed.
    #[test]
    fn a_run_of_two_targets_whose_plan_is_unreadable_is_refused() {
        let mut info = info();
        assert_eq!(ab_blocks(&info).unwrap(), None, "one target needs no plan");
        info.targets.push(info.targets[0].clone());
        info.plan = serde_json::json!({ "interleave": "?" });
        assert!(ab_blocks(&info).unwrap_err().to_string().contains("two targets"));
    }

    /// `compare` once left the scrapes out, so that its verdict could differ from the report's.
    #[test]
    fn a_summary_holds_what_was_scraped_and_how_the_run_ended() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("run");
        let mut writer = RunWriter::create(&folder, &info()).unwrap();
        let scrape = server::Scrape {
            at: Nanos::from_secs(1),
            endpoint: 0,
            values: [("vllm:num_requests_running".to_owned(), 3.0)].into(),
            error: None,
        };
        writer.scrape(&scrape).unwrap();
        let ended = RunEnd {
            stop: Stop::Complete,
            measure_begin: Nanos::ZERO,
            measure_end: Nanos::from_secs(2),
            abandoned: 0,
            never_sent: 1_000,
            health: Health::default(),
        };
        writer.finish(&ended).unwrap();
        let found =
            READING.summary(&stored::open(&folder).unwrap(), &SummaryOptions::default()).unwrap();
        assert_eq!(found.server.and_then(|server| server.running_max), Some(3.0));
        assert_eq!(found.counts.never_sent, 1_000);
        assert_eq!(stored::end(&folder), Some(ended));
    }
}
