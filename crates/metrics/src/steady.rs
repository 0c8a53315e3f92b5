//! Which part of a run is steady, if any.

use serde::{Deserialize, Serialize};

use crate::summary::Distribution;

/// What kind of load a run was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadClass {
    /// All at once without a cap: there is no steady part by design.
    #[default]
    Burst,
    /// A fixed number in flight, the next sent as one ends.
    Closed,
    /// Sent by the plan, whatever the server does.
    Open,
    /// Sent by the plan, with a rate that changes over the run.
    Ramp,
}

/// The steady part of a run, and figures of the requests that started in it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Steady {
    /// Its start, in seconds after the start of the measured phase.
    pub begin_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Requests that started in it.
    pub started: u64,
    /// Requests that ended in it.
    pub completed: u64,
    /// Mean number of requests in flight.
    pub concurrency: f64,
    /// Requests completed per second.
    pub requests_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// TTFT of the requests that started in it.
    pub ttft_ms: Distribution,
    /// TPOT of the same.
    pub tpot_ms: Distribution,
    /// E2E of the same.
    pub e2e_ms: Distribution,
}
