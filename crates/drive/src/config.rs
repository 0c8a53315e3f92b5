//! Everything a run needs to know besides its requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokometer_base::{Nanos, Seed};
use tokometer_client::conn::{Endpoint, Stamps};
use tokometer_client::{Dialect, KeepText, Settings};
use tokometer_schedule::{Arrivals, Limits};

use crate::turns::Places;

/// When connections are opened, and how long they live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Before the requests that need them, where their number is known; then kept.
    Preopen,
    /// By the first request that finds none free; then kept. vLLM's client does so.
    #[default]
    OnDemand,
    /// One for each request, closed after it. SGLang's client does so.
    PerRequest,
}

/// How readable sockets are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harvest {
    /// Each as soon as it is readable.
    Eager,
    /// About once per millisecond those whose events are far enough apart that none can be merged.
    #[default]
    Adaptive,
}

/// What it means when no warm-up request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WarmUps {
    /// Nothing: the measured requests will show it. vLLM's client goes on.
    #[default]
    Tolerated,
    /// The run is over before anything was measured. SGLang's client stops.
    Needed,
}

/// How long to wait before giving up on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// For a connection, its TLS handshake included.
    pub connect: Nanos,
    /// Without any byte of the answer. `None` waits for ever.
    pub stall: Option<Nanos>,
    /// For the whole request, from its first byte. `None` waits for ever.
    pub total: Option<Nanos>,
    /// A kept connection that closes within this time of a request, without a byte of an answer, had
    /// been given up by the server before: the request is sent once more. One that closes later
    /// closed upon the request, and sending that again would hide how long it had waited.
    pub stale: Nanos,
}

impl Default for Timeouts {
    /// Ten seconds to connect and six hours for a request, which is what vLLM's client grants.
    fn default() -> Self {
        Self {
            connect: Nanos::from_secs(10),
            stall: None,
            total: Some(Nanos::from_secs(6 * 60 * 60)),
            stale: Nanos::from_secs(2),
        }
    }
}

/// A server under measurement, and how its answers are read.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where to connect to.
    pub endpoint: Endpoint,
    /// Its protocol.
    pub dialect: Dialect,
    /// What its requests have in common.
    pub settings: Arc<Settings>,
    /// Whether the text of its answers is kept.
    pub keep_text: KeepText,
}

/// A run, as meant.
#[derive(Debug, Clone)]
pub struct Config {
    /// The servers; [`record::Identity::target`](tokometer_record::Identity) is the index.
    pub targets: Vec<Target>,
    /// When measured requests should start.
    pub arrivals: Arrivals,
    /// Requests in flight, warm-ups, and the end.
    pub limits: Limits,
    /// What failed warm-ups mean.
    pub warm_ups: WarmUps,
    /// Seed of the arrivals.
    pub seed: Seed,
    /// When connections are opened.
    pub connections: Connections,
    /// How sockets are visited.
    pub harvest: Harvest,
    /// Whose clock stamps what arrives.
    pub stamps: Stamps,
    /// When a conversation takes a place among the requests in flight.
    pub places: Places,
    /// When to give up.
    pub timeouts: Timeouts,
    /// How often a failed request is tried again; each attempt has its own timeline.
    pub retries: u32,
    /// Worker threads; `None` takes one on two cores or fewer and half the cores on larger machines.
    pub workers: Option<u16>,
}

/// More workers than this have never helped: the server is the bottleneck long before.
pub(crate) const MOST_WORKERS: u16 = 64;

impl Config {
    /// A run without pauses against these servers, everything else by default.
    pub fn new(targets: Vec<Target>, limits: Limits) -> Self {
        Self {
            targets,
            arrivals: Arrivals::AtOnce,
            limits,
            warm_ups: WarmUps::default(),
            seed: Seed(0),
            connections: Connections::default(),
            harvest: Harvest::default(),
            stamps: Stamps::default(),
            places: Places::default(),
            timeouts: Timeouts::default(),
            retries: 0,
            workers: None,
        }
    }

    /// Worker threads on a machine with `cores` cores.
    pub fn worker_count(&self, cores: usize) -> u16 {
        let by_cores =
            if cores <= 2 { 1 } else { u16::try_from(cores / 2).unwrap_or(MOST_WORKERS) };
        self.workers.unwrap_or(by_cores).clamp(1, MOST_WORKERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machines_get_one_worker_and_larger_ones_half_their_cores() {
        let mut config = Config::new(Vec::new(), Limits::default());
        let check = |config: &Config, cores, expected| {
            assert_eq!(config.worker_count(cores), expected, "{cores} cores");
        };
        check(&config, 1, 1);
        check(&config, 2, 1);
        check(&config, 4, 2);
        check(&config, 1_000, MOST_WORKERS);
        config.workers = Some(3);
        check(&config, 1, 3);
        config.workers = Some(0);
        check(&config, 8, 1);
    }
}
