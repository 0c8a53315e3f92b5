//! Plan files are read here, because they may come from standard input.

use std::path::Path;

use tokometer_plan::{PartialPlan, resolve};

use crate::exit::{Refusal, reason};
use crate::{files, runs};

/// The variable whose key the run of this plan sent. `None` for a plan that is not a run's, or whose
/// run sent none.
pub(crate) fn key_variable(path: &Path) -> Option<String> {
    // Standard input has been read.
    if files::is_standard(path) {
        return None;
    }
    resolve::key_variable(&std::fs::read_to_string(path).ok()?)
}

pub(super) fn read(path: &Path) -> Result<PartialPlan, Refusal> {
    let refused = |why: &str, hint: &str| {
        Refusal::usage(format!("cannot read the plan `{}`: {why}", path.display()), hint)
    };
    if path.is_dir() {
        let run = runs::first_point(path).unwrap_or_else(|| path.to_owned());
        let hint = format!("the plan of a run is `{}`", run.join("plan.json").display());
        return Err(refused("it is a folder", &hint));
    }
    let text = files::read_text(path)
        .map_err(|why| refused(&reason(&why), "`--print-plan` shows a plan that can be saved"))?;
    resolve::plan_of(&text, path).map_err(|why| refused(&why, "`--print-plan` shows all fields"))
}
