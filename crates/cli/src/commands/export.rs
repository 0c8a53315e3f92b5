//! Files made of saved runs: pages, traces, tables.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use serde_json::json;
use tokometer_base::Nanos;
use tokometer_record::{RunInfo, RunReader, RunState};
use tokometer_report::html::{Curve, Page, RunPage, Table};
use tokometer_report::rows::CsvWriter;
use tokometer_report::summary_markdown;
use tokometer_report::trace::TraceWriter;

use crate::bench::{SummarisedRun, View, summarise};
use crate::exit::{Exit, Refusal};
use crate::runs;

fn unwritable(path: &Path, why: &std::io::Error) -> Refusal {
    Refusal::new(Exit::Write, format!("cannot write `{}`: {why}", path.display()))
}

/// When the measured phase began; the run's origin where its end is not known.
fn begin(reader: &RunReader) -> Result<Nanos, Refusal> {
    match reader.state().map_err(runs::unreadable)? {
        RunState::Ended(end) => Ok(end.measure_begin),
        RunState::Killed { .. } => Ok(reader.info().origin),
    }
}

/// More runs than this are shown by their curves alone: a page must open at once.
const RUNS_IN_FULL: usize = 4;

/// Writes one page about these runs.
pub(crate) fn html(
    folders: &[PathBuf],
    view: &View,
    gpus: Option<u32>,
    out: &Path,
) -> Result<(), Refusal> {
    let mut page = Page::default();
    let mut points = Vec::new();
    for folder in folders {
        let shown = summarise(folder, view)?;
        if folders.len() <= RUNS_IN_FULL {
            page.runs.push(run_page(folder, &shown)?);
        }
        points.push(shown);
    }
    page.title = match points.as_slice() {
        [only] => only.info.name.clone(),
        several => format!("{} runs", several.len()),
    };
    if points.len() > 1 {
        page.overview = Some(overview(&points));
        page.curves = curves(&points, gpus);
    }
    std::fs::write(out, page.render()).map_err(|why| unwritable(out, &why))
}

fn run_page(folder: &Path, shown: &SummarisedRun) -> Result<RunPage, Refusal> {
    let reader = runs::open(folder)?;
    let mut page = RunPage::new(shown.info.clone(), begin(&reader)?, shown.summary.clone());
    for timeline in runs::timelines(&reader)? {
        page.push(&timeline);
    }
    for scrape in reader.scrapes().map_err(runs::unreadable)? {
        page.push_scrape(scrape);
    }
    Ok(page)
}

/// Writes the summaries of these runs, one after the other.
pub(crate) fn markdown(folders: &[PathBuf], view: &View, out: &Path) -> Result<(), Refusal> {
    let mut parts = Vec::new();
    for folder in folders {
        let shown = summarise(folder, view)?;
        parts.push(summary_markdown(&shown.summary, &shown.info));
    }
    std::fs::write(out, parts.join("\n")).map_err(|why| unwritable(out, &why))
}

