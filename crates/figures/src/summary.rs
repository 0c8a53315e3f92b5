//! Figures, notes and verdict of one run.
//!
//! A missing value is `None`, never zero. Figures and distributions are keyed by the names in
//! [`crate::define`], whose last part is the unit: `ttft_ms`, `output_tokens_per_s`.

pub mod cancelled;
pub mod parts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_record::{FailureKind, Health, RecordedLoad, RunInfo, RunState, Stop};

use crate::addresses::AddressShare;
use crate::anatomy;
use crate::define::Definition;
pub use crate::distribution::{Distribution, PercentileValue};
use crate::family::{Family, FamilyFigures};
use crate::goodput::Goodput;
use crate::interval::ConfidenceInterval;
use crate::judgement::{FigureVerdict, Note, Verdict};
use crate::observe::Observed;
use crate::quality::{Canaries, Quality};
use crate::rows::{Fate, RequestRow};
use crate::server::ServerFigures;
use crate::sessions::SessionSummary;
use crate::steady::{GrowingBacklog, LoadClass, Steady, Unsteady};
use crate::steps::Steps;
use crate::summary::cancelled::Cancelled;
use crate::summary::parts::{Part, Recovery, UnjudgedPart};
use crate::windows::{Block, Window};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Says whether the figures are partial.
    pub ended: Ended,
    pub counts: Counts,
    /// Length of the measured phase in seconds; `None` when no request was sent.
    pub duration_s: Option<f64>,
    /// Figures of the whole run, by key of [`crate::define`].
    pub figures: BTreeMap<String, Option<f64>>,
    /// Confidence intervals of rates among these figures, by the same keys.
    #[serde(default)]
    pub intervals: BTreeMap<String, ConfidenceInterval>,
    /// By key of [`crate::define`].
    pub distributions: BTreeMap<String, Distribution>,
    /// Number of requests per source of their output token count.
    pub count_sources: BTreeMap<String, u64>,
    /// Requests per address, for servers that have more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressShare>,
    /// `None` where no request was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Cancelled>,
    /// Failed requests by kind and status, most frequent first.
    pub failures: Vec<FailureGroup>,
    /// Requests that met every objective; `None` when none was set.
    pub goodput: Option<Goodput>,
    pub load_class: LoadClass,
    /// The steady part of the run; `None` where there is none.
    pub steady: Option<Steady>,
    /// `None` where no session has several turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionSummary>,
    /// From the server's metrics; `None` when they were not scraped.
    pub server: Option<ServerFigures>,
    /// The engine's steps inferred from streams, or why they cannot be; `None` when nothing was
    /// streamed.
    #[serde(default)]
    pub steps: Option<Steps>,
    /// Parts of the time to first token, on average; empty when no request had one.
    #[serde(default)]
    pub ttft_parts: Vec<anatomy::Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// Answers to canaries; `None` when none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<Canaries>,
    /// Other tools' figures, for the requested families.
    pub families: BTreeMap<Family, FamilyFigures>,
    /// The most severe first.
    pub notes: Vec<Note>,
    pub verdict: Verdict,
    /// By figure, such as `ttft_ms_p99`.
    #[serde(default)]
    pub figure_verdicts: BTreeMap<String, FigureVerdict>,
    /// Its stages and classes; empty for a run without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// One for each stage with more load than those around it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
    /// Jain's index of the classes' output tokens per weight; `None` for fewer than two classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    pub windows: Vec<Window>,
    /// The run in a few blocks of time, for comparisons of single runs.
    #[serde(default)]
    pub blocks: Vec<Block>,
}

impl Summary {
    pub fn figure(&self, key: impl AsRef<str>) -> Option<f64> {
        self.figures.get(key.as_ref()).copied().flatten()
    }

    /// Whether the run ended before its first measured request, such as in its warm-up.
    pub fn is_unmeasured(&self) -> bool {
        self.ended.is_partial() && self.counts.sent == 0
    }

    pub fn distribution(&self, key: impl AsRef<str>) -> Option<&Distribution> {
        self.distributions.get(key.as_ref())
    }

    pub fn mean(&self, key: impl AsRef<str>) -> Option<f64> {
        self.distribution(key)?.mean
    }

    /// By which share its mean differs from that of the metric that it repeats.
    pub fn apart(&self, metric: &Definition) -> Option<f64> {
        Some((self.mean(metric.key)? / self.mean(metric.repeats?)? - 1.0).abs())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    #[default]
    Complete,
    Early(Stop),
    Killed,
}

impl Ended {
    pub fn is_partial(self) -> bool {
        self != Self::Complete
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Requests of the plan; for a run that ends by time, those that became due.
    pub planned: u64,
    /// Each request counts once, whatever its number of attempts.
    pub sent: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Cancelled by their user, as the plan says.
    #[serde(default)]
    pub cancelled: u64,
    /// In flight when the client stopped, or when the writer was killed.
    pub abandoned: u64,
    /// Planned or due, but never sent.
    pub never_sent: u64,
    /// Attempts beyond the first.
    pub retries: u64,
    /// Not part of any figure.
    pub warmups: u64,
}

impl Counts {
    /// Without retries and warm-ups.
    pub(crate) fn of(rows: &[RequestRow], load: &RecordedLoad, state: &RunState) -> Self {
        let with = |fate: Fate| rows.iter().filter(|row| row.fate == fate).count() as u64;
        let abandoned_rows = with(Fate::Abandoned);
        // The last attempt of a request that was being retried has no row: its outcome is that attempt's.
        let retrying = match state {
            RunState::Ended(_) => 0,
            RunState::Killed { retrying, .. } => *retrying,
        };
        let failed = with(Fate::Failed).saturating_sub(retrying);
        // A run that ends by time has no planned number: later requests were never due.
        let planned = load.planned_requests.filter(|_| load.duration.is_none());
        let cancelled = with(Fate::Cancelled);
        let known = with(Fate::Succeeded) + failed + cancelled;
        let (abandoned, never_sent) = match state {
            RunState::Ended(end) => (end.abandoned.max(abandoned_rows), end.never_sent),
            RunState::Killed { in_flight, .. } => {
                let abandoned = abandoned_rows + in_flight;
                (abandoned, planned.map_or(0, |all| all.saturating_sub(known + abandoned)))
            }
        };
        let sent = known + abandoned;
        Self {
            planned: planned.unwrap_or(sent + never_sent).max(sent),
            sent,
            succeeded: with(Fate::Succeeded),
            failed,
            cancelled,
            abandoned,
            never_sent,
            ..Self::default()
        }
    }
}

/// Failed requests with the same kind, status and message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureGroup {
    /// Several groups may have the same kind and status, with different messages.
    pub kind: FailureKind,
    /// `None` when no response header arrived.
    pub status: Option<u16>,
    pub count: u64,
    /// The first message, without secrets. Messages that differ only in words with digits are one.
    pub example: String,
}

/// A summary without notes and verdicts, with what these follow from.
#[derive(Debug, Clone)]
pub struct Unjudged {
    /// Complete except for notes and verdicts.
    pub summary: Summary,
    pub info: RunInfo,
    /// The last attempt of each measured request.
    pub rows: Vec<RequestRow>,
    /// `None` when the program was killed before it wrote it.
    pub health: Option<Health>,
    pub observed: Observed,
    pub unsteady: Option<Unsteady>,
    /// How the backlog of an open loop grew, if it did.
    pub overload: Option<GrowingBacklog>,
    pub parts: Vec<UnjudgedPart>,
}
