//! Errors that end the work of a client. A failed request is not among them: it is a `Failure` in the
//! record.

use std::io;
use std::path::PathBuf;

use tokometer_base::Nanos;

use crate::cause;

/// Why a client could not be set up, or a control request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use the address `{address}`: {reason}")]
    Address {
        /// As given, without keys.
        address: String,
        reason: &'static str,
    },
    #[error("cannot send {form} with the backend `{backend}`\n  it accepts {takes}")]
    PromptForm { form: &'static str, backend: &'static str, takes: &'static str },
    /// A header that contains a line break or another byte that ends it.
    #[error(
        "cannot send the header `{0}`: its name is empty, or it has a character that no header may have"
    )]
    Header(String),
    #[error("cannot send {what} with the backend `{backend}`: its protocol has no field for it")]
    Structured { what: &'static str, backend: &'static str },
    #[error("cannot merge the extra body into the request: {0}")]
    ExtraBody(String),
    #[error("cannot reach {address}: {}", cause::describe(.source))]
    Reach { address: String, source: io::Error },
    #[error("no answer from {address} within {within}")]
    Silent { address: String, within: Nanos },
    #[error("{address} redirects: {reason}")]
    Redirect { address: String, reason: String },
    #[error("cannot read the response of {address}: {reason}")]
    Answer { address: String, reason: String },
    #[error("cannot read the response of {address}: the connection closed before its end")]
    Cut { address: String },
    #[error("cannot use the response of {address}: {what}")]
    WebPage { address: String, what: String },
    #[error("{address} responded with status {status}: {body}")]
    Status {
        address: String,
        status: u16,
        /// First bytes of its body, with secrets removed.
        body: String,
    },
    /// A proxy of the environment that cannot be used. Its URL may hold a password and is not repeated.
    #[error(
        "cannot use the proxy that the environment names: {reason}\n  change HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or use --no-proxy"
    )]
    Proxy { reason: &'static str },
    #[error("cannot use the client certificate `{path}`: {reason}")]
    Identity { path: PathBuf, reason: String },
    #[error("cannot use the certificates in `{path}`: {reason}")]
    Certificates { path: PathBuf, reason: String },
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

impl Error {
    /// What to try, for the errors of reaching a server. Empty where the message says it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Reach { source, .. } => cause::advice(source),
            Self::Silent { .. } => {
                "the port may be another service's, or the server hangs; check its log"
            }
            _ => "",
        }
    }
}
