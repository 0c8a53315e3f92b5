//! Files made of saved runs: the trace, tables of requests, summaries.

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use tokometer_base::{Nanos, Refusal, RefusalKind};
use tokometer_record::{Timeline, WholeFile, stored, write_whole};

#[cfg(feature = "parquet")]
use crate::parquet::write_parquet;
use crate::reading::Reading;
use crate::rows::write_csv;
use crate::saved::RunView;
use crate::summary_markdown;
use crate::trace::TraceWriter;

/// The refusal for a file that cannot be written.
pub fn unwritable(path: &Path, why: &io::Error) -> Refusal {
    Refusal::new(RefusalKind::Write, format!("cannot write `{}`: {why}", path.display()))
}

/// Writes a file that is complete or not there.
pub fn write_file(path: &Path, text: &str) -> Result<(), Refusal> {
    write_whole(path, text.as_bytes()).map_err(|why| unwritable(path, &why))
}

/// Writes something of a run's requests; its measured phase began at the given time.
fn written(
    folder: &Path,
    out: &Path,
    write: impl FnOnce(&mut WholeFile, Nanos, &mut dyn Iterator<Item = Timeline>) -> io::Result<()>,
) -> Result<(), Refusal> {
    let reader = stored::open(folder)?;
    let (mut timelines, begin) = (stored::timelines(&reader)?, stored::measure_begin(&reader)?);
    let whole = || {
        let mut file = WholeFile::create(out)?;
        write(&mut file, begin, &mut timelines)?;
        file.keep()
    };
    whole().map_err(|why| unwritable(out, &why))
}

pub fn markdown(
    reading: Reading,
    folders: &[PathBuf],
    view: &RunView,
    out: &Path,
) -> Result<(), Refusal> {
    let mut parts = Vec::new();
    for folder in folders {
        let shown = reading.summarise(folder, view)?;
        parts.push(summary_markdown(&shown.summary, &shown.info));
    }
    write_file(out, &parts.join("\n"))
}

pub fn csv(folder: &Path, out: &Path) -> Result<(), Refusal> {
    written(folder, out, |file, begin, rows| write_csv(BufWriter::new(file), begin, rows))
}

#[cfg(feature = "parquet")]
pub fn parquet(folder: &Path, out: &Path) -> Result<(), Refusal> {
    written(folder, out, |file, begin, rows| write_parquet(file, begin, rows))
}

#[cfg(not(feature = "parquet"))]
pub fn parquet(_folder: &Path, out: &Path) -> Result<(), Refusal> {
    Err(Refusal::usage(
        format!("cannot write `{}`: this build does not support Parquet", out.display()),
        "build with the feature `parquet`, or use `--csv` instead",
    ))
}

pub fn trace(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let scrapes = stored::open(folder)?.scrapes().map_err(stored::unreadable)?;
    written(folder, out, |file, begin, timelines| {
        let mut writer = TraceWriter::new(BufWriter::new(file), begin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        for scrape in &scrapes {
            writer.push_scrape(scrape)?;
        }
        writer.finish()?.flush()
    })
}
