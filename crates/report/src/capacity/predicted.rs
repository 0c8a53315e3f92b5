//! The searches of `tokometer capacity --engine`, as its JSON has them.

use serde::Serialize;
use tokometer_decide::capacity::Findings;
use tokometer_twin::BeyondRange;

/// One combination of the lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PredictedChoice {
    /// Servers behind the router.
    pub replicas: usize,
    /// `KEY=VALUE`, one value each.
    pub set: Vec<String>,
}

impl PredictedChoice {
    /// What distinguishes it from the others.
    pub fn name(&self) -> String {
        let replicas = format!("replicas={}", self.replicas);
        std::iter::once(replicas).chain(self.set.iter().cloned()).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Debug, Serialize)]
pub struct PredictedCapacity {
    #[serde(flatten)]
    pub combination: PredictedChoice,
    pub findings: Findings,
}

/// All searches of a command.
#[derive(Debug, Serialize)]
pub struct PredictedCapacities {
    pub is_prediction: bool,
    pub engine: String,
    /// Prompts and lengths, in words.
    pub workload: String,
    /// The load that must be held, where `--request-rate` or `--max-concurrency` names one.
    pub wanted: Option<f64>,
    /// Prompts that the profile's data do not cover.
    pub beyond_range: Option<BeyondRange>,
    pub capacities: Vec<PredictedCapacity>,
}
