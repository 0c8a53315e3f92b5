//! The whole of a measurement.

use serde::{Deserialize, Serialize};
use tokometer_base::Conventions;
use tokometer_workload as workload;

use crate::client::Client;
use crate::interleave::Interleave;
use crate::load::Load;
use crate::metrics::Metrics;
use crate::output::Output;
use crate::phases::Phases;
use crate::prompts::Prompts;
use crate::request::Request;
use crate::sweep::{Axis, Section};
use crate::target::Target;

/// A whole measurement: one run, or one run per point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name of the run, part of its folder's name.
    pub name: String,
    /// Whose rules hold where tools differ.
    pub family: Conventions,
    /// Root of lengths and arrivals.
    pub seed: u64,
    /// Whether the content of prompts is new in every run.
    pub content: Content,
    /// What is measured.
    pub targets: Vec<Target>,
    /// Where prompts come from.
    pub workload: workload::Spec,
    /// How prompts are made and counted.
    pub prompts: Prompts,
    /// When requests are sent, and how many.
    pub load: Load,
    /// What happens around the measured phase.
    pub phases: Phases,
    /// What every request's body says.
    pub request: Request,
    /// How this client works.
    pub client: Client,
    /// Figures and objectives.
    pub metrics: Metrics,
    /// Where results go.
    pub output: Output,
    /// Fields that take several values. Empty for a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<Axis>,
    /// How two targets take turns; absent for a plan with one target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleave: Option<Interleave>,
    /// Parts with a heading and values of their own. Empty for a plan without parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<Section>,
}

impl Plan {
    /// The same plan with its second target alone; `None` for a plan with one target.
    pub fn second(&self) -> Option<Self> {
        let second = self.targets.get(1)?.clone();
        Some(Self { targets: vec![second], ..self.clone() })
    }
}

/// Whether the content of prompts is new in every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Salted afresh, so that no run meets its own prefix cache.
    Fresh,
    /// The same for the same seed.
    Repeated,
}
