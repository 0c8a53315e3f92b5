//! How a request ended.
//!
//! A failed request is data, not an error of the program: it stays in the record with its times up to
//! the failure, and counts as infinitely slow.

use serde::{Deserialize, Serialize};

/// Final state of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A complete response with content.
    Success,
    /// No response, or an incomplete one.
    Failed(Failure),
    /// Ended by the client: an interrupt, or the end of the drain time.
    Abandoned,
}

/// Kind, status and message of a failed attempt.
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
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The request could not be written.
    Send,
    /// The server responded with a status that is not 2xx.
    Status,
    /// Connecting exceeded its timeout.
    ConnectTimeout,
    /// No byte arrived within the stall timeout.
    Stall,
    /// The whole request exceeded its timeout.
    Timeout,
    /// The stream ended before its end mark or its announced length.
    Cut,
    /// The bytes were not HTTP, or not this dialect's protocol.
    Protocol,
    /// The server reported an error inside a stream.
    InStream,
    /// The stream ended regularly without any content.
    NoContent,
    /// This machine could not make the connection: descriptors, ports, memory, a firewall of its own.
    Client,
}

impl FailureKind {
    /// In the order in which they can happen in a request.
    pub const ALL: [Self; 12] = [
        Self::Connect,
        Self::Tls,
        Self::Send,
        Self::Status,
        Self::ConnectTimeout,
        Self::Stall,
        Self::Timeout,
        Self::Cut,
        Self::Protocol,
        Self::InStream,
        Self::NoContent,
        Self::Client,
    ];

    /// The name on disk and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Send => "send",
            Self::Status => "status",
            Self::ConnectTimeout => "connect-timeout",
            Self::Stall => "stall",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::Protocol => "protocol",
            Self::InStream => "in-stream",
            Self::NoContent => "no-content",
            Self::Client => "client",
        }
    }

    /// What happened, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Connect => "could not connect",
            Self::Tls => "TLS handshake failed",
            Self::Send => "the request could not be sent",
            Self::Status => "error status",
            Self::ConnectTimeout => "connecting timed out",
            Self::Stall => "the response stalled",
            Self::Timeout => "the request timed out",
            Self::Cut => "the response was cut off",
            Self::Protocol => "unusable response",
            Self::InStream => "error inside the response",
            Self::NoContent => "response without content",
            Self::Client => "limit of this machine",
        }
    }

    /// `None` for names of a later version.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Failure {
    /// A failure without an HTTP status.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, status: None, message: message.into() }
    }
}
