//! Why a measurement could not be made.

use std::fmt;

/// Callers map it to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The plan, or a file that it names, cannot be used.
    Usage,
    /// The target cannot be used.
    Target,
    /// A file could not be written.
    Write,
    /// No request succeeded, and the conventions require one.
    NoSuccess,
    /// The other processes of the run did not start it.
    NotStarted,
    /// Interrupted by the user before anything could be reported.
    Interrupted,
    /// A bug in this program.
    Internal,
}

/// A message, and a hint on its own line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Decides the exit code.
    pub kind: ErrorKind,
    /// What could not be done, to what, and why.
    pub message: String,
    /// What to try. Empty when there is nothing useful to suggest.
    pub hint: String,
}

impl Error {
    /// Without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new() }
    }

    /// A plan that cannot be used, with a hint.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, message: message.into(), hint: hint.into() }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.hint) }
    }
}

impl std::error::Error for Error {}
