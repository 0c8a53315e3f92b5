//! How a request ended.
//!
//! A failed request is data, not an error of the program: it stays in the record with its times up
//! to the failure, and counts as infinitely slow.

use serde::{Deserialize, Serialize};

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered to its regular end, with content.
    Success,
    /// Not answered, or not to the end.
    Failed(Failure),
    /// Given up by ourselves: an interrupt, or the end of the time for draining.
    Abandoned,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, which is what reports group by.
    pub kind: FailureKind,
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// First bytes of the server's body or the system's message, with secrets removed.
    pub message: String,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The request could not be written.
    Send,
    /// The server answered with a status other than success.
    Status,
    /// Connecting took longer than allowed.
    ConnectTimeout,
    /// No byte came for longer than allowed.
    Stall,
    /// The whole request took longer than allowed.
    Timeout,
    /// The stream ended before its end mark or its announced length.
    Cut,
    /// The bytes were not HTTP, or not the protocol of this dialect.
    Protocol,
    /// The server reported an error inside a stream that had begun well.
    InStream,
    /// The stream ended regularly without any content.
    NoContent,
}

impl FailureKind {
    /// All kinds, in the order of a request's life.
    pub const ALL: [Self; 11] = [
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
    ];

    /// The word used on disk and in reports.
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
        }
    }

    /// The kind of this name; `None` for names of a later version.
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
