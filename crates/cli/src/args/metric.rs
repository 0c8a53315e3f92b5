//! Flags that choose and judge figures.

use clap::Args;

/// Which figures are shown, and the objectives they are compared with.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricArgs {
    /// Layout of the classic report; `tokometer` prints only our summary [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// Sections of the report: any of ttft,tpot,itl,e2el [default: ttft,tpot,itl]
    #[arg(long, value_name = "LIST")]
    pub(crate) percentile_metrics: Option<String>,
    /// Percentiles of each section [default: 99]
    #[arg(long, value_name = "LIST")]
    pub(crate) metric_percentiles: Option<String>,
    /// Goodput objectives in milliseconds, such as ttft:200 tpot:50 e2el:3000
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub(crate) goodput: Vec<String>,
    /// Exit with code 4 if the run is INVALID
    #[arg(long)]
    pub(crate) strict: bool,
}
