//! Flags of `tokometer compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ComparisonView {
    /// For a terminal.
    #[default]
    Text,
    /// For a pull request.
    Markdown,
    /// For other programs.
    Json,
}

/// `tokometer compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// A run of `bench --against`, which holds both targets
    #[arg(value_name = "RUN", conflicts_with_all = ["a", "b"])]
    pub(crate) run: Option<PathBuf>,
    /// Runs of the first side: run folders, other tools' results, printed reports
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) a: Vec<PathBuf>,
    /// Runs of the second side
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) b: Vec<PathBuf>,
    /// Exit with code 1 if this is true, such as "ttft p99 worse by 5%"; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) fail_if: Vec<String>,
    /// Exit with code 8 if the data cannot tell whether a rule is violated
    #[arg(long, requires = "fail_if")]
    pub(crate) require_power: bool,
    /// Differences within this share of A are negligible
    #[arg(long, default_value = "1%", value_name = "SHARE")]
    pub(crate) equivalence: String,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ComparisonView,
    /// Also write the comparison as an HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Compare the runs even if their workloads differ
    #[arg(long)]
    pub(crate) force: bool,
}
