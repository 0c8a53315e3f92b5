//! Why a run could not be made. A request that fails is no error: it is data.

use crate::item::PrepareError;

/// What keeps a run from starting or going on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The load makes no sense.
    #[error(transparent)]
    Schedule(#[from] tokometer_schedule::Error),
    /// More connections are needed than descriptors may be opened.
    #[error(
        "cannot open {wanted} connections: this process may open {limit} files, which leaves {possible} connections\n  try `--max-concurrency {possible}`, or raise the hard limit (`ulimit -Hn`)"
    )]
    Descriptors {
        /// Connections that the run would need.
        wanted: u64,
        /// The hard limit of descriptors.
        limit: u64,
        /// Connections that are possible.
        possible: u64,
    },
    /// The items ran into an error of their own.
    #[error("cannot prepare request {index}: {source}")]
    Prepare {
        /// Number of items made before.
        index: u64,
        /// What went wrong.
        source: PrepareError,
    },
    /// No warm-up was answered, and the plan needs one.
    #[error(
        "cannot warm up: all {count} requests failed: {why}\n  use `--num-warmups 0` to skip the warm-up, or `--compat vllm` to ignore its failures"
    )]
    WarmUps {
        /// Warm-ups sent.
        count: u64,
        /// How the last of them failed.
        why: String,
    },
    /// A request names a target that the run does not have.
    #[error("cannot send request {index} to target {target}: the run has {targets} targets")]
    Target {
        /// Index of the request.
        index: u64,
        /// The target it names.
        target: u16,
        /// Targets there are.
        targets: usize,
    },
    /// A thread of the run panicked. What it had in flight is lost; everything else is recorded.
    #[error("internal error: the {thread} thread panicked: {message}\n  please report this bug")]
    Panicked {
        /// Name of the thread.
        thread: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The system refused something a run cannot do without.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err` on calls to the system.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::System { what, source: errno.into() }
    }
}
