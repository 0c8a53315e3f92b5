//! The client that printed the old tables, as a layer of its own.
//!
//! A single-threaded client works through requests and events one at a time: at 512 streams it adds
//! hundreds of milliseconds to a time to first token that no server caused. Reproducing such a table
//! needs this layer; predicting what a server will do does not, so it is off unless asked for.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;

/// What a serial client costs. All zero is a perfect client.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OldClient {
    /// Work before a request is on the wire, one request at a time; the clock of the request runs.
    #[serde(default)]
    pub request_ms: f64,
    /// Work per event, one event at a time; an event is stamped when its turn has come.
    #[serde(default)]
    pub event_ms: f64,
}

/// A client that works through requests and events one at a time.
#[derive(Debug, Clone)]
pub(crate) struct SerialClient {
    request: Nanos,
    event: Nanos,
    free_at: Nanos,
}

impl SerialClient {
    pub(crate) fn new(costs: OldClient) -> Self {
        Self {
            request: Nanos::from_millis_f64(costs.request_ms),
            event: Nanos::from_millis_f64(costs.event_ms),
            free_at: Nanos::ZERO,
        }
    }

    /// When a request begun at `now` is on the wire.
    pub(crate) fn send(&mut self, now: Nanos) -> Nanos {
        if self.request == Nanos::ZERO {
            return now;
        }
        self.free_at = self.free_at.max(now) + self.request;
        self.free_at
    }

    /// When an event that arrives at `at` is stamped.
    pub(crate) fn stamp(&mut self, at: Nanos) -> Nanos {
        if self.event == Nanos::ZERO {
            return at;
        }
        self.free_at = self.free_at.max(at) + self.event;
        self.free_at
    }
}
