//! Result files of other tools: vLLM's JSON and SGLang's JSONL.
//!
//! Their folders are checked before the run: an hour of measuring must not end in a missing folder.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokometer_base::{Nanos, Seed};
use tokometer_campaign::probe;
use tokometer_compat::files::{
    APPEND_SEPARATOR, Extent, ResultFile, sglang_file_name, sglang_line, vllm_file_name, vllm_json,
};
use tokometer_plan::{Output, Plan, SglangResult, VllmResult};
use tokometer_record::{RunInfo, STDOUT, write_whole};
use tokometer_report::export::write_file;
use tokometer_schedule::{self as schedule, Arrivals, Offsets};

use super::SummarisedRun;
use crate::exit::{Refusal, RefusalKind};
use crate::files::try_append;
use crate::terminal::print;

/// Refuses files that cannot be written.
pub(crate) fn check(output: &Output) -> Result<(), Refusal> {
    if let Some(file) = &output.vllm_result {
        let folder = file.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        probe(&folder)
            .map_err(|refusal| refusal.hint("choose another place with `--result-dir`"))?;
        if let Some(name) = &file.filename {
            let path = folder.join(name);
            if !is_stdout(&path) {
                try_append(&path).map_err(|why| unwritable(&path, &why))?;
            }
        }
    }
    match output.sglang_result.as_ref().and_then(|file| file.file.as_ref()) {
        Some(path) => try_append(path).map_err(|why| unwritable(path, &why)),
        None => Ok(()),
    }
}

fn is_stdout(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == STDOUT)
}

fn open(path: &Path) -> Result<File, Refusal> {
    OpenOptions::new().create(true).append(true).open(path).map_err(|why| unwritable(path, &why))
}

/// Appends all of `bytes` or none of them: the results of earlier runs stay readable.
fn append(mut file: File, bytes: &[u8]) -> std::io::Result<()> {
    let before = file.metadata()?.len();
    file.write_all(bytes).inspect_err(|_| drop(file.set_len(before)))
}

fn unwritable(path: &Path, why: &std::io::Error) -> Refusal {
    Refusal::new(
        RefusalKind::Write,
        format!("cannot write the result file `{}`: {why}", path.display()),
    )
    .hint("choose another place with `--result-dir` or `--output-file`")
}

/// What is known of a run besides its record.
#[derive(Debug, Default)]
pub(crate) struct RunFacts {
    /// When the measured phase began; absent: it never began, or the run was in virtual time.
    pub(crate) begin: Option<Nanos>,
    /// SGLang's `/server_info`; absent: not requested, or no answer.
    pub(crate) server_info: Option<Value>,
}

/// Writes the files that the plan asks for. Returns their paths.
pub(crate) fn write(
    shown: &SummarisedRun,
    plan: &Plan,
    facts: &RunFacts,
) -> Result<Vec<PathBuf>, Refusal> {
    let mut workload = workload(plan);
    let mut written = Vec::new();
    if let Some(file) = &plan.output.vllm_result {
        let changes = facts.begin.and_then(|begin| rate_changes(plan, &shown.info, begin));
        let changes = changes.map(|changes| ("rps_change_events".to_owned(), changes.into()));
        written.push(write_vllm(shown, file, &changes.into_iter().collect())?);
    }
    if let Some(file) = &plan.output.sglang_result {
        let info = facts.server_info.clone();
        workload.extend(info.map(|info| ("server_info".to_owned(), info)));
        written.push(write_sglang(shown, file, &workload)?);
    }
    written.retain(|path| !is_stdout(path));
    Ok(written)
}

/// Each whole rate that a ramp reached and when, as vLLM's `rps_change_events`. `None` where the
/// load has no ramp over a known number of requests.
fn rate_changes(plan: &Plan, info: &RunInfo, begin: Nanos) -> Option<Vec<Value>> {
    let count = info.load.planned_requests.filter(|_| plan.load.ramp.is_some())?;
    let arrivals = plan.load.arrivals(plan.conventions);
    let Arrivals::Paced(pace) = arrivals else { return None };
    let extent = schedule::SendLimit { count: Some(count), duration: None };
    let mut offsets = Offsets::new(&arrivals, extent, Seed(plan.seed)).ok()?;
    let start = info.started.0 + (begin - info.origin).0;
    let last = count.saturating_sub(1).max(1) as f64;
    let mut reached = pace.curve.rate_at(0.0).floor();
    let mut changes = vec![change(reached, start)];
    for index in 0..count {
        let at = start + offsets.advance()?.0;
        let rate = pace.curve.rate_at(index as f64 / last).floor();
        while reached < rate {
            reached += 1.0;
            changes.push(change(reached, at));
        }
    }
    Some(changes)
}

