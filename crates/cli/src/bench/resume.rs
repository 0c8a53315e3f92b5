//! Whether a stored run can stand for a run of this plan.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokometer_plan::{Plan, first_change};
use tokometer_record::RunInfo;
use tokometer_shards::SHARDS;
use tokometer_workload::fingerprint;

use super::folder::held;
use crate::exit::Refusal;
use crate::runs;

const HINT: &str = "use the flags of the stored run, choose another `--run-dir`, or replace the stored runs with `--overwrite`";

/// Refuses a folder with runs that are no points of the plan: a report of it would mix two measurements.
pub(crate) fn check_points(place: &Path, points: &[PathBuf]) -> Result<(), Refusal> {
    let is_own = |run: &PathBuf| {
        points.iter().any(|point| run == point || run.starts_with(point.join(SHARDS)))
    };
    let Some(other) = held(place).into_iter().find(|run| !is_own(run)) else {
        return Ok(());
    };
    let why = if other == place {
        "it holds a single run, and this is a sweep".to_owned()
    } else {
        format!("it holds `{}`, which is not a point of this plan", other.display())
    };
    Err(Refusal::usage(format!("cannot resume `{}`: {why}", place.display()), HINT))
}

/// Refuses to count a stored run as one of `plan` when it measured something else: the table of a
/// sweep would mix two measurements.
pub(crate) fn check(folder: &Path, plan: &Plan) -> Result<(), Refusal> {
    let shown = folder.display();
    let refused = |why: String| Refusal::usage(format!("cannot resume `{shown}`: {why}"), HINT);
    let reader = runs::open(folder)?;
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
    use tokometer_base::Partial as _;
    use tokometer_plan::PartialPlan;
    use tokometer_record::RunWriter;

    use super::*;
    use crate::exit::RefusalKind;
    use crate::lower;

    fn plan(change: &str) -> Plan {
        let mut part = PartialPlan::default();
        part.load.num_prompts = Some(Some(4));
        part.merge(toml::from_str(change).unwrap());
        lower::complete_part(part).unwrap()
    }

    /// A resumed sweep once took every finished folder for one of its own points.
    #[test]
    fn the_first_difference_of_the_plans_is_named() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        let mut info: RunInfo =
            serde_json::from_str(include_str!("../../../../fixtures/run/info.json")).unwrap();
        let check = |change: &str, expected: Option<&str>| {
            let found = check(&folder, &plan(change)).map_err(|refusal| {
                assert_eq!(refusal.kind, RefusalKind::Usage);
                refusal.to_string()
            });
            match expected {
                None => assert_eq!(found.ok(), Some(()), "{change}"),
                Some(part) => assert!(found.clone().unwrap_err().contains(part), "{found:?}"),
            }
        };
        drop(RunWriter::create(&folder, &info).unwrap());
        check("", Some("cannot use the plan"));
        info.plan = serde_json::to_value(plan("")).unwrap();
        drop(RunWriter::create(&folder, &info).unwrap());
        check("", None);
        check("name = \"other\"\noutput = { shown = \"json\" }", None);
        let other = "load = { max_concurrency = 2 }\nseed = 9";
        check(other, Some("seed is 0 there and 9 here"));
        let rows = place.path().join("rows.txt");
        std::fs::write(&rows, "one\ntwo\n").unwrap();
        let sonnet = format!("workload = {{ dataset = \"sonnet\", path = {rows:?} }}");
        info.plan = serde_json::to_value(plan(&sonnet)).unwrap();
        info.environment =
            serde_json::json!({ "dataset_fingerprint": fingerprint(&plan(&sonnet).workload) });
        drop(RunWriter::create(&folder, &info).unwrap());
        check(&sonnet, None);
        std::fs::write(&rows, "one\nthree\n").unwrap();
        check(&sonnet, Some("the dataset's file has changed: 8 bytes"));
        info.plan = serde_json::to_value(plan("")).unwrap();
        info.environment = serde_json::Value::Null;
        drop(RunWriter::create(&folder, &info).unwrap());
        let other = "load = { max_concurrency = 2 }";
        check(other, Some("load.max_concurrency is not set there and 2 here"));
    }
}
