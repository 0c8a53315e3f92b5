//! Fault injection.
//!
//! Plain data: which requests are hit and where in a stream. The front end applies it; nothing here
//! knows sockets. The default injects nothing.

use base::{Nanos, Seed};
use serde::{Deserialize, Serialize};
use tokometer_base as base;

/// Every fault that can be injected. Times are nanoseconds, counts are per stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Answers some requests with an error status.
    pub errors: Option<Errors>,
    /// Which streams stall, are cut, reset or malformed. `None` is every one.
    pub broken_streams: Option<Which>,
    /// After this many tokens the stream stands still for a while.
    pub stall: Option<Stall>,
    /// After this many tokens the connection is closed without an end of stream, even if they are all
    /// that the answer has.
    pub cut_after_tokens: Option<u32>,
    /// After this many tokens the connection is reset, likewise.
    pub reset_after_tokens: Option<u32>,
    /// After this many tokens one event is not JSON.
    pub malformed_after_tokens: Option<u32>,
    /// Nothing of an answer, not even its head, is sent before this much time.
    pub first_byte_delay: Option<Nanos>,
    /// Events that travel in one write. `None` is one; a huge number joins the whole answer.
    pub events_per_write: Option<u32>,
    /// Writes that one event is cut into.
    pub writes_per_event: Option<u32>,
    /// A comment line is sent this often while a stream is open.
    pub comment_interval: Option<Nanos>,
    pub usage: UsageFault,
    pub packets: PacketFault,
    /// Whether the end of a stream is announced twice.
    pub done: DoneFault,
    /// Request fields that are refused with 400 and their name.
    pub refused_fields: Vec<String>,
    pub broken_paths: Vec<String>,
    /// Connections are closed this long after their last answer.
    pub idle_close: Option<Nanos>,
    /// The server exits when this many requests have arrived.
    pub die_after_requests: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    pub status: u16,
    pub which: Which,
    /// A `Retry-After` header, in seconds.
    #[serde(default)]
    pub retry_after_s: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Each with this probability.
    Share(f64),
    /// Every n-th one.
    Every(u64),
    /// The first n.
    First(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    pub after_tokens: u32,
    pub span: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UsageFault {
    #[default]
    Honest,
    /// Twice the answer's tokens plus one.
    Wrong,
    /// Nothing, even if asked.
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketFault {
    /// One write per event, sent at once.
    #[default]
    Plain,
    /// Nagle's algorithm is on and each event is written in two parts.
    Nagle,
    /// The head waits for the first token and is sent just before it, in writes of its own.
    TightStart,
}

/// How often the end of a stream is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DoneFault {
    #[default]
    Once,
    Twice,
}

impl Errors {
    /// Whether request number `index` (from zero) is hit.
    pub fn hits(&self, seed: Seed, index: u64) -> bool {
        self.which.hits(seed.stream("faults"), index)
    }
}

impl Faults {
    /// The token after which a stream's connection is closed or reset, whichever comes first.
    pub(crate) fn broken_after(&self) -> Option<u32> {
        self.cut_after_tokens.into_iter().chain(self.reset_after_tokens).min()
    }

    /// Whether the stream of request number `index` (from zero) is broken where a fault says so.
    pub fn breaks(&self, seed: Seed, index: u64) -> bool {
        self.broken_streams.is_none_or(|which| which.hits(seed.stream("broken streams"), index))
    }
}

impl Which {
    fn hits(self, draws: base::seed::Stream, index: u64) -> bool {
        match self {
            Self::Share(share) => base::seed::unit_float(&mut draws.at(index)) < share,
            Self::Every(n) => n > 0 && (index + 1).is_multiple_of(n),
            Self::First(n) => index < n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_hit_whom_they_should() {
        let hit = |which| {
            let errors = Errors { status: 500, which, retry_after_s: None };
            (0..6).filter(|index| errors.hits(Seed(1), *index)).collect::<Vec<_>>()
        };
        assert_eq!(hit(Which::Every(3)), [2, 5]);
        assert_eq!(hit(Which::First(2)), [0, 1]);
        assert_eq!(hit(Which::Share(0.0)), [0_u64; 0]);
        assert_eq!(hit(Which::Share(1.0)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(hit(Which::Every(0)), [0_u64; 0]);
    }

    #[test]
    fn without_a_choice_every_stream_is_broken() {
        let broken = |broken_streams| {
            let faults = Faults { broken_streams, ..Faults::default() };
            (0..4).filter(|index| faults.breaks(Seed(1), *index)).collect::<Vec<_>>()
        };
        assert_eq!(broken(None), [0, 1, 2, 3]);
        assert_eq!(broken(Some(Which::Every(2))), [1, 3]);
    }
}
