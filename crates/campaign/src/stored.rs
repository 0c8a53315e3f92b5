//! Runs that an earlier session has made, and whether they can stand for runs of this plan.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokometer_base::Nanos;
use tokometer_base::refusal::Refusal;
use tokometer_plan::{Plan, first_change};
use tokometer_record::stored::{end, unreadable};
use tokometer_record::{RunInfo, RunReader, Stop};
use tokometer_shards::SHARDS;
use tokometer_workload::fingerprint;

use crate::event::Observer;
use crate::executor::{Executor, RunRecord};
use crate::folder::held;
use crate::outcome::PlannedRun;

const HINT: &str = "use the flags of the stored run, choose another `--run-dir`, or replace the stored runs with `--overwrite`";

/// Answers from the folders of an earlier session, and has the rest made.
pub struct Stored {
    /// Makes what is not there.
    pub inner: Box<dyn Executor>,
    /// Ends after which a run need not be made again.
    pub finished: &'static [Stop],
}

impl Stored {
    fn has(&self, run: &PlannedRun) -> bool {
        end(&run.folder).is_some_and(|end| self.finished.contains(&end.stop))
    }
}

impl Executor for Stored {
    fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Result<RunRecord, Refusal> {
        if self.has(run) { RunRecord::open(&run.folder) } else { self.inner.run(run, observer) }
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn prepare(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Result<(), Refusal> {
        self.inner.recover(&run.folder, observer)
    }

    fn is_stored(&self, run: &PlannedRun) -> bool {
        self.has(run)
    }

    fn is_interrupted(&self) -> bool {
        self.inner.is_interrupted()
    }

    fn is_target_gone(&self) -> bool {
        self.inner.is_target_gone()
    }

    fn await_return(&mut self, observer: &mut dyn Observer) -> bool {
        self.inner.await_return(observer)
    }

    fn await_idle(&mut self) {
        self.inner.await_idle();
    }
}

/// Refuses stored runs that are no points of this sweep, or of another plan, before anything is measured.
pub fn check_stored_sweep(folder: &Path, runs: &[PlannedRun]) -> Result<(), Refusal> {
    check_points(folder, runs)?;
    for run in runs {
        // A run that was killed while it began is measured again, whatever it left.
        let Ok(reader) = RunReader::open(&run.folder) else { continue };
        check_stored_run(&run.folder, &run.plan)?;
        if run.folder == folder {
            check_whole(&reader)?;
        }
    }
    Ok(())
}

/// A single run has no finished points: to measure it again would only discard what it has.
fn check_whole(reader: &RunReader) -> Result<(), Refusal> {
    let folder = reader.folder();
    let is_whole = end(folder).is_some_and(|end| end.stop == Stop::Complete);
    let has_rows = reader.timelines().is_ok_and(|mut rows| rows.next().is_some());
    if is_whole || !has_rows {
        return Ok(());
    }
    let shown = folder.display();
    let message = format!(
        "cannot resume `{shown}`: it is a single run that ended early, and `--resume` keeps finished points"
    );
    Err(Refusal::usage(message, "measure it again in another `--run-dir`, or with `--overwrite`"))
}

/// A report of a folder with other runs would mix two measurements.
fn check_points(folder: &Path, runs: &[PlannedRun]) -> Result<(), Refusal> {
    let is_own = |held: &PathBuf| {
        runs.iter().any(|run| *held == run.folder || held.starts_with(run.folder.join(SHARDS)))
    };
    let Some(other) = held(folder).into_iter().find(|held| !is_own(held)) else {
        return Ok(());
    };
    let why = if other == folder {
        "it holds a single run, and this is a sweep".to_owned()
    } else {
        format!("it holds `{}`, which is not a point of this plan", other.display())
    };
    Err(Refusal::usage(format!("cannot resume `{}`: {why}", folder.display()), HINT))
}

/// Refuses to count a stored run as one of `plan` when it measured something else.
pub fn check_stored_run(folder: &Path, plan: &Plan) -> Result<(), Refusal> {
    let shown = folder.display();
    let refused = |why: String| Refusal::usage(format!("cannot resume `{shown}`: {why}"), HINT);
    let reader = RunReader::open(folder).map_err(unreadable)?;
    let stored = Plan::of(reader.info()).map_err(|why| refused(why.to_string()))?;
    let Some(line) = first_change(&stored, plan).map_err(|why| refused(why.to_string()))? else {
        return check_dataset(reader.info(), plan).map_err(refused);
    };
    let [there, here] = line.words();
    let field = &line.field;
    Err(refused(format!("it has another plan: {field} is {there} there and {here} here")))
}

/// One path may hold other rows by now. A run that recorded no fingerprint is not checked.
fn check_dataset(stored: &RunInfo, plan: &Plan) -> Result<(), String> {
    let Some(there) = stored.environment.get("dataset_fingerprint").and_then(Value::as_str) else {
        return Ok(());
    };
    match fingerprint(&plan.workload) {
        Some(here) if here != there => {
            Err(format!("the dataset's file has changed: {there} then, {here} now"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::refusal::RefusalKind;
    use tokometer_record::{
        AttemptId, Health, Phase, RequestedLengths, RunEnd, RunWriter, Timeline,
    };

    use super::*;
    use crate::testing;

    /// The record of an interrupted run was discarded.
    #[test]
    fn a_single_run_that_ended_early_is_not_resumed() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("run");
        let mut info: RunInfo =
            serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap();
        let run = PlannedRun { folder: folder.clone(), ..testing::run() };
        info.plan = serde_json::to_value(&run.plan).unwrap();
        let check = || check_stored_sweep(&folder, std::slice::from_ref(&run));
        let mut writer = RunWriter::create(&folder, &info).unwrap();
        writer.flush().unwrap();
        assert!(check().is_ok(), "nothing was sent");
        let identity = AttemptId::new(0, Phase::Measure);
        writer.push(Timeline::new(identity, RequestedLengths::default(), info.origin)).unwrap();
        writer.flush().unwrap();
        let refusal = check().unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Usage);
        assert!(refusal.to_string().contains("it is a single run that ended early"), "{refusal}");
        let end = |stop| RunEnd {
            stop,
            measure_begin: info.origin,
            measure_end: info.origin,
            abandoned: 0,
            never_sent: 0,
            health: Health::default(),
        };
        writer.end(&end(Stop::Interrupted)).unwrap();
        assert!(check().is_err());
        std::fs::write(folder.join("end.json"), serde_json::to_vec(&end(Stop::Complete)).unwrap())
            .unwrap();
        assert!(check().is_ok());
    }

    /// A resumed sweep once took every finished folder for one of its own points.
    #[test]
    fn the_first_difference_of_the_plans_is_named() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("run");
        let mut info: RunInfo =
            serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap();
        let plan = |change: &str| testing::plan(change);
        let check = |change: &str, expected: Option<&str>| {
            let found = check_stored_run(&folder, &plan(change)).map_err(|refusal| {
                assert_eq!(refusal.kind, RefusalKind::Usage);
                refusal.to_string()
            });
            match expected {
                None => assert_eq!(found.ok(), Some(()), "{change}"),
                Some(part) => assert!(found.clone().unwrap_err().contains(part), "{found:?}"),
            }
        };
        let write = |info: &RunInfo| {
            tokometer_record::folder::clear(&folder).unwrap();
            drop(RunWriter::create(&folder, info).unwrap());
        };
        std::fs::create_dir(&folder).unwrap();
        write(&info);
        check("{}", Some("cannot use the plan"));
        info.plan = serde_json::to_value(plan("{}")).unwrap();
        write(&info);
        check("{}", None);
        check(r#"{"name": "other", "output": {"shown": "json"}}"#, None);
        check(r#"{"seed": 9}"#, Some("there and 9 here"));
        let rows = above.path().join("rows.txt");
        std::fs::write(&rows, "one\ntwo\n").unwrap();
        let sonnet = format!(r#"{{"workload": {{"dataset": "sonnet", "path": {rows:?}}}}}"#);
        info.plan = serde_json::to_value(plan(&sonnet)).unwrap();
        info.environment =
            serde_json::json!({ "dataset_fingerprint": fingerprint(&plan(&sonnet).workload) });
        write(&info);
        check(&sonnet, None);
        std::fs::write(&rows, "one\nthree\n").unwrap();
        check(&sonnet, Some("the dataset's file has changed: 8 bytes"));
    }
}
