//! How a run ended.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

use crate::health::Health;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// All planned requests ended, or the duration was over.
    Complete,
    /// A signal ended it early.
    Interrupted,
    /// It was stopped early because the server was overloaded.
    Overloaded,
    DiskFull,
    TargetLost,
    /// The server refused the first requests, all in the same way.
    Refused,
    /// Shards of the run have no record or one that breaks off, or ended early.
    ShardsLost,
}

impl Stop {
    /// Whether requests were not sent for a reason that the plan does not have.
    pub fn is_early_end(self) -> bool {
        matches!(self, Self::Interrupted | Self::DiskFull | Self::TargetLost | Self::Refused)
    }

    pub fn reason(self) -> &'static str {
        match self {
            Self::Complete => "all requests ended",
            Self::Interrupted => "interrupted",
            Self::Overloaded => "the server was overloaded",
            Self::DiskFull => "the record could not be written any further",
            Self::TargetLost => "the server became unreachable",
            Self::Refused => "the server refused the first requests, all in the same way",
            Self::ShardsLost => "shards of the run were lost",
        }
    }
}

/// Everything known after the last request: `end.json` of the run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Anything but [`Stop::Complete`] makes the figures partial.
    pub stop: Stop,
    /// Start of the measured phase, just before its first request was due.
    pub measure_begin: Nanos,
    pub measure_end: Nanos,
    /// Requests in flight when the drain time was over.
    pub abandoned: u64,
    pub never_sent: u64,
    pub health: Health,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// The run wrote its end, whatever the reason for it.
    Ended(Box<RunEnd>),
    /// The writer was killed: only what was written until then exists.
    Killed {
        /// Measured attempts that were sent and have no end.
        in_flight: u64,
        /// Of these, retries whose previous attempt has ended.
        retrying: u64,
    },
}

impl RunState {
    /// `None` for a run that was killed.
    pub fn end(&self) -> Option<&RunEnd> {
        if let Self::Ended(end) = self { Some(end) } else { None }
    }
}
