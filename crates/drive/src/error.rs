//! Why a run could not be started or continued. A failed request is not an error: it is data.

/// Why the source could not make a further item.
pub type PrepareError = Box<dyn std::error::Error + Send + Sync>;

/// Ends the run. Whatever was measured before is in the record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Schedule(#[from] tokometer_schedule::Error),
    #[error(
        "cannot open {wanted} connections: this process may open {limit} files, which leaves {possible} connections\n  try `--max-concurrency {possible}`, or raise the hard limit (`ulimit -Hn`)"
    )]
    Descriptors { wanted: u64, limit: u64, possible: u64 },
    #[error("cannot prepare request {index}: {source}")]
    Prepare { index: u64, source: PrepareError },
    #[error(
        "cannot warm up: all {count} requests failed: {why}\n  use `--num-warmups 0` to skip the warm-up, or `--conventions vllm` to ignore its failures"
    )]
    WarmUps { count: u64, why: String },
    #[error("cannot begin the measured phase: {reason}")]
    Start { reason: String },
    #[error("cannot send request {index} to target {target}: the run has {targets} targets")]
    Target { index: u64, target: u16, targets: usize },
    /// A thread of the run panicked. Its requests in flight are lost; all others are recorded.
    #[error("internal error: the {thread} thread panicked: {message}\n  please report this bug")]
    Panicked { thread: &'static str, message: String },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: std::io::Error },
}

impl Error {
    /// For `map_err` on system calls.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(nix::errno::Errno) -> Self {
        move |errno| Self::System { what, source: errno.into() }
    }
}
