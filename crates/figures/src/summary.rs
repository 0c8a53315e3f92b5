//! Figures, notes and verdict of one run.
//!
//! A missing value is `None`, never zero. Figures and distributions are keyed by the names in
//! [`crate::define`], whose last part is the unit: `ttft_ms`, `output_tokens_per_s`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_record::{FailureKind, Health, RecordedLoad, RunInfo, RunState, Stop};

use crate::addresses::AddressShare;
use crate::anatomy;
use crate::define::Definition;
use crate::family::{Family, FamilyFigures};
use crate::goodput::Goodput;
use crate::interval::{ConfidenceInterval, NoInterval};
use crate::judgement::{FigureVerdict, Note, Verdict};
use crate::observe::Observed;
use crate::quality::{Canaries, Quality};
use crate::rows::{Fate, RequestRow};
use crate::server::ServerFigures;
use crate::steady::{GrowingBacklog, LoadClass, Steady, Unsteady};
use crate::steps::Steps;
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
    /// Failed requests by kind and status, most frequent first.
    pub failures: Vec<FailureGroup>,
    /// Requests that met every objective; `None` when none was set.
    pub goodput: Option<Goodput>,
    pub load_class: LoadClass,
    /// The steady part of the run; `None` where there is none.
    pub steady: Option<Steady>,
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
        let known = with(Fate::Succeeded) + failed;
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

/// A distribution of values in the unit that its key names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values, including failed requests where they count as infinitely slow.
    pub count: u64,
    pub infinite: u64,
    pub mean: Option<f64>,
    /// Number of independent values that these are worth, failed requests included. `None` without
    /// values.
    #[serde(default)]
    pub effective: Option<f64>,
    #[serde(default)]
    pub mean_interval: ConfidenceInterval,
    pub mean_margin: Option<f64>,
    /// Population standard deviation of the finite values.
    pub std: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// In ascending order, including the median.
    pub percentiles: Vec<PercentileValue>,
    /// True when the values must not be shown; a note gives the reason.
    pub is_withheld: bool,
}

impl Distribution {
    /// `None` if it was not requested.
    pub fn percentile(&self, percent: f64) -> Option<&PercentileValue> {
        self.percentiles.iter().find(|entry| (entry.percent - percent).abs() < 1e-9)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PercentileValue {
    /// From 0 to 100.
    pub percent: f64,
    /// `None` when it lies among the failed requests, above `above`.
    pub value: Option<f64>,
    /// The largest finite value, or the longest wait for a failed request, if larger.
    pub above: Option<f64>,
    /// Its confidence interval: `low` and `high`, or `no_interval` with the reason.
    #[serde(flatten)]
    pub interval: ConfidenceInterval,
    /// Whether there are enough effective values for this percentile.
    pub is_supported: bool,
}

impl PercentileValue {
    /// Whether it is shown with `?`: too few values, or a run that is too short for its interval.
    pub fn is_doubtful(&self) -> bool {
        let too_short = ConfidenceInterval::Unknown(NoInterval::TooShort);
        !self.is_supported || self.interval == too_short
    }

    /// Nor is it surer than one that is nearer to the median: fewer values lie beyond it.
    fn follow(&mut self, nearer: &Self) {
        self.is_supported &= nearer.is_supported;
        let is_known = self.interval.ends().is_some();
        if is_known && nearer.interval.ends().is_none() {
            self.interval = nearer.interval;
        }
    }

    /// Makes the marks of ascending percentiles agree: a doubtful median leaves no sure P99.
    pub(crate) fn agree(ascending: &mut [Self]) {
        let middle = ascending.partition_point(|one| one.percent < 50.0);
        let (low, high) = ascending.split_at_mut(middle);
        let follow = |chain: &mut dyn Iterator<Item = &mut Self>| {
            let mut nearer: Option<Self> = None;
            for one in chain {
                if let Some(nearer) = &nearer {
                    one.follow(nearer);
                }
                nearer = Some(*one);
            }
        };
        follow(&mut high.iter_mut());
        follow(&mut low.iter_mut().rev());
    }
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
}
