//! How a request ended.
//!
//! A failed request is data, not an error of the program: it stays in the record with its times up to
//! the failure, and counts as infinitely slow.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Success,
    Failed(Failure),
    /// Ended by the client because the plan's user gave up, before the answer was complete.
    Cancelled,
    /// Ended by the client: an interrupt, or the end of the drain time.
    #[default]
    Abandoned,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Reports group failures by it.
    pub kind: FailureKind,
    /// `None` when no response header arrived.
    pub status: Option<u16>,
    /// First bytes of the server's body, or the system's message. Secrets are removed.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    Connect,
    Tls,
    Send,
    /// The server responded with a status that is not 2xx.
    Status,
    ConnectTimeout,
    /// No byte arrived within the stall timeout.
    Stall,
    Timeout,
    /// The stream ended before its end mark or its announced length.
    Cut,
    /// The bytes were not HTTP, or not this dialect's protocol.
    Protocol,
    InStream,
    NoContent,
    /// This machine could not make the connection: descriptors, ports, memory, a firewall of its own.
    Client,
}

impl FailureKind {
    /// In the order in which they can happen in a request: each with its name on disk and in reports, and what
    /// happened in words.
    pub(crate) const WORDS: [(Self, &str, &str); 12] = [
        (Self::Connect, "connect", "could not connect"),
        (Self::Tls, "tls", "TLS handshake failed"),
        (Self::Send, "send", "the request could not be sent"),
        (Self::Status, "status", "error status"),
        (Self::ConnectTimeout, "connect-timeout", "connecting timed out"),
        (Self::Stall, "stall", "the response stalled"),
        (Self::Timeout, "timeout", "the request timed out"),
        (Self::Cut, "cut", "the response was cut off"),
        (Self::Protocol, "protocol", "unusable response"),
        (Self::InStream, "in-stream", "error inside the response"),
        (Self::NoContent, "no-content", "response without content"),
        (Self::Client, "client", "limit of this machine"),
    ];

    pub fn name(self) -> &'static str {
        Self::WORDS[self as usize].1
    }

    pub fn describe(self) -> &'static str {
        Self::WORDS[self as usize].2
    }

    /// `None` for names of a later version.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WORDS.into_iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| kind)
    }
}

impl Failure {
    /// A failure without an HTTP status.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, status: None, message: message.into() }
    }
}
