//! All figures, notes and the verdict of one run.
//!
//! A missing value is `None`, never zero. Figures and distributions are keyed by the names in
//! [`crate::define`], whose last part is the unit: `ttft_ms`, `output_tokens_per_s`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_record::{FailureKind, Stop};

use crate::anatomy;
use crate::family::Family;
use crate::figures::FamilyFigures;
use crate::goodput::Goodput;
use crate::notes::{Note, Verdict};
use crate::server::ServerFigures;
use crate::steady::{LoadClass, Steady};
use crate::steps::Steps;
use crate::windows::{Block, Window};

/// One run in numbers, notes and a verdict.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// How the run ended.
    pub ended: Ended,
    /// Requests by fate.
    pub counts: Counts,
    /// Length of the measured phase in seconds; `None` when no request was sent.
    pub duration_s: Option<f64>,
    /// Our own figures of the whole run, by key of [`crate::define`].
    pub figures: BTreeMap<String, Option<f64>>,
    /// Our own distributions, by key of [`crate::define`].
    pub distributions: BTreeMap<String, Distribution>,
    /// Where the counts of output tokens came from: requests per source.
    pub count_sources: BTreeMap<String, u64>,
    /// Failed requests by kind and status, most frequent first.
    pub failures: Vec<FailureGroup>,
    /// Requests that met every objective; `None` when none was set.
    pub goodput: Option<Goodput>,
    /// What kind of load it was.
    pub load_class: LoadClass,
    /// The steady part of the run; `None` where there is none.
    pub steady: Option<Steady>,
    /// What the server's own metrics say; `None` when they were not read.
    pub server: Option<ServerFigures>,
    /// The engine's steps as streams show them, or why they do not; `None` when nothing was streamed.
    #[serde(default)]
    pub steps: Option<Steps>,
    /// Parts of the time to first token, on average; empty when no request had one.
    #[serde(default)]
    pub ttft_parts: Vec<anatomy::Part>,
    /// Other tools' figures, for those families that were asked for.
    pub families: BTreeMap<Family, FamilyFigures>,
    /// Doubts, worst first.
    pub notes: Vec<Note>,
    /// What the notes amount to.
    pub verdict: Verdict,
    /// The run second by second.
    pub windows: Vec<Window>,
    /// The run in a few blocks of time, for comparisons of single runs.
    #[serde(default)]
    pub blocks: Vec<Block>,
}

impl Summary {
    /// Our own figure of this key.
    pub fn figure(&self, key: &str) -> Option<f64> {
        self.figures.get(key).copied().flatten()
    }

    /// Our own distribution of this key.
    pub fn distribution(&self, key: &str) -> Option<&Distribution> {
        self.distributions.get(key)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All there was to do was done.
    #[default]
    Complete,
    /// It stopped early, for this reason.
    Early(Stop),
    /// Its writer died.
    Killed,
}

impl Ended {
    /// Whether less was measured than planned.
    pub fn is_partial(self) -> bool {
        self != Self::Complete
    }
}

/// Requests of the measured phase by fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Requests of the plan; for a run that stops by time, those that became due.
    pub planned: u64,
    /// Requests sent, each counted once however often it was tried.
    pub sent: u64,
    /// Answered to the end with content.
    pub succeeded: u64,
    /// Failed for good.
    pub failed: u64,
    /// Given up by ourselves while in flight, or in flight when the writer died.
    pub abandoned: u64,
    /// Never sent.
    pub never_sent: u64,
    /// Attempts beyond the first.
    pub retries: u64,
    /// Warm-up requests, which enter no figure.
    pub warmups: u64,
}

/// Failed requests that share kind and status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureGroup {
    /// The kind.
    pub kind: FailureKind,
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// How many.
    pub count: u64,
    /// The first message seen, secrets removed.
    pub example: String,
}

/// A distribution of values in the unit that its key names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Values, failed requests included where they count as infinitely slow.
    pub count: u64,
    /// Of these, failed requests.
    pub infinite: u64,
    /// Mean of the finite values.
    pub mean: Option<f64>,
    /// Half the width of the mean's 95 % interval.
    pub mean_margin: Option<f64>,
    /// Population standard deviation of the finite values.
    pub std: Option<f64>,
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest finite value.
    pub max: Option<f64>,
    /// Percentiles in rising order; the median is always among them.
    pub percentiles: Vec<Percentile>,
    /// True when the values should not be shown; a note says why.
    pub is_withheld: bool,
}

impl Distribution {
    /// The percentile `percent`, if it was asked for.
    pub fn percentile(&self, percent: f64) -> Option<&Percentile> {
        self.percentiles.iter().find(|entry| (entry.percent - percent).abs() < 1e-9)
    }
}

/// One percentile and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Which one, from 0 to 100.
    pub percent: f64,
    /// Its value; `None` when it falls among the failed requests: then it lies above `above`.
    pub value: Option<f64>,
    /// The largest finite value, or the longest that a failed request was waited for, if larger.
    pub above: Option<f64>,
    /// Lower end of the two-sided 95 % interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Whether the sample is large enough for such an interval; otherwise shown with `?`.
    pub is_supported: bool,
}
