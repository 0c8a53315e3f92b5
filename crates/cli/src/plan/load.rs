//! When requests are sent, how many, and when a run ends.

use serde::{Deserialize, Serialize};

use crate::args::Rate;

/// When requests are sent, and how many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// Requests per second.
    pub(crate) request_rate: Rate,
    /// Shape of the gaps between requests.
    pub(crate) burstiness: Rate,
    /// Most requests in flight; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_concurrency: Option<u32>,
    /// A rising rate instead of `request_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ramp: Option<Ramp>,
    /// Requests to send; zero takes every row of a dataset. Absent: until `duration_s` is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) num_prompts: Option<u64>,
    /// No request is begun after this many seconds; absent: no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration_s: Option<f64>,
    /// The run ends once a figure is known well enough; absent: no such rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Until>,
    /// What happens when the server falls behind for good.
    #[serde(default)]
    pub(crate) overload: Overload,
    /// Whether a trace's own times are used.
    pub(crate) timing: Timing,
}

/// Whose times requests keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Timing {
    /// Those of the rate.
    Rate,
    /// Those of the trace.
    Trace,
}

/// A rising rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ramp {
    /// Its curve.
    pub(crate) strategy: Strategy,
    /// Requests per second at the first request.
    pub(crate) from: f64,
    /// Requests per second at the last request.
    pub(crate) to: f64,
}

/// A run that ends once a figure is known well enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    /// The figure and how well it should be known.
    pub(crate) rule: tokometer_metrics::sequential::Until,
    /// Not before this many seconds.
    pub(crate) min_s: f64,
}

/// What happens when the server falls behind for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Overload {
    /// The run goes on: its figures then depend on its length, and a note says so.
    #[default]
    Continue,
    /// The run ends.
    Stop,
}

/// The curve of a ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Strategy {
    /// Equal steps.
    Linear,
    /// Equal ratios.
    Exponential,
}
