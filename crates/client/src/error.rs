//! What this room cannot go on from. A request that fails is not here: it is a record's `Failure`.

use std::io;
use std::path::PathBuf;

/// Why something of the client could not be made or asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is not a URL we can send to.
    #[error("cannot use the address `{address}`: {reason}")]
    Address {
        /// The address as given, without keys.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A prompt in a form that the server protocol has no field for.
    #[error("cannot send {form} with the backend `{backend}`\n  it accepts {takes}")]
    PromptForm {
        /// The form of the prompt.
        form: &'static str,
        /// The backend's name.
        backend: &'static str,
        /// The forms that would do.
        takes: &'static str,
    },
    /// A header that would break the request's head.
    #[error("cannot send the header `{0}`: its name is empty, or it contains a line break")]
    Header(String),
    /// An extra body that is not a JSON object.
    #[error("cannot merge the extra body into the request: {0}")]
    ExtraBody(String),
    /// The server could not be reached.
    #[error("cannot reach {address}: {source}")]
    Reach {
        /// Where to.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The server's answer was not HTTP.
    #[error("cannot read the response of {address}: {reason}")]
    Answer {
        /// Whose answer.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server refused a control request.
    #[error("{address} responded with status {status}: {body}")]
    Status {
        /// Whose answer.
        address: String,
        /// Its HTTP status.
        status: u16,
        /// First bytes of its body, with secrets removed.
        body: String,
    },
    /// A file of certificates could not be used.
    #[error("cannot use the certificates in `{path}`: {reason}")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}
