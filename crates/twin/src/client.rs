//! The client that printed the old tables, as a layer of its own.
//!
//! A single-threaded client works through requests and events one at a time: at 512 streams it adds
//! hundreds of milliseconds to a time to first token that no server caused. Reproducing such a table
//! needs this layer; predicting what a server will do does not, so it is off unless asked for, or unless a
//! profile was fitted to such a table.

use tokometer_base::Nanos;
pub use tokometer_sim::profile::OldClient;

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
