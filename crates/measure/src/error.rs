//! Why a measurement could not be made.

use std::fmt;

/// What kind of failure it is. Callers turn it into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The plan, or a file it names, cannot be used.
    Usage,
    /// The target cannot be used.
    Target,
    /// Something could not be written.
    Write,
    /// No request succeeded where the rules need one.
    NoSuccess,
    /// The user interrupted it before there was anything to report.
    Interrupted,
    /// A fault of this program.
    Internal,
}

/// What could not be done, to what, and why; on a line of its own, what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub kind: Kind,
    /// What could not be done, to what, and why.
    pub message: String,
    /// What to try. Empty when there is nothing useful to say.
    pub hint: String,
}

impl Error {
    /// An error without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new() }
    }

    /// A plan that cannot be used, with what to try.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into(), hint: hint.into() }
    }

    /// The same error with what to try.
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
