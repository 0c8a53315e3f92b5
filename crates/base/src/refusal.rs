//! Why a command cannot go on, for people.

use std::fmt;
use std::io;

/// What kind of trouble it is; the program's exit code follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The command line, the plan, or a file that they name cannot be used.
    Usage,
    Target,
    /// A file or stdout could not be written.
    Write,
    /// No request succeeded, and the conventions require one.
    NoSuccess,
    /// Some points of a sweep or processes of a run failed.
    Points,
    /// Interrupted by the user before anything could be reported.
    Interrupted,
    Internal,
}

/// A message and, on a line of its own, what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// What could not be done, to what, and why.
    pub message: String,
    /// What to try. Empty when there is nothing useful to say.
    pub hint: String,
}

impl Refusal {
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new() }
    }

    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Usage, message: message.into(), hint: hint.into() }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.hint) }
    }
}

impl std::error::Error for Refusal {}

/// Why a file cannot be used, for people: the system's words without the number of the error.
pub fn reason(why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is not a folder".to_owned(),
        _ => {
            let text = why.to_string();
            text.split(" (os error ").next().unwrap_or_default().to_owned()
        }
    }
}
