//! Files made of saved runs: traces, tables, and their pages.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use tokometer_record::{WholeFile, write_whole};
use tokometer_report::html::PageContext;
use tokometer_report::rows::CsvWriter;
use tokometer_report::several;
use tokometer_report::trace::TraceWriter;
use tokometer_report::{PageSource, summary_markdown};

use crate::bench::{RunView, summarise};
use crate::exit::{Refusal, RefusalKind};
use crate::pages;
use crate::runs::{self, READING};

fn unwritable(path: &Path, why: &std::io::Error) -> Refusal {
    Refusal::new(RefusalKind::Write, format!("cannot write `{}`: {why}", path.display()))
}

/// Writes one page about these runs.
pub(crate) fn html(
    folders: &[PathBuf],
    view: &RunView,
    gpus: Option<u32>,
    out: &Path,
) -> Result<(), Refusal> {
    let context = PageContext { gpus, ..PageContext::default() };
    let sources = PageSource::of(folders, &[])?;
    pages::write(several::page(READING, &sources, view, &context)?, out)
}

/// Writes the summaries of these runs, one after the other.
pub(crate) fn markdown(folders: &[PathBuf], view: &RunView, out: &Path) -> Result<(), Refusal> {
    let mut parts = Vec::new();
    for folder in folders {
        let shown = summarise(folder, view)?;
        parts.push(summary_markdown(&shown.summary, &shown.info));
    }
    write_whole(out, parts.join("\n").as_bytes()).map_err(|why| unwritable(out, &why))
}

/// Writes one row per request as CSV.
pub(crate) fn csv(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = runs::open(folder)?;
    let timelines = runs::timelines(&reader)?;
    let begin = runs::measure_begin(&reader)?;
    let write = || -> std::io::Result<()> {
        let mut file = WholeFile::create(out)?;
        let mut writer = CsvWriter::new(BufWriter::new(&mut file), begin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        writer.finish()?;
        file.keep()
    };
    write().map_err(|why| unwritable(out, &why))
}

/// Writes one row per request as Parquet.
#[cfg(feature = "parquet")]
pub(crate) fn parquet(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = runs::open(folder)?;
    let timelines = runs::timelines(&reader)?;
    let begin = runs::measure_begin(&reader)?;
    let write = || -> std::io::Result<()> {
        let mut file = WholeFile::create(out)?;
        let mut writer = tokometer_report::parquet::ParquetWriter::new(&mut file, begin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        writer.finish()?;
        file.keep()
    };
    write().map_err(|why| unwritable(out, &why))
}

/// Refuses: this build has no Parquet support.
#[cfg(not(feature = "parquet"))]
pub(crate) fn parquet(_folder: &Path, out: &Path) -> Result<(), Refusal> {
    Err(Refusal::usage(
        format!("cannot write `{}`: this build does not support Parquet", out.display()),
        "build with the feature `parquet`, or use `--csv` instead",
    ))
}

/// Writes the trace of a run.
pub(crate) fn trace(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = runs::open(folder)?;
    let timelines = runs::timelines(&reader)?;
    let scrapes = reader.scrapes().map_err(runs::unreadable)?;
    let origin = runs::measure_begin(&reader)?;
    let write = || -> std::io::Result<()> {
        let mut file = WholeFile::create(out)?;
        let mut writer = TraceWriter::new(BufWriter::new(&mut file), origin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        for scrape in &scrapes {
            writer.push_scrape(scrape)?;
        }
        writer.finish()?.flush()?;
        file.keep()
    };
    write().map_err(|why| unwritable(out, &why))
}
