//! Exit codes. Scripts depend on them, so a code never changes its meaning.

use std::process::ExitCode;

pub(crate) use tokometer_base::refusal::{Refusal, RefusalKind, reason};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// Success, but a rule of `compare --fail-if` is violated, `bench` missed an objective of `--slo`, `capacity` found no measured load that
    /// meets the objectives, `doctor` found an inconsistency, `dataset --check` a row that cannot be used, or the load of `doctor --load` is beyond
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
    /// The data cannot tell whether a rule of `compare` is violated or an objective of `bench` is met, and
    /// `--require-power` was given.
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

impl From<RefusalKind> for Exit {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::Usage => Self::Usage,
            RefusalKind::Target => Self::Target,
            RefusalKind::Write => Self::Write,
            RefusalKind::NoSuccess => Self::NoSuccess,
            RefusalKind::Points => Self::Points,
            RefusalKind::Interrupted => Self::Interrupted,
            RefusalKind::Internal => Self::Internal,
        }
    }
}

/// The code of an error: that of the refusal inside it, else bad usage, because every error that
/// reaches `main` without a code of its own comes from reading what the user gave.
pub(crate) fn code_of(error: &anyhow::Error) -> Exit {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Refusal>())
        .map_or(Exit::Usage, |refusal| refusal.kind.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_this_program_has_a_code_of_its_own() {
        let code = Exit::from(RefusalKind::Internal);
        assert_eq!((code, code as u8), (Exit::Internal, 70));
    }

    #[test]
    fn a_refusal_keeps_its_code_below_any_context() {
        let refusal = Refusal::new(RefusalKind::Write, "cannot write `x`").hint("free some space");
        assert_eq!(refusal.to_string(), "cannot write `x`\n  free some space");
        let error = anyhow::Error::new(refusal).context("while saving");
        assert_eq!(code_of(&error), Exit::Write);
        assert_eq!(code_of(&anyhow::anyhow!("no such file")), Exit::Usage);
    }
}
