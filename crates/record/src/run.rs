//! What is known of a run besides its requests.

use serde::{Deserialize, Serialize};
use tokometer_base::{Backend, Conventions, Nanos, Seed, WallNanos};

use crate::health::Health;

/// Version of the record's form. Raised when a column changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Where requests were sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Scheme, host and port, without any key.
    pub base_url: String,
    /// Path of the measured route.
    pub endpoint: String,
    /// Name of the dialect as the user gave it, such as `vllm`.
    pub backend: String,
    /// Model name sent to the server.
    pub model: String,
    /// True when the target was the embedded simulator, or no server at all but a prediction:
    /// whatever shows the figures must say so.
    pub is_simulated: bool,
    /// The server's own name and version, where it told them.
    pub server: Option<String>,
}

/// Beginning of the `base_url` of a run that was computed; the engine's name follows.
pub const PREDICTION: &str = "prediction:";

impl Target {
    /// What the backend's name implies; `None` for a name of another version.
    pub fn backend(&self) -> Option<&'static Backend> {
        Backend::named(&self.backend)
    }

    /// The engine that a run was computed from; `None` for a run that was measured.
    pub fn predicted_engine(&self) -> Option<&str> {
        self.base_url.strip_prefix(PREDICTION)
    }
}

/// The load that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoad {
    /// Requests per second; `None` is an infinite rate.
    pub request_rate: Option<f64>,
    /// Shape of the gaps between arrivals; 1 is a Poisson process.
    pub burstiness: f64,
    /// Most requests in flight; `None` is no limit.
    pub max_concurrency: Option<u32>,
    /// Requests planned; `None` when the run stops by time.
    pub planned_requests: Option<u64>,
    /// Length asked for, when the run stops by time.
    pub duration: Option<Nanos>,
    /// True where arrival times come from a trace or from sessions.
    #[serde(default)]
    pub is_traced: bool,
    /// Name of a ramp, with its first and last rate.
    #[serde(default)]
    pub ramp: Option<(String, f64, f64)>,
}

/// Known before the first request: `plan.json` of the run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Version of the record's form.
    pub schema: u32,
    /// Program version, profile and commit.
    pub version: String,
    /// Name of the run.
    pub name: String,
    /// Start on the wall clock.
    pub started: WallNanos,
    /// The same instant on the monotonic clock: all times on disk count from it.
    pub origin: Nanos,
    /// Root seed of lengths and arrivals.
    pub seed: Seed,
    /// Salt of the content.
    pub salt: u64,
    /// The tool whose conventions were followed.
    pub family: Conventions,
    /// Targets; requests name them by index.
    pub targets: Vec<Target>,
    /// The load.
    pub load: RecordedLoad,
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the tokenizer that counted prompts.
    pub tokenizer: Option<String>,
    /// The whole resolved plan, as it can be given to `bench --plan`.
    pub plan: serde_json::Value,
    /// Facts of the machine and the environment.
    pub environment: serde_json::Value,
    /// Remarks of the preparation, such as a tokenizer that had to be replaced.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// All planned requests were sent and answered, or the time was over.
    Complete,
    /// A signal ended it early.
    Interrupted,
    /// It was judged overloaded and ended early.
    Overloaded,
    /// The record could not be written any further.
    DiskFull,
    /// The server became unreachable and stayed so.
    TargetLost,
}

/// Known after the last request: `end.json` of the run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Why it stopped.
    pub stop: Stop,
    /// When the measured phase began: just before its first request was due.
    pub measure_begin: Nanos,
    /// When the last measured request ended.
    pub measure_end: Nanos,
    /// Requests still in flight when draining was given up.
    pub abandoned: u64,
    /// Planned requests that were never sent.
    pub never_sent: u64,
    /// What the client did to itself.
    pub health: Health,
}

/// Whether a folder holds a whole run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// The run ended by itself, for whatever reason.
    Ended(Box<RunEnd>),
    /// The writer died: what had been written by then is all there is.
    Killed {
        /// Measured requests that had been sent and not ended.
        in_flight: u64,
        /// Of these, later attempts of requests whose attempt before has ended.
        retrying: u64,
    },
}
