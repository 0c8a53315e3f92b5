//! The run second by second.

use serde::{Deserialize, Serialize};

/// One second of the measured phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Its start, in seconds after the start of the measured phase.
    pub at_s: f64,
    /// Requests that became due.
    pub arrivals: u64,
    /// Requests sent.
    pub starts: u64,
    /// Requests answered.
    pub completions: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// Output tokens that arrived.
    pub output_tokens: f64,
}
