//! What the tests share.

use std::path::PathBuf;

use serde_json::Value;
use tokometer_figures::{Objectives, SummaryOptions};
use tokometer_plan::Plan;
use tokometer_record::RunInfo;

use crate::kept_events::KeptEvents;
use crate::outcome::{PlannedRun, RunRest};

/// A plan with random lengths, and these fields of its JSON changed.
pub(crate) fn plan(change: &str) -> Plan {
    let mut plan: Value =
        serde_json::from_str(include_str!("../../../fixtures/run/plan.json")).unwrap();
    let change: Value = serde_json::from_str(change).unwrap();
    for (field, value) in change.as_object().into_iter().flatten() {
        match (&mut plan[field], value) {
            (Value::Object(old), Value::Object(new)) if field != "workload" => {
                old.extend(new.clone());
            }
            (old, new) => *old = new.clone(),
        }
    }
    let mut info: RunInfo =
        serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap();
    info.plan = plan;
    Plan::of(&info).unwrap()
}

/// No figures besides the usual ones.
pub(crate) fn figures() -> SummaryOptions {
    SummaryOptions {
        percentiles: vec![50.0, 99.0],
        objectives: Objectives::default(),
        lenses: Vec::new(),
    }
}

/// A single run.
pub(crate) fn run() -> PlannedRun {
    PlannedRun {
        number: 0,
        label: String::new(),
        folder: PathBuf::from("run"),
        plan: plan("{}"),
        figures: figures(),
        kept_events: KeptEvents::Plain,
        rest: RunRest::None,
    }
}
