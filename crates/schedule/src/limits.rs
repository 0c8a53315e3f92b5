//! How much of a load there is: requests in flight, warm-ups, and the end of a run.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

/// What ends the sending of measured requests. With both limits the first one reached counts; with
/// none the source of prompts ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SendLimit {
    /// Requests to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Time after the start of the measured phase at which no request is begun any more. Requests in
    /// flight are followed to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Nanos>,
}

/// The bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Most requests in flight at one time; `None` is an open gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// What ends the measured phase.
    #[serde(default)]
    pub extent: SendLimit,
    /// Requests sent before the measured phase, with content of their own.
    #[serde(default)]
    pub warmups: u64,
}

impl SendLimit {
    /// Whether request number `sent` (from zero), intended `offset` after the start, is still part of
    /// the run.
    pub fn admits(&self, sent: u64, offset: Nanos) -> bool {
        self.count.is_none_or(|count| sent < count)
            && self.duration.is_none_or(|duration| offset < duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_reached_ends_the_run() {
        let check = |extent: SendLimit, sent, offset, expected| {
            assert_eq!(extent.admits(sent, Nanos(offset)), expected, "{extent:?} {sent} {offset}");
        };
        let both = SendLimit { count: Some(2), duration: Some(Nanos(10)) };
        check(both, 1, 9, true);
        check(both, 2, 9, false);
        check(both, 1, 10, false);
        check(SendLimit::default(), u64::MAX, u64::MAX, true);
    }
}
