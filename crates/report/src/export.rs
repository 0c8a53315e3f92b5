//! Files made of saved runs: the trace, tables of requests, summaries.

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use tokometer_base::{Refusal, RefusalKind};
use tokometer_record::{WholeFile, stored, write_whole};

use crate::reading::Reading;
use crate::rows::CsvWriter;
use crate::saved::RunView;
use crate::summary_markdown;
use crate::trace::TraceWriter;

fn unwritable(path: &Path, why: &io::Error) -> Refusal {
    Refusal::new(RefusalKind::Write, format!("cannot write `{}`: {why}", path.display()))
}

/// A file that is complete or not there.
fn written(
    out: &Path,
    write: impl FnOnce(&mut WholeFile) -> io::Result<()>,
) -> Result<(), Refusal> {
    let whole = || {
        let mut file = WholeFile::create(out)?;
        write(&mut file)?;
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
    write_whole(out, parts.join("\n").as_bytes()).map_err(|why| unwritable(out, &why))
}

pub fn csv(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = stored::open(folder)?;
    let (timelines, begin) = (stored::timelines(&reader)?, stored::measure_begin(&reader)?);
    written(out, |file| {
        let mut writer = CsvWriter::new(BufWriter::new(file), begin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        writer.finish()
    })
}

#[cfg(feature = "parquet")]
pub fn parquet(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = stored::open(folder)?;
    let (timelines, begin) = (stored::timelines(&reader)?, stored::measure_begin(&reader)?);
    written(out, |file| {
        let mut writer = crate::parquet::ParquetWriter::new(file, begin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        writer.finish()
    })
}

#[cfg(not(feature = "parquet"))]
pub fn parquet(_folder: &Path, out: &Path) -> Result<(), Refusal> {
    Err(Refusal::usage(
        format!("cannot write `{}`: this build does not support Parquet", out.display()),
        "build with the feature `parquet`, or use `--csv` instead",
    ))
}

pub fn trace(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = stored::open(folder)?;
    let (timelines, begin) = (stored::timelines(&reader)?, stored::measure_begin(&reader)?);
    let scrapes = reader.scrapes().map_err(stored::unreadable)?;
    written(out, |file| {
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
