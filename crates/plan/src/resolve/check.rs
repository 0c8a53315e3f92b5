//! Plans that make no sense are refused before anything is opened.

use std::path::Path;

use crate::Plan;
use tokometer_compat::LayoutChoice;
use tokometer_record::STDOUT;

use super::{constraints, figures, pooling, route};
use tokometer_base::Refusal;

/// Refuses a plan that makes no sense.
pub(crate) fn check(plan: &Plan) -> Result<(), Refusal> {
    plan.check()?;
    pooling::check(plan)?;
    constraints::check_canaries(plan)?;
    route::check(plan)?;
    let layout = &plan.metrics.layout;
    let _choice = LayoutChoice::named(layout).map_err(|why| Refusal::usage(why.to_string(), ""))?;
    for name in &plan.metrics.sections {
        let _section = figures::section(name)?;
    }
    if plan.output.run_dir.as_deref() == Some(Path::new(STDOUT)) {
        return Err(Refusal::usage(
            "cannot use `--run-dir -`: a run is a folder",
            "`--json` prints the summary, `--no-run-dir` keeps no record",
        ));
    }
    if !(1..=2).contains(&plan.targets.len()) {
        return Err(Refusal::usage(
            format!("cannot measure {} targets in one run", plan.targets.len()),
            "measure the targets one after the other",
        ));
    }
    Ok(())
}
