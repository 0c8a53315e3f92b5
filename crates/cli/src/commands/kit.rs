//! Files for the tools that collect results: the InferenceX kit and llm-d.

use std::path::{Path, PathBuf};

use tokometer_compat::files::{
    Extent, LlmdContext, ResultFile, UnixWindow, inferencex_aggregate, inferencex_json, llm_d_json,
    llm_d_percentiles,
};
use tokometer_figures::Family;
use tokometer_plan::Metrics;
use tokometer_record::{RunReader, RunState};
use tokometer_report::export::write_file;

use crate::args::ReportArgs;
use crate::bench::{RunView, SummarisedRun, result_file};
use crate::exit::{Refusal, RefusalKind};
use crate::lower::sections;
use crate::runs::{self, READING};

/// Writes the files that were asked for. Returns their paths.
pub(crate) fn write(
    args: &ReportArgs,
    folder: &Path,
    metrics: &Metrics,
) -> Result<Vec<PathBuf>, Refusal> {
    let mut written = Vec::new();
    if args.inferencex.is_none() && args.llm_d.is_none() {
        return Ok(written);
    }
    let reader = runs::open(folder)?;
    let mut metrics = metrics.clone();
    metrics.sections = sections("ttft,tpot,itl,e2el")?;
    if args.llm_d.is_some() {
        metrics.percentiles.extend(llm_d_percentiles());
    }
    let view = RunView::new(&metrics)?.with_family(Family::OldVllm);
    let shown = READING.summarise_read(&reader, &view)?;
    if shown.against().is_some() {
        return Err(Refusal::usage(
            format!("cannot write `{}` as one result: it contains two targets", folder.display()),
            "measure each target in a run of its own",
        ));
    }
    let window = window(&reader)?;
    if let Some(out) = &args.inferencex {
        written.extend(inferencex(args, &shown, window, out)?);
    }
    if let Some(out) = &args.llm_d {
        let context = LlmdContext { window, gpus: args.gpus, metadata: &args.metadata };
        let report = llm_d_json(&shown.summary, &shown.info, &context).ok_or_else(|| {
            Refusal::usage(
                format!(
                    "cannot make a report for llm-d of `{}`: no request succeeded",
                    folder.display()
                ),
                "the report requires the length of the prompts",
            )
        })?;
        write_file(out, &report)?;
        written.push(out.clone());
    }
    Ok(written)
}

/// The client's result, and beside it the aggregate, where the number of GPUs is known.
fn inferencex(
    args: &ReportArgs,
    shown: &SummarisedRun,
    window: Option<UnixWindow>,
    out: &Path,
) -> Result<Vec<PathBuf>, Refusal> {
    if shown.info.load.max_concurrency.is_none() {
        return Err(Refusal::usage(
            "cannot write a result for InferenceX: the run has no limit on requests in flight",
            "measure with `--max-concurrency N --request-rate inf`, as the kit does",
        ));
    }
    let file = ResultFile { metadata: &args.metadata, ..result_file(shown, &[], Extent::Run) };
    let result = inferencex_json(&file, window).map_err(|why| {
        Refusal::new(RefusalKind::Write, format!("cannot make the result for InferenceX: {why}"))
    })?;
    write_file(out, &result)?;
    let mut written = vec![out.to_owned()];
    let aggregate = args.gpus.and_then(|gpus| inferencex_aggregate(&result, gpus, &args.metadata));
    if let Some(aggregate) = aggregate {
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let path = out.with_file_name(format!("agg_{name}"));
        write_file(&path, &aggregate)?;
        written.push(path);
    }
    Ok(written)
}

/// The measured phase on the wall clock; `None` for a run that was killed.
fn window(reader: &RunReader) -> Result<Option<UnixWindow>, Refusal> {
    let RunState::Ended(end) = reader.state().map_err(runs::unreadable)? else { return Ok(None) };
    let info = reader.info();
    let seconds = |at: tokometer_base::Nanos| {
        info.started.0 as f64 / 1e9 + at.signed_since(info.origin) as f64 / 1e9
    };
    Ok(Some((seconds(end.measure_begin), seconds(end.measure_end))))
}
