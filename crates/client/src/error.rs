//! Errors that end the work of a client. A failed request is not among them: it is a `Failure` in the
//! record.

use std::io;
use std::path::PathBuf;

use tokometer_base::Nanos;

use crate::cause;

/// Why a client could not be set up, or a control request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is not a usable URL.
    #[error("cannot use the address `{address}`: {reason}")]
    Address {
        /// As given, without keys.
        address: String,
        /// Completes the sentence "cannot use the address".
        reason: &'static str,
    },
    /// A prompt form that the protocol has no field for.
    #[error("cannot send {form} with the backend `{backend}`\n  it accepts {takes}")]
    PromptForm {
        /// Such as `token ids`.
        form: &'static str,
        /// As given to `--backend`.
        backend: &'static str,
        /// The forms that the backend accepts.
        takes: &'static str,
    },
    /// A header that contains a line break or another byte that ends it.
    #[error(
        "cannot send the header `{0}`: its name is empty, or it has a character that no header may have"
    )]
    Header(String),
    /// A constraint or tools that the protocol has no field for.
    #[error("cannot send {what} with the backend `{backend}`: its protocol has no field for it")]
    Structured {
        /// Such as `a JSON schema`.
        what: &'static str,
        /// As given to `--backend`.
        backend: &'static str,
    },
    /// An extra body that is not a JSON object.
    #[error("cannot merge the extra body into the request: {0}")]
    ExtraBody(String),
    /// No connection to the server.
    #[error("cannot reach {address}: {}", cause::describe(.source))]
    Reach {
        /// URL with the path of the request.
        address: String,
        /// From the operating system or TLS.
        source: io::Error,
    },
    /// The server accepted the connection, and then nothing came.
    #[error("no answer from {address} within {within}")]
    Silent {
        /// Who did not answer.
        address: String,
        /// The time that it had.
        within: Nanos,
    },
    /// The server sent us elsewhere, and we could not go there.
    #[error("{address} redirects: {reason}")]
    Redirect {
        /// Whose answer.
        address: String,
        /// Where to, and what to do about it.
        reason: String,
    },
    /// A response that is not HTTP.
    #[error("cannot read the response of {address}: {reason}")]
    Answer {
        /// URL with the path of the request.
        address: String,
        /// From the HTTP reader.
        reason: String,
    },
    /// The server closed the connection inside its answer.
    #[error("cannot read the response of {address}: the connection closed before its end")]
    Cut {
        /// Whose answer.
        address: String,
    },
    /// The server's answer was a page for people.
    #[error("cannot use the response of {address}: {what}")]
    WebPage {
        /// Whose answer.
        address: String,
        /// The page, with what to do about it.
        what: String,
    },
    /// A control request whose status is not 2xx.
    #[error("{address} responded with status {status}: {body}")]
    Status {
        /// URL with the path of the request.
        address: String,
        /// The response's status code.
        status: u16,
        /// First bytes of its body, with secrets removed.
        body: String,
    },
    /// A proxy of the environment that cannot be used. Its URL may hold a password and is not repeated.
    #[error(
        "cannot use the proxy that the environment names: {reason}\n  change HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or use --no-proxy"
    )]
    Proxy {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A client certificate or its key could not be used.
    #[error("cannot use the client certificate `{path}`: {reason}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file of certificates could not be used.
    #[error("cannot use the certificates in `{path}`: {reason}")]
    Certificates {
        /// As given to the trust option.
        path: PathBuf,
        /// From the file system or the PEM parser.
        reason: String,
    },
    /// A TLS configuration that rustls rejects.
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