/// Writes one row per request as CSV.
pub(crate) fn csv(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = runs::open(folder)?;
    let timelines = runs::timelines(&reader)?;
    let begin = begin(&reader)?;
    let write = || -> std::io::Result<()> {
        let mut writer = CsvWriter::new(BufWriter::new(File::create(out)?), begin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        writer.finish()
    };
    write().map_err(|why| unwritable(out, &why))
}

/// Writes one row per request as Parquet.
#[cfg(feature = "parquet")]
pub(crate) fn parquet(folder: &Path, out: &Path) -> Result<(), Refusal> {
    let reader = runs::open(folder)?;
    let timelines = runs::timelines(&reader)?;
    let begin = begin(&reader)?;
    let write = || -> std::io::Result<()> {
        let file = BufWriter::new(File::create(out)?);
        let mut writer = tokometer_report::parquet::ParquetWriter::new(file, begin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        writer.finish()
    };
    write().map_err(|why| unwritable(out, &why))
}

/// Says that this build cannot.
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
    let origin = begin(&reader)?;
    let write = || -> std::io::Result<()> {
        let mut writer = TraceWriter::new(BufWriter::new(File::create(out)?), origin)?;
        for timeline in timelines {
            writer.push(&timeline)?;
        }
        for scrape in &scrapes {
            writer.push_scrape(scrape)?;
        }
        writer.finish().map(drop)
    };
    write().map_err(|why| unwritable(out, &why))
}

/// The load of a run as one number with its name.
fn load(info: &RunInfo) -> (f64, &'static str) {
    match (&info.load.request_rate, info.load.max_concurrency, info.load.planned_requests) {
        (Some(rate), _, _) => (*rate, "request rate, requests/s"),
        (None, Some(cap), _) => (f64::from(cap), "maximum requests in flight"),
        (None, None, Some(planned)) => (planned as f64, "simultaneous requests"),
        (None, None, None) => (f64::NAN, "load"),
    }
}

fn percentile(shown: &SummarisedRun, key: &str, percent: f64) -> Option<f64> {
    shown.summary.distribution(key)?.percentile(percent)?.value
}

fn overview(points: &[SummarisedRun]) -> Table {
    let rounded = |value: Option<f64>| json!(value.map(|value| (value * 100.0).round() / 100.0));
    let row = |shown: &SummarisedRun| {
        vec![
            json!(shown.info.name),
            rounded(Some(load(&shown.info).0)),
            json!(shown.summary.counts.succeeded),
            json!(shown.summary.counts.failed),
            rounded(shown.summary.figure("requests_per_s")),
            rounded(shown.summary.figure("output_tokens_per_s")),
            rounded(percentile(shown, "ttft_ms", 50.0)),
            rounded(percentile(shown, "ttft_ms", 99.0)),
            rounded(percentile(shown, "tpot_ms", 99.0)),
            json!(shown.summary.verdict),
        ]
    };
    let columns = [
        "run",
        "load",
        "answered",
        "failed",
        "req/s",
        "tok/s",
        "p50 TTFT ms",
        "p99 TTFT ms",
        "p99 TPOT ms",
        "verdict",
    ];
    Table { columns: columns.map(str::to_owned).to_vec(), rows: points.iter().map(row).collect() }
}

fn curves(points: &[SummarisedRun], gpus: Option<u32>) -> Vec<Curve> {
    let mut sorted: Vec<&SummarisedRun> = points.iter().collect();
    sorted.sort_by(|a, b| load(&a.info).0.total_cmp(&load(&b.info).0));
    let x_name = sorted.first().map_or("load", |first| load(&first.info).1);
    let column = |value: &dyn Fn(&SummarisedRun) -> Option<f64>| -> Vec<Option<f64>> {
        sorted.iter().map(|shown| value(shown)).collect()
    };
    let curve = |title: &str, y: &str, lines: Vec<(&str, Vec<Option<f64>>)>| {
        let (names, values): (Vec<&str>, Vec<_>) = lines.into_iter().unzip();
        let mut columns = vec![column(&|shown| Some(load(&shown.info).0))];
        columns.extend(values);
        Curve {
            title: title.to_owned(),
            x: x_name.to_owned(),
            y: y.to_owned(),
            names: names.into_iter().map(str::to_owned).collect(),
            columns,
            is_front: false,
        }
    };
    let latency = |key: &'static str| {
        vec![
            ("p50", column(&|shown| percentile(shown, key, 50.0))),
            ("p99", column(&|shown| percentile(shown, key, 99.0))),
        ]
    };
    let throughput = vec![("output", column(&|shown| shown.summary.figure("output_tokens_per_s")))];
    let share = f64::from(gpus.unwrap_or(1).max(1));
    let front: Vec<(f64, f64)> = sorted
        .iter()
        .filter_map(|shown| {
            let user = percentile(shown, "tokens_per_s_per_user", 50.0)?;
            Some((user, shown.summary.figure("output_tokens_per_s")? / share))
        })
        .collect();
    let y = if gpus.is_some() { "tokens/s per GPU" } else { "tokens/s" };
    vec![
        curve("Throughput over load", "tokens/s", throughput),
        curve("Time to first token over load", "ms", latency("ttft_ms")),
        curve("Time per output token over load", "ms", latency("tpot_ms")),
        Curve::front("Pareto front", ["tokens/s per user", y], front),
    ]
}
