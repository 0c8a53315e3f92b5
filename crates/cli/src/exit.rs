//! Exit codes. Scripts depend on them, so a code never changes its meaning.

use std::fmt;
use std::io;
use std::process::ExitCode;

use tokometer_measure as measure;
use tokometer_sim::what_if;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// Success, but a rule of `compare --fail-if` is violated, `capacity` found no measured load that
    /// meets the objectives, `doctor` found an inconsistency, or the load of `doctor --load` is beyond
    /// this machine.
    Missed = 1,
    /// The command line or the plan cannot be used.
    Usage = 2,
    /// The target cannot be used.
    Target = 3,
    /// The run is INVALID and `--strict` was given.
    Invalid = 4,
    /// Some points of a sweep or shards of a run failed; the others are kept.
    Points = 5,
    /// A file or stdout could not be written.
    Write = 6,
    /// No request succeeded.
    NoSuccess = 7,
    /// The data cannot tell whether a rule of `compare` is violated, and `--require-power` was given.
    CannotTell = 8,
    /// A bug in this program.
    Internal = 70,
    /// Ended by Ctrl-C, SIGTERM or SIGHUP.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that carries its exit code and, on a line of its own, what to try.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The code to leave with.
    pub(crate) exit: Exit,
    /// What could not be done, to what, and why.
    pub(crate) message: String,
    /// What to try. Empty when there is nothing useful to say.
    pub(crate) hint: String,
}

impl Refusal {
    /// A refusal without a hint.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: String::new() }
    }

    /// Bad usage, with what to try.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), hint: hint.into() }
    }

    /// The same refusal with what to try.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\n  {}", self.hint) }
    }
}

impl std::error::Error for Refusal {}

impl From<measure::Error> for Refusal {
    fn from(error: measure::Error) -> Self {
        let exit = match error.kind {
            measure::ErrorKind::Usage => Exit::Usage,
            measure::ErrorKind::Target => Exit::Target,
            measure::ErrorKind::Write => Exit::Write,
            measure::ErrorKind::NoSuccess => Exit::NoSuccess,
            measure::ErrorKind::NotStarted => Exit::Points,
            measure::ErrorKind::Interrupted => Exit::Interrupted,
            measure::ErrorKind::Internal => Exit::Internal,
        };
        Self { exit, message: error.message, hint: error.hint }
    }
}

impl From<what_if::WhatIfError> for Refusal {
    fn from(error: what_if::WhatIfError) -> Self {
        Self::usage(format!("cannot use `--set`: {error}"), "")
    }
}

/// Why a file cannot be used, for people: the system's words without the number of the error.
pub(crate) fn reason(why: &io::Error) -> String {
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

/// The code of an error: that of the refusal inside it, else bad usage, because every error that
/// reaches `main` without a code of its own comes from reading what the user gave.
pub(crate) fn code_of(error: &anyhow::Error) -> Exit {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Refusal>())
        .map_or(Exit::Usage, |refusal| refusal.exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_this_program_has_a_code_of_its_own() {
        let error = measure::Error::new(measure::ErrorKind::Internal, "a thread panicked");
        let code = Refusal::from(error).exit;
        assert_eq!((code, code as u8), (Exit::Internal, 70));
    }

    #[test]
    fn a_refusal_keeps_its_code_below_any_context() {
        let refusal = Refusal::new(Exit::Write, "cannot write `x`").hint("free some space");
        assert_eq!(refusal.to_string(), "cannot write `x`\n  free some space");
        let error = anyhow::Error::new(refusal).context("while saving");
        assert_eq!(code_of(&error), Exit::Write);
        assert_eq!(code_of(&anyhow::anyhow!("no such file")), Exit::Usage);
    }
}
