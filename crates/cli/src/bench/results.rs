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

use super::SummarisedRun;
use crate::exit::{Refusal, RefusalKind};
use crate::files::try_append;
use crate::terminal::print;

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

#[derive(Debug, Default)]
pub(crate) struct RunFacts {
    /// When the measured phase began; absent: it never began, or the run was in virtual time.
    pub(crate) begin: Option<Nanos>,
    /// SGLang's `/server_info`; absent: not requested, or no answer.
    pub(crate) server_info: Option<Value>,
    /// Its number among the runs of its command; absent: there is no other.
    pub(crate) point: Option<u32>,
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
        let text = vllm_text(shown, file, &changes.into_iter().collect())?;
        written.push(write_vllm(shown, file, facts.point, &text)?);
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
    let count = info.load.planned_requests.filter(|_| info.load.ramp().is_some())?;
    let load = plan.load.stages.first()?.load;
    let mut offsets = plan.load.offsets(Some(count), plan.conventions, Seed(plan.seed)).ok()?;
    let start = info.started.0 + (begin - info.origin).0;
    let last = count.saturating_sub(1).max(1) as f64;
    let mut reached = load.rate_at(0.0).floor();
    let mut changes = vec![change(reached, start)];
    for index in 0..count {
        let at = start + offsets.advance()?.0;
        let rate = load.rate_at(index as f64 / last).floor();
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

fn vllm_text(
    shown: &SummarisedRun,
    file: &VllmResult,
    workload: &WorkloadKeys,
) -> Result<String, Refusal> {
    let metadata = file.metadata.shown();
    let extent = if file.is_detailed { Extent::Requests } else { Extent::Run };
    let result = ResultFile {
        label: file.label.as_deref(),
        metadata: &metadata,
        ..result(shown, workload, extent)
    };
    vllm_json(&result).map_err(|why| unmade(&why))
}

/// A name that the user gave is written as their tool does it, with a number where the command has several
/// points; a name that is made is that of a new file.
fn write_vllm(
    shown: &SummarisedRun,
    file: &VllmResult,
    point: Option<u32>,
    text: &str,
) -> Result<PathBuf, Refusal> {
    let name =
        file.filename.clone().unwrap_or_else(|| vllm_file_name(&shown.info, file.label.as_deref()));
    let mut path = file.dir.clone().unwrap_or_default().join(name);
    if is_stdout(&path) {
        print(&format!("{text}\n"))?;
        return Ok(path);
    }
    let written = if file.is_appended {
        let has_content = std::fs::metadata(&path).is_ok_and(|found| found.len() > 0);
        let separator = if has_content { APPEND_SEPARATOR } else { "" };
        append(open(&path)?, format!("{separator}{text}").as_bytes())
    } else {
        path = match (&file.filename, point) {
            (None, _) => claimed(&path).map_err(|why| unwritable(&path, &why))?,
            (Some(_), Some(point)) => numbered(&path, &format!("{point:03}")),
            (Some(_), None) => path,
        };
        write_whole(&path, text.as_bytes())
    };
    written.map(|()| path.clone()).map_err(|why| unwritable(&path, &why))
}

/// `x.json` as `x-001.json`.
fn numbered(path: &Path, number: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{number}");
    match path.extension() {
        Some(extension) => path.with_file_name(name).with_added_extension(extension),
        None => path.with_file_name(name),
    }
}

/// Creates the first unused file of this name: another run may have ended in the same second.
fn claimed(path: &Path) -> std::io::Result<PathBuf> {
    let others = (2..10_000_u32).map(|number| numbered(path, &number.to_string()));
    for candidate in std::iter::once(path.to_owned()).chain(others) {
        match File::create_new(&candidate) {
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => return created.map(|_| candidate),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Five runs that ended in one second left one file.
    #[test]
    fn a_made_name_is_that_of_a_new_file_and_a_given_one_has_the_point_s_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vllm-infqps-m1.5-20260131-094501.json");
        let made: std::collections::BTreeSet<PathBuf> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..5).map(|_| scope.spawn(|| claimed(&path).unwrap())).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert_eq!(made.len(), 5);
        assert!(made.contains(&path) && made.contains(&numbered(&path, "5")), "{made:?}");
        assert_eq!(numbered(Path::new("out/x.json"), "001"), Path::new("out/x-001.json"));
        assert_eq!(numbered(Path::new("x"), "001"), Path::new("x-001"));
    }
}
