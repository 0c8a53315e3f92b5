//! What the tests share.

use std::path::PathBuf;

use serde_json::Value;
use tokometer_base::Nanos;
use tokometer_decide::Slo;
use tokometer_decide::capacity::LoadKind;
use tokometer_figures::SummaryOptions;
use tokometer_plan::Plan;
use tokometer_record::RunInfo;

use crate::kept_events::KeptEvents;
use crate::outcome::{PlannedRun, RunRest};
use crate::{SearchBounds, SearchSetting};

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
    SummaryOptions { percentiles: vec![50.0, 99.0], ..SummaryOptions::default() }
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

/// A search for the highest rate, by 12 points or within a time.
pub(crate) fn search_setting(budget: Option<Nanos>) -> SearchSetting {
    let slo_text = "p99 ttft < 2s".to_owned();
    let slo = Slo::parse(&slo_text).unwrap();
    let mut figures = figures();
    figures.objectives = slo.request_limits();
    SearchSetting {
        slo,
        slo_text,
        over: LoadKind::RequestRate,
        start: None,
        most: 4_096.0,
        resolution: 0.05,
        points: budget.is_none().then_some(12),
        bounds: SearchBounds {
            longest: budget.is_none().then_some(Nanos::from_secs(60)),
            ..SearchBounds::default()
        },
        gpus: None,
        budget,
        begin: Nanos::ZERO,
        plan: plan("{}"),
        folder: "search".into(),
        figures,
        kept_events: KeptEvents::Plain,
        stairs: None,
    }
}
