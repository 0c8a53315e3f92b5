//! Flags that say where results go.

use std::path::PathBuf;

use clap::Args;

use super::target::pair;

/// Where results go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct OutputArgs {
    /// Name of the run
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Folder of the run [default: runs/TIME-NAME]
    #[arg(long, short = 'o', value_name = "DIR", conflicts_with = "no_run_dir")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Do not save a record of the run
    #[arg(long)]
    pub(crate) no_run_dir: bool,
    /// Skip points of a sweep that are already in --run-dir
    #[arg(long, conflicts_with = "no_run_dir")]
    pub(crate) resume: bool,
    /// Remove an earlier run from --run-dir first
    #[arg(long, conflicts_with_all = ["resume", "no_run_dir"])]
    pub(crate) overwrite: bool,
    /// Print the summary as JSON; the points of a sweep are one document
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors, and the JSON of --json
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Show a live full-screen dashboard
    #[arg(long)]
    pub(crate) live: bool,
    /// Serve counters in Prometheus format on 127.0.0.1:PORT
    #[arg(long, value_name = "PORT")]
    pub(crate) prometheus_port: Option<u16>,
    /// Show no progress bar
    #[arg(long)]
    pub(crate) disable_tqdm: bool,
    /// Write vLLM's result file
    #[arg(long)]
    pub(crate) save_result: bool,
    /// Include the figures of every request in vLLM's result file
    #[arg(long)]
    pub(crate) save_detailed: bool,
    /// Append to the result file
    #[arg(long)]
    pub(crate) append_result: bool,
    /// Folder of the result file [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) result_dir: Option<PathBuf>,
    /// Name of the result file [default: built from label, load, model and time]
    #[arg(long, value_name = "NAME")]
    pub(crate) result_filename: Option<String>,
    /// Metadata to add to the result file
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., value_parser = pair)]
    pub(crate) metadata: Vec<(String, String)>,
    /// Prefix of the result file's name [default: the backend]
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Append a line to SGLang's result file
    #[arg(long, value_name = "FILE")]
    pub(crate) output_file: Option<PathBuf>,
    /// Include the figures of every request in SGLang's result file
    #[arg(long)]
    pub(crate) output_details: bool,
    /// Tag of the line in SGLang's result file
    #[arg(long)]
    pub(crate) tag: Option<String>,
}