fn change(rate: f64, wall_ns: u64) -> Value {
    let time = jiff::Timestamp::from_nanosecond(i128::from(wall_ns));
    let time = time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string());
    serde_json::json!({ "rps": rate, "timestamp": time.unwrap_or_default() })
}

type WorkloadKeys = Vec<(String, Value)>;

fn unmade(why: &tokometer_compat::Error) -> Refusal {
    Refusal::new(RefusalKind::Write, format!("cannot make the result file: {why}"))
}

/// A run as a result file, without a label.
pub(crate) fn result<'a>(
    shown: &'a SummarisedRun,
    workload: &'a [(String, Value)],
    extent: Extent,
) -> ResultFile<'a> {
    ResultFile {
        summary: &shown.summary,
        info: &shown.info,
        label: None,
        metadata: &[],
        shown: &shown.statistics,
        workload,
        extent,
    }
}

fn write_vllm(
    shown: &SummarisedRun,
    file: &VllmResult,
    workload: &WorkloadKeys,
) -> Result<PathBuf, Refusal> {
    let label = file.label.as_deref();
    let metadata = file.metadata.shown();
    let extent = if file.is_detailed { Extent::Requests } else { Extent::Run };
    let result = ResultFile { label, metadata: &metadata, ..result(shown, workload, extent) };
    let text = vllm_json(&result).map_err(|why| unmade(&why))?;
    let name = file.filename.clone().unwrap_or_else(|| vllm_file_name(&shown.info, label));
    let path = file.dir.clone().unwrap_or_default().join(name);
    let has_content = std::fs::metadata(&path).is_ok_and(|found| found.len() > 0);
    if is_stdout(&path) {
        print(&format!("{text}\n"))?;
        return Ok(path);
    }
    let written = if file.is_appended {
        let separator = if has_content { APPEND_SEPARATOR } else { "" };
        append(open(&path)?, format!("{separator}{text}").as_bytes())
    } else {
        write_whole(&path, text.as_bytes())
    };
    written.map(|()| path.clone()).map_err(|why| unwritable(&path, &why))
}

fn write_sglang(
    shown: &SummarisedRun,
    file: &SglangResult,
    workload: &WorkloadKeys,
) -> Result<PathBuf, Refusal> {
    let label = file.tag.as_deref();
    let extent = if file.is_detailed { Extent::Requests } else { Extent::Run };
    let result = ResultFile { label, ..result(shown, workload, extent) };
    let line = sglang_line(&result).map_err(|why| unmade(&why))?;
    let length = |name: &str| {
        workload.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.as_u64())
    };
    let lengths = length("random_input_len").zip(length("random_output_len"));
    let made =
        || PathBuf::from(sglang_file_name(&shown.info, shown.summary.counts.planned, lengths));
    let path = file.file.clone().unwrap_or_else(made);
    if is_stdout(&path) {
        print(&format!("{line}\n"))?;
        return Ok(path);
    }
    append(open(&path)?, format!("{line}\n").as_bytes())
        .map(|()| path.clone())
        .map_err(|why| unwritable(&path, &why))
}

/// Options of the workload under the names that the tools save them by.
fn workload(plan: &Plan) -> WorkloadKeys {
    let Ok(Value::Object(options)) = serde_json::to_value(&plan.workload) else {
        return Vec::new();
    };
    let name = plan.workload.name();
    let keys = ["input_len", "output_len", "range_ratio"];
    let prefix = if name.starts_with("random") { "random" } else { name };
    keys.into_iter()
        .filter_map(|key| Some((format!("{prefix}_{key}"), options.get(key)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect()
}

pub(crate) fn write_summary(shown: &SummarisedRun, folder: &Path) -> Result<(), Refusal> {
    let path = folder.join(tokometer_record::folder::names::SUMMARY);
    write_file(&path, &format!("{:#}\n", shown.json()))
}
