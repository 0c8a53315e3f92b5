//! What is asked of a predicted server: requests with known lengths, and when they are sent.
//!
//! Lengths are an input, per request, from a dataset, a trace or a distribution; a mean is not enough,
//! because the longest answer often decides how long a run takes. Requests are made one at a time by
//! their index, so that ten million of them need no memory.

use std::sync::Arc;

use schedule::Arrivals;
use tokometer_base::{CancelAfter, Nanos};
use tokometer_schedule as schedule;

/// One request to be predicted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ask {
    pub prompt_tokens: u32,
    /// Tokens that the answer will have.
    pub output_tokens: u32,
    /// Tokens that the answer may have; an answer that stops short of it ended by itself.
    pub output_limit: u32,
    /// When the trace sends it, from the start of the run.
    pub due: Option<Nanos>,
    /// Requests that must have ended before: turns of the same session.
    pub after: Box<[u64]>,
    /// From the end of the last of them.
    pub delay: Nanos,
    /// A hash per full block of the prompt, each covering everything before it.
    pub block_hashes: Box<[u64]>,
    /// Its place in a session; `None` for a single request.
    pub place: Option<Box<TurnPlace>>,
    /// Prompt tokens that an unlimited prefix cache would have; `None` where that is unknown.
    pub possible_cached_tokens: Option<u32>,
    /// Smaller is more urgent.
    pub priority: i32,
    /// The adapter it needs.
    pub lora: Option<u32>,
    /// When its user cancels it; `None`: never.
    pub cancel: Option<CancelAfter>,
}

/// Where a request stands in its session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnPlace {
    pub session: u64,
    pub turn: u32,
    /// Turns of the session.
    pub turns: u32,
    /// The turns that must have ended before.
    pub parents: Vec<u32>,
    pub agent: Option<String>,
    /// When the recording has it, from the start of the run.
    pub recorded: Option<Nanos>,
    /// How long the session took there.
    pub session_recorded: Option<Nanos>,
}

impl Ask {
    /// A request of these lengths whose answer is cut at exactly its length.
    pub fn new(prompt_tokens: u32, output_tokens: u32) -> Self {
        Self { prompt_tokens, output_tokens, output_limit: output_tokens, ..Self::default() }
    }
}

pub trait RequestSource: Send + Sync {
    fn count(&self) -> u64;
    /// Request number `index`; the same one whenever it is asked for.
    fn ask(&self, index: u64) -> Ask;
    /// Whether any request waits for the answer of another.
    fn has_sessions(&self) -> bool {
        false
    }
    /// Whether any request may be cancelled.
    fn has_cancels(&self) -> bool {
        false
    }
}

impl RequestSource for Vec<Ask> {
    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn ask(&self, index: u64) -> Ask {
        usize::try_from(index).ok().and_then(|at| self.get(at)).cloned().unwrap_or_default()
    }

    fn has_sessions(&self) -> bool {
        self.iter().any(|ask| !ask.after.is_empty())
    }

    fn has_cancels(&self) -> bool {
        self.iter().any(|ask| ask.cancel.is_some())
    }
}

/// The requests of a run and the rule by which they are sent.
#[derive(Clone)]
pub struct RequestLoad {
    pub asks: Arc<dyn RequestSource>,
    /// When they are intended to start.
    pub arrivals: Arrivals,
    /// Most requests in flight: a closed loop when they arrive at once.
    pub max_concurrency: Option<u32>,
    /// Most sessions in progress, the pauses between their turns included.
    pub max_sessions: Option<u32>,
    /// Time after which no request is begun any more.
    pub duration: Option<Nanos>,
    /// Most requests that may be in flight before the prediction is given up: an overloaded open loop
    /// would otherwise fill the memory.
    pub in_flight_max: u64,
}

/// Requests in flight at which a prediction is given up, unless the workload says otherwise.
pub const IN_FLIGHT_MAX: u64 = 4_000_000;

/// Bytes that a request in flight takes, generously.
const IN_FLIGHT_BYTES: u64 = 512;

/// Requests in flight that half of the free memory holds.
pub fn in_flight_max(memory_bytes: Option<u64>) -> u64 {
    memory_bytes.map_or(IN_FLIGHT_MAX, |bytes| (bytes / 2 / IN_FLIGHT_BYTES).min(IN_FLIGHT_MAX))
}

/// Chained hashes of the full blocks of a prompt: equal beginnings have equal hashes.
pub fn block_hashes(ids: &[u32], block_tokens: u32) -> Box<[u64]> {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = ODD;
    let mut mix = |id: &u32| {
        hash = (hash ^ u64::from(*id)).wrapping_mul(ODD);
        hash ^= hash >> 29;
        hash
    };
    let blocks = ids.chunks_exact(block_tokens.max(1) as usize);
    blocks.map(|block| block.iter().map(&mut mix).last().unwrap_or(ODD)).collect()
}

impl RequestLoad {
    /// All requests at once, without a cap.
    pub fn burst(asks: impl RequestSource + 'static) -> Self {
        Self {
            asks: Arc::new(asks),
            arrivals: Arrivals::AtOnce,
            max_concurrency: None,
            max_sessions: None,
            duration: None,
            in_flight_max: IN_FLIGHT_MAX,
        }
    }

    /// The same requests by this arrival process.
    #[must_use]
    pub fn arriving(mut self, arrivals: Arrivals) -> Self {
        self.arrivals = arrivals;
        self
    }

    /// The same requests with at most `cap` in flight.
    #[must_use]
    pub fn capped(mut self, cap: u32) -> Self {
        self.max_concurrency = Some(cap);
        self
    }

    /// Without the requests that the run's time left unsent, whose answers would count as memory.
    #[must_use]
    pub fn sent_only(self, sent: u64) -> Self {
        let is_in_order = self.arrivals != Arrivals::Traced && !self.asks.has_sessions();
        if self.duration.is_none() || !is_in_order || sent == 0 {
            return self;
        }
        let list: Vec<Ask> = (0..sent).map(|index| self.asks.ask(index)).collect();
        Self { asks: Arc::new(list), ..self }
    }
}

impl std::fmt::Debug for RequestLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workload")
            .field("requests", &self.asks.count())
            .field("arrivals", &self.arrivals)
            .field("max_concurrency", &self.max_concurrency)
            .field("max_sessions", &self.max_sessions)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_allows_few_requests_in_flight() {
        assert_eq!(in_flight_max(None), IN_FLIGHT_MAX);
        assert_eq!(in_flight_max(Some(1 << 20)), 1_024);
    }

    #[test]
    fn requests_that_a_run_of_limited_time_did_not_send_are_left_out() {
        let all = RequestLoad::burst(vec![Ask::new(10, 5); 8]);
        assert_eq!(all.clone().sent_only(3).asks.count(), 8, "no limit of time");
        let timed = RequestLoad { duration: Some(Nanos::from_secs(1)), ..all };
        assert_eq!(timed.clone().sent_only(3).asks.count(), 3);
        assert_eq!(timed.clone().sent_only(0).asks.count(), 8);
        assert_eq!(timed.arriving(Arrivals::Traced).sent_only(3).asks.count(), 8);
    }

    #[test]
    fn block_hashes_cover_everything_before_them() {
        let (one, other) = (block_hashes(&[1, 2, 3, 4, 5], 2), block_hashes(&[9, 2, 3, 4], 2));
        assert_eq!((one.len(), other.len()), (2, 2));
        assert!(one[0] != other[0] && one[1] != other[1]);
        assert_eq!(block_hashes(&[1, 2, 3, 4], 2), one);
    }
}
