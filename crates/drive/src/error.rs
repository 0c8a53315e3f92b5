//! Why a run could not be started or continued. A failed request is not an error: it is data.

use crate::item::PrepareError;

/// Ends the run. Whatever was measured before is in the record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Arrivals or limits that contradict each other.
    #[error(transparent)]
    Schedule(#[from] tokometer_schedule::Error),
    /// The run needs more connections than the process may open.
    #[error(
        "cannot open {wanted} connections: this process may open {limit} files, which leaves {possible} connections\n  try `--max-concurrency {possible}`, or raise the hard limit (`ulimit -Hn`)"
    )]
    Descriptors {
        /// Connections that the run needs.
        wanted: u64,
        /// The hard limit of descriptors.
        limit: u64,
        /// Connections that fit under the limit.
        possible: u64,
    },
    /// The source of requests failed.
    #[error("cannot prepare request {index}: {source}")]
    Prepare {
        /// Number of requests made before.
        index: u64,
        /// From the source.
        source: PrepareError,
    },
    /// All warm-up requests failed, and the plan requires one to succeed.
    #[error(
        "cannot warm up: all {count} requests failed: {why}\n  use `--num-warmups 0` to skip the warm-up, or `--compat vllm` to ignore its failures"
    )]
    WarmUps {
        /// Warm-up requests sent.
        count: u64,
        /// The failure of the last one.
        why: String,
    },
    /// The processes of a shared run could not agree on a start.
    #[error("cannot begin the measured phase: {reason}")]
    Start {
        /// From the one that waited.
        reason: String,
    },
    /// A request names a target that the run does not have.
    #[error("cannot send request {index} to target {target}: the run has {targets} targets")]
    Target {
        /// Of the request in the plan.
        index: u64,
        /// The target's index as requested.
        target: u16,
        /// Number of targets in the run.
        targets: usize,
    },
    /// A thread of the run panicked. Its requests in flight are lost; all others are recorded.
    #[error("internal error: the {thread} thread panicked: {message}\n  please report this bug")]
    Panicked {
        /// Such as `worker`.
        thread: &'static str,
        /// The panic's message.
        message: String,
    },
    /// A system call failed that the run needs.
    #[error("cannot {what}: {source}")]
    System {
        /// Completes the sentence "cannot …".
        what: &'static str,
        /// From the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err` on system calls.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::System { what, source: errno.into() }
    }
}
