//! The whole of a measurement.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_base::partial::Incomplete;
use tokometer_base::{Conventions, Partial, Refusal, Seed};
use tokometer_decide::AbBlocks;
use tokometer_decide::compare::{BlockChange, BlockOrder};
use tokometer_record as record;
use tokometer_workload as workload;

use crate::canary::{CanaryPlan, PartialCanaryPlan};
use crate::classes::{Class, ClassOrder, PartialClass};
use crate::client::{Client, PartialClient};
use crate::interleave::{Interleave, PartialInterleave, TurnOrder};
use crate::load::{Load, PartialLoad};
use crate::metrics::{Metrics, PartialMetrics};
use crate::output::{Output, PartialOutput};
use crate::phases::{PartialPhases, Phases};
use crate::prompts::{PartialPrompts, Prompts};
use crate::renamed::with_keys_of_today;
use crate::request::{PartialRequest, Request};
use crate::sweep::{Axis, PlanSection};
use crate::target::{PartialTarget, Target};

tokometer_base::partial! {
    /// A whole measurement: one run, or one run per point of a sweep.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Plan / PartialPlan {
        /// Name of the run, part of its folder's name.
        pub name: String,
        /// The tool whose conventions apply where vLLM and SGLang differ.
        pub conventions: Conventions,
        /// Root of lengths and arrivals.
        pub seed: u64,
        pub content: Content,
        pub targets: Vec<Target> as Vec<PartialTarget>,
        pub workload: workload::Spec as workload::PartialSpec,
        pub prompts: Prompts as PartialPrompts,
        pub load: Load as PartialLoad,
        /// What parts of the requests carry. Empty: all carry the same.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub classes: Vec<Class> as Vec<PartialClass>,
        #[serde(skip_serializing_if = "ClassOrder::is_drawn")]
        pub class_order: ClassOrder = ClassOrder::Drawn,
        pub phases: Phases as PartialPhases,
        pub request: Request as PartialRequest,
        pub client: Client as PartialClient,
        pub metrics: Metrics as PartialMetrics,
        pub output: Output as PartialOutput,
        /// Fields that take several values. Empty for a single run.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub sweep: Vec<Axis> = Vec::new(),
        /// How two targets take turns; absent for a plan with one target.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub interleave: Option<Interleave> as Option<PartialInterleave>,
        /// Prompts with known answers beside the load; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub canary: Option<CanaryPlan> as Option<PartialCanaryPlan>,
        /// Parts with a heading and values of their own. Empty for a plan without parts.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub sections: Vec<PlanSection> = Vec::new(),
    }
}

impl Plan {
    /// The plan that a run was made by. An older record lacks fields that plans have got since; they
    /// take their defaults.
    pub fn of(info: &record::RunInfo) -> Result<Self, Error> {
        Ok(PartialPlan::of_run(info)?.complete()?)
    }

    /// The plan as a record holds it: without keys, and with numbers as they are written.
    pub fn as_stored(&self) -> Result<Self, Error> {
        let unreadable = |why: serde_json::Error| Error::Record(why.to_string());
        let text = serde_json::to_string(self).map_err(unreadable)?;
        Ok(PartialPlan::from_json(&text).map_err(unreadable)?.complete()?)
    }

    /// The blocks in which its two targets take turns; `None` for a plan with one target.
    pub fn ab_blocks(&self) -> Option<AbBlocks> {
        let turns = self.interleave.as_ref()?;
        let block = turns.block_requests;
        let order = match turns.order {
            TurnOrder::Abba => BlockOrder::Abba,
            TurnOrder::Drawn => BlockOrder::Drawn(Seed(self.seed)),
        };
        // Earlier versions did not restart the server between two blocks of one side.
        let is_restarted = turns.switch_command.is_some() && turns.order == TurnOrder::Drawn;
        let between = if is_restarted { BlockChange::Restart } else { BlockChange::Nothing };
        (self.targets.len() == 2 && block > 0).then_some(AbBlocks { block, order, between })
    }

    /// The same plan with its second target alone; `None` for a plan with one target.
    pub fn second(&self) -> Option<Self> {
        let second = self.targets.get(1)?.clone();
        Some(Self { targets: vec![second], ..self.clone() })
    }
}

impl PartialPlan {
    /// Those fields of its plan that a run has recorded.
    pub fn of_run(info: &record::RunInfo) -> Result<Self, Error> {
        Self::from_record(info.plan.clone()).map_err(|why| Error::Record(why.to_string()))
    }

    /// Reads the plan of a record, whose keys may be those of an earlier version.
    pub fn from_record(plan: Value) -> serde_json::Result<Self> {
        Self::from_json(&with_keys_of_today(plan).to_string())
    }

    /// Reads a plan from JSON. Every reader of JSON calls this one: the code that reads a plan is large,
    /// and each kind of source would have its own copy of it.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// The blocks in which the two targets of a run took turns; `None` for a run with one target. A run
/// with two targets whose plan cannot be read is an error: its targets must not be reported as one.
pub fn ab_blocks(info: &record::RunInfo) -> Result<Option<AbBlocks>, Refusal> {
    if info.targets.len() < 2 {
        return Ok(None);
    }
    let plan = Plan::of(info).map_err(|why| {
        Refusal::usage(format!("cannot separate the requests of the two targets: {why}"), "")
    })?;
    Ok(plan.ab_blocks())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// New in every run, so that no run hits its own prefixes in the server's cache.
    Fresh,
    /// The same for the same seed.
    Repeated,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot read the plan of the record: {0}")]
    Record(String),
    #[error("cannot use the plan: {0}")]
    Incomplete(#[from] Incomplete),
}
