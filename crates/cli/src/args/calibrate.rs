//! Flags of `tokometer calibrate`.

use std::path::PathBuf;

use clap::Args;

/// `tokometer calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Printed reports, result files and run folders of one server
    #[arg(required = true, value_name = "REPORT|RUN")]
    pub(crate) sources: Vec<PathBuf>,
    /// File to write the profile to
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Template: a profile whose scheduler and other values that are not fitted are kept [default: the
    /// template that fits the reports best; `default` for runs]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) from: Option<String>,
    /// Name of the profile [default: the name of the file]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Maximum output length of the requests, if the reports do not state it
    #[arg(long, value_name = "TOKENS")]
    pub(crate) output_limit: Option<u32>,
    /// The reports come from a single-threaded client with this overhead [default: 1.5,0.05]
    #[arg(
        long,
        value_name = "REQUEST_MS,EVENT_MS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1.5,0.05"
    )]
    pub(crate) old_client: Option<String>,
    /// Number of searches from each of the three starting points of a fit to reports
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) searches: usize,
    /// Random seed of the search
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}
