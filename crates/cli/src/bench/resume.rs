//! Whether a stored run can stand for a run of this plan.

use std::path::Path;

use tokometer_plan::{Plan, first_change};

use crate::exit::Refusal;
use crate::runs;

/// Refuses to count a stored run as one of `plan` when it measured something else: the table of a
/// sweep would mix two measurements.
pub(crate) fn check(folder: &Path, plan: &Plan) -> Result<(), Refusal> {
    let shown = folder.display();
    let refused = |why: String| {
        Refusal::usage(
            format!("cannot resume `{shown}`: {why}"),
            "use the flags of the stored run, choose another `--run-dir`, or replace the stored runs with `--overwrite`",
        )
    };
    let stored = Plan::of(runs::open(folder)?.info()).map_err(|why| refused(why.to_string()))?;
    let Some(line) = first_change(&stored, plan).map_err(|why| refused(why.to_string()))? else {
        return Ok(());
    };
    let [there, here] = line.words();
    let field = &line.field;
    Err(refused(format!("it has another plan: {field} is {there} there and {here} here")))
}

#[cfg(test)]
mod tests {
    use tokometer_base::Partial as _;
    use tokometer_plan::PartialPlan;
    use tokometer_record::{RunInfo, RunWriter};

    use super::*;
    use crate::exit::Exit;
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
                assert_eq!(refusal.exit, Exit::Usage);
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
        let other = "load = { max_concurrency = 2 }";
        check(other, Some("load.max_concurrency is not set there and 2 here"));
    }
}
