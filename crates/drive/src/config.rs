//! The parameters of a run, apart from its requests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokometer_base::{CancelAfter, Cancellation, Nanos, Seed};
use tokometer_client::conn::{Endpoint, Stamps};
use tokometer_client::{Dialect, KeepText, Settings};
use tokometer_record::{AttemptId, Phase};
use tokometer_schedule::{Arrivals, Limits, Pace, SendLimit, Share};

use crate::cap::CapLending;

/// When connections are opened, and whether they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// Those of the first wave are opened before it, the others by the first request that finds none
    /// idle. All are kept.
    #[default]
    Auto,
    /// Opened before the requests that need them, where their number is known, and kept.
    Preopen,
    /// Opened by the first request that finds none idle, and kept, as in vLLM's client.
    OnDemand,
    /// One per request, closed after it, as in SGLang's client. Where all requests leave at the start,
    /// they are opened before it.
    PerRequest,
}

const MOST_IN_WAVE: u64 = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketReads {
    /// As soon as each is readable.
    Eager,
    /// About once per millisecond, for streams whose events are far enough apart that no read can
    /// merge two.
    #[default]
    Adaptive,
}

/// What happens when every warm-up request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WarmUps {
    /// The run continues; the measured requests will show the problem. vLLM's client does so.
    #[default]
    Tolerated,
    /// The run ends before anything is measured. SGLang's client does so.
    Needed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// For connecting, including the TLS handshake.
    pub connect: Nanos,
    /// Between one piece of content and the next, or the end of the answer. Pings, comments and events
    /// without content do not count. `None` waits without limit. Before the first content only `total`
    /// applies, since a server may queue a request for minutes.
    pub stall: Option<Nanos>,
    /// For the whole request, from its first byte sent. `None` waits without limit.
    pub total: Option<Nanos>,
}

impl Default for Timeouts {
    /// Ten seconds to connect and six hours for a request, the values of vLLM's client, and two minutes
    /// between tokens, longer than any preemption.
    fn default() -> Self {
        Self {
            connect: Nanos::from_secs(10),
            stall: Some(Nanos::from_secs(120)),
            total: Some(Nanos::from_secs(6 * 60 * 60)),
        }
    }
}

/// The longest wait before another attempt, unless the plan says otherwise.
pub const RETRY_MAX_WAIT: Nanos = Nanos::from_secs(60);

/// A server under test, and how its responses are read.
#[derive(Debug, Clone)]
pub struct TargetServer {
    pub endpoint: Endpoint,
    pub dialect: Dialect,
    pub settings: Arc<Settings>,
    pub keep_text: KeepText,
}

#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Requests name their target by its index here
    /// ([`record::AttemptId::target`](tokometer_record::AttemptId)).
    pub targets: Vec<TargetServer>,
    /// Intended send times of the measured requests.
    pub arrivals: Arrivals,
    /// Requests in flight, warm-ups, and the end of the run, as far as this process sends it.
    pub limits: Limits,
    /// The part of the arrivals that this process sends.
    pub share: Share,
    /// The processes that the limit on requests in flight is shared with; `None`: it is this one's own.
    pub cap_lending: Option<Arc<dyn CapLending>>,
    /// The end of the whole run, which arrival times depend on. `None`: that of `limits`.
    pub whole_extent: Option<SendLimit>,
    pub warm_ups: WarmUps,
    pub seed: Seed,
    pub connections: Connections,
    pub socket_reads: SocketReads,
    /// Which clock gives a read its time.
    pub stamps: Stamps,
    /// Sessions in progress, the pauses between their turns included. `None`: any number.
    pub max_sessions: Option<u32>,
    pub timeouts: Timeouts,
    /// The measured requests that their user cancels, drawn by their index.
    pub cancellation: Option<Cancellation>,
    /// Retries of a failed request; each attempt has its own timeline.
    pub retries: u32,
    /// The longest wait before another attempt, whatever the server asks for.
    pub retry_max_wait: Nanos,
    /// The answers that stop the run where all first ones are the same.
    pub refusals: Refusals,
    /// Whether the bytes of the first exchange are kept and reported.
    pub keeps_transcript: bool,
    /// Worker threads. `None` uses one on up to two cores, and half of the cores on larger machines.
    pub workers: Option<u16>,
}

/// Answers by which a server refuses what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refusals {
    /// Statuses from 400 to 499: the request is at fault, and the next one will be as well.
    #[default]
    OfTheClient,
    /// Those of a server at fault as well, for a search that would otherwise wait for an answer.
    All,
}

impl Refusals {
    /// A timeout, a request that came too early and a limit on the rate pass.
    pub fn has(self, status: Option<u16>) -> bool {
        match status {
            Some(408 | 425 | 429) | None => false,
            Some(400..=499) => true,
            Some(500..) => self == Self::All,
            Some(_) => false,
        }
    }
}

/// More workers have never helped: the server is the bottleneck long before.
pub(crate) const MOST_WORKERS: u16 = 64;

impl RunConfig {
    /// All requests at once to these servers; defaults for everything else.
    pub fn new(targets: Vec<TargetServer>, limits: Limits) -> Self {
        Self {
            targets,
            arrivals: Arrivals::AtOnce,
            limits,
            share: Share::WHOLE,
            cap_lending: None,
            whole_extent: None,
            warm_ups: WarmUps::default(),
            seed: Seed(0),
            connections: Connections::default(),
            socket_reads: SocketReads::default(),
            stamps: Stamps::default(),
            max_sessions: None,
            timeouts: Timeouts::default(),
            cancellation: None,
            retries: 0,
            retry_max_wait: RETRY_MAX_WAIT,
            refusals: Refusals::default(),
            keeps_transcript: false,
            workers: None,
        }
    }

    /// Requests that leave together when the measured phase begins, as far as they fit into memory: all
    /// of a burst, or as many as a closed loop has slots. Zero where requests have times of their own,
    /// and for two targets, which are measured in blocks.
    pub(crate) fn wave_size(&self) -> u64 {
        if self.arrivals != Arrivals::AtOnce || self.targets.len() != 1 {
            return 0;
        }
        let cap = self.limits.max_concurrency.map_or(MOST_IN_WAVE, u64::from);
        self.limits.extent.count.unwrap_or(MOST_IN_WAVE).min(cap).min(MOST_IN_WAVE)
    }

    /// Whether the end of a request may let another one begin.
    pub(crate) fn has_closed_stages(&self) -> bool {
        self.arrivals.pace().is_some_and(Pace::has_closed_stages)
    }

    /// Whether the connections of the first wave are opened before it. With a connection per request and
    /// a limit, later requests connect within their time to first token as other tools count it; then
    /// the first ones do so as well.
    pub(crate) fn opens_wave(&self) -> bool {
        match self.connections {
            Connections::Auto | Connections::Preopen => true,
            Connections::OnDemand => false,
            Connections::PerRequest => self.limits.max_concurrency.is_none(),
        }
    }

    /// When the user of this request cancels it; `None`: never.
    pub(crate) fn cancelled_after(&self, identity: &AttemptId) -> Option<CancelAfter> {
        let cancellation = self.cancellation.filter(|_| identity.phase == Phase::Measure)?;
        cancellation.of(self.seed, identity.index)
    }

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
        let mut config = RunConfig::new(Vec::new(), Limits::default());
        let check = |config: &RunConfig, cores, expected| {
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
