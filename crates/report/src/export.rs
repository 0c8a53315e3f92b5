//! Files made of saved runs: the trace, tables of requests, summaries.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tokometer_base::{Nanos, Refusal, RefusalKind};
use tokometer_record::{Timeline, WholeFile, stored, write_whole};

use crate::page_source::last;
#[cfg(feature = "parquet")]
use crate::parquet::ParquetTable;
use crate::reading::Reading;
use crate::rows::{CsvTable, JudgedTarget, RequestTable, TableRow, TableRun};
use crate::saved::RunView;
use crate::trace::TraceWriter;
use crate::{PageSource, summary_markdown};

/// Writes a file as a whole. The inner error is the file's.
pub fn exported<T, E: From<Refusal>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<io::Result<T>, E>,
) -> Result<T, E> {
    let unwritable = |why: io::Error| unwritable(path, &why);
    let mut file = WholeFile::create(path).map_err(unwritable)?;
    let mut rows = BufWriter::new(&mut file);
    let written = write(&mut rows)?.map_err(unwritable)?;
    rows.flush().map_err(unwritable)?;
    drop(rows);
    file.keep().map_err(unwritable)?;
    Ok(written)
}

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

pub fn csv(
    reading: Reading,
    sources: &[PageSource],
    view: &RunView,
    out: &Path,
) -> Result<(), Refusal> {
    let failed = |why: io::Error| unwritable(out, &why);
    let mut file = WholeFile::create(out).map_err(failed)?;
    let mut table = CsvTable::new(BufWriter::new(&mut file)).map_err(failed)?;
    fill(&mut table, reading, sources, view, failed)?;
    table.finish().and_then(|()| file.keep()).map_err(failed)
}

#[cfg(feature = "parquet")]
pub fn parquet(
    reading: Reading,
    sources: &[PageSource],
    view: &RunView,
    out: &Path,
) -> Result<(), Refusal> {
    let failed = |why: io::Error| unwritable(out, &why);
    let mut file = WholeFile::create(out).map_err(failed)?;
    let mut table = ParquetTable::new(&mut file).map_err(failed)?;
    fill(&mut table, reading, sources, view, failed)?;
    table.finish().and_then(|()| file.keep()).map_err(failed)
}

#[cfg(not(feature = "parquet"))]
pub fn parquet(
    _reading: Reading,
    _sources: &[PageSource],
    _view: &RunView,
    out: &Path,
) -> Result<(), Refusal> {
    Err(Refusal::usage(
        format!("cannot write `{}`: this build does not support Parquet", out.display()),
        "build with the feature `parquet`, or use `--csv` instead",
    ))
}

/// Puts the requests of all runs into a table. The record of a run is read twice: its verdict stands in
/// each row.
fn fill(
    table: &mut dyn RequestTable,
    reading: Reading,
    sources: &[PageSource],
    view: &RunView,
    failed: impl Fn(io::Error) -> Refusal,
) -> Result<(), Refusal> {
    for source in sources {
        for folder in &source.runs {
            let shown = reading.summarise(folder, view)?;
            let reader = stored::open(folder)?;
            let sides = [Some(&shown), shown.against().map(|(other, _)| other)];
            let judged = sides.into_iter().flatten();
            let judged = judged.map(|side| JudgedTarget::of(&side.info, &side.summary));
            let run = TableRun {
                source: source.name.clone(),
                name: last(folder),
                begin: stored::measure_begin(&reader)?,
                load: shown.info.load.clone(),
                judged: judged.collect(),
            };
            for timeline in stored::timelines(&reader)? {
                table.push(TableRow { run: &run, timeline: &timeline }).map_err(&failed)?;
            }
        }
    }
    Ok(())
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
