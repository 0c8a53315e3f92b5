//! The commands, and the way from words to one of them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{
    ArgGroup, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
};
use clap_complete::Shell;
use tokometer_decide::capacity::LoadKind;
use tokometer_twin::Routing;

use super::address;
use super::compat::{Rewritten, rewrite};
use super::help::shaped;
use super::{AddressArgs, BenchArgs, JudgedArgs};
use crate::exit::Refusal;

/// Measure LLM inference servers.
#[derive(Debug, Parser)]
#[command(name = "tokometer", version = crate::version::long(), about, max_term_width = 100)]
#[command(arg_required_else_help = true, after_help = EXAMPLES, override_usage = USAGE)]
struct Cli {
    /// When to use colours: auto, always or never [default: auto]
    #[arg(long, global = true, value_enum, value_name = "WHEN", hide_possible_values = true)]
    color: Option<ColourArg>,
    #[command(subcommand)]
    command: Command,
}

const USAGE: &str = "\
tokometer [OPTIONS] <COMMAND>
       tokometer <URL>";

const EXAMPLES: &str = "\
Examples:
  tokometer http://127.0.0.1:8000
  tokometer bench --base-url http://127.0.0.1:8000 -n 500 -c 32
  tokometer capacity http://127.0.0.1:8000 --slo \"p99 ttft < 2s\"
  tokometer report runs/RUN --html page.html

An address alone is measured at 1, 2, 4, … requests in flight for two minutes (a staircase).

`tokometer help COMMAND` and `tokometer COMMAND -h` explain a command.";

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourArg {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always, also in files and pipes
    Always,
    /// Never
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure an endpoint, or the embedded simulated server if no target is given
    #[command(alias = "sweep")]
    Bench(BenchCommand),
    /// Show saved runs and reports of other tools
    Report(ReportArgs),
    /// Compare two sets of runs, or the two targets of a `bench --against` run
    Compare(CompareArgs),
    /// Show or export the prompts that bench would send
    Dataset(DatasetArgs),
    /// Find the highest load that meets given objectives (SLOs)
    Capacity(CapacityArgs),
    /// Predict the results of bench from an engine profile, in virtual time
    Predict(PredictArgs),
    /// Fit an engine profile to printed reports or saved runs of a server
    Calibrate(CalibrateArgs),
    /// Check reports for inconsistencies, or check whether this machine can measure a load
    Doctor(DoctorArgs),
    /// Explain a note: when it appears, what it affects, why, and what to do
    Explain {
        /// Code of the note, such as slow-refill
        note: String,
    },
    /// Merge the shards of a run that several processes made
    Merge(MergeArgs),
    /// Run the simulated server on a port
    Sim(SimArgs),
    /// Print the completion script of a shell
    Completions {
        /// Name of the shell
        shell: Shell,
    },
    /// Write one manual page per command to a folder
    #[command(hide = true)]
    Man {
        /// The folder; created if it does not exist
        folder: PathBuf,
    },
    /// Print a documentation page that is generated from the program
    #[command(hide = true)]
    Docs {
        /// Name of the page
        page: DocPage,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DocPage {
    /// `docs/migrating.md`
    Migrating,
    /// The keys at the end of `docs/plan-file.md`
    PlanFile,
}

/// `tokometer bench`: an address and a budget beside the flags that other commands share.
#[derive(Debug, Clone, Default, Args)]
#[command(args_override_self = true)]
pub(crate) struct BenchCommand {
    #[command(flatten)]
    pub(crate) at: AddressArgs,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
    #[command(flatten)]
    pub(crate) judged: JudgedArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TableFormatArg {
    /// Aligned columns.
    #[default]
    Text,
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
    /// A Markdown table.
    Markdown,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  tokometer report runs/RUN
  tokometer report sweep --html page.html --gpus 8 --price 2.5/h
  tokometer report before after --label before --label after --html page.html
  tokometer report nightly-* --history";

/// `tokometer report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
#[command(group(ArgGroup::new("per_gpu").args(["html", "inferencex", "llm_d"]).multiple(true)))]
pub(crate) struct ReportArgs {
    /// Run folders, and files with printed reports; `-` reads standard input
    #[arg(required = true, value_name = "RUN|FILE")]
    pub(crate) sources: Vec<PathBuf>,
    /// Layout of the report: auto, same, tokometer, or one of the other tools' layouts
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) layout: Option<String>,
    /// Show everything that is known of the runs, with all notes
    #[arg(long)]
    pub(crate) details: bool,
    /// Format of standard output: a table with one row per report
    #[arg(long, value_enum)]
    pub(crate) format: Option<TableFormatArg>,
    /// Write a self-contained HTML page with figures, distributions, time series, swim lanes and curves
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Number of GPUs behind the endpoint, for tokens per second per GPU
    #[arg(long, value_name = "N", requires = "per_gpu")]
    pub(crate) gpus: Option<u32>,
    /// Price of one GPU, such as 2.5/h, for the cost per million tokens on the page
    #[arg(long, value_name = "PRICE", requires = "gpus")]
    pub(crate) price: Option<String>,
    /// Objectives to draw on the page and to judge its runs by, such as "p99 ttft < 2s"
    #[arg(long, value_name = "OBJECTIVES", requires = "html", conflicts_with = "history")]
    pub(crate) slo: Vec<String>,
    /// Name of a source on the page, once per source in their order
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Vec<String>,
    /// Show runs over time, each compared with the one before, or by --label
    #[arg(long, conflicts_with_all = ["layout", "format", "perfetto", "csv", "parquet", "markdown"])]
    pub(crate) history: bool,
    /// Write a trace for Perfetto
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write one row per request as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write one row per request as Parquet, with its events
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) parquet: Option<PathBuf>,
    /// Write the summary as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write the result file of the InferenceX kit, and with --gpus its aggregate
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) inferencex: Option<PathBuf>,
    /// Write llm-d's benchmark report 0.2
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) llm_d: Option<PathBuf>,
    /// Metadata for the files of --inferencex and --llm-d, such as hw=h200
    #[arg(
        long,
        value_name = "KEY=VALUE",
        num_args = 1..,
        value_parser = pair,
        hide_short_help = true
    )]
    pub(crate) metadata: Vec<(String, String)>,
    /// Repair a truncated record first
    #[arg(long, hide_short_help = true)]
    pub(crate) repair: bool,
    /// Sections of the report: any of ttft,tpot,itl,e2el
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    pub(crate) percentile_metrics: Option<String>,
    /// Percentiles of each section
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    pub(crate) metric_percentiles: Option<String>,
    /// Goodput objectives in milliseconds, such as ttft:200 tpot:50
    #[arg(long, value_name = "METRIC:MS", num_args = 1.., hide_short_help = true)]
    pub(crate) goodput: Vec<String>,
}

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
    /// A and B: two runs, or two folders of runs; or one run of `bench --against`, which holds both
    #[arg(value_name = "RUN", conflicts_with_all = ["a", "b"])]
    pub(crate) runs: Vec<PathBuf>,
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
    /// Format of standard output
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ComparisonView,
    /// Show all figures, and what the answer rests on
    #[arg(long)]
    pub(crate) details: bool,
    /// Also write the comparison as an HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Compare the runs even if their workloads differ
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Over {
    /// Requests per second (open loop)
    #[default]
    RequestRate,
    /// Requests in flight (closed loop)
    Concurrency,
    /// Sessions in progress, with the pauses between their turns (closed loop)
    Sessions,
}

impl From<Over> for LoadKind {
    fn from(over: Over) -> Self {
        match over {
            Over::RequestRate => Self::RequestRate,
            Over::Concurrency => Self::Concurrency,
            Over::Sessions => Self::Sessions,
        }
    }
}

/// Flags of `tokometer capacity`, besides those of `bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CapacityArgs {
    /// Objectives, such as "p99 ttft < 2s, p99 tpot < 100ms, goodput > 99%"
    #[arg(long, value_name = "OBJECTIVES", help_heading = "Search", required = true)]
    pub(crate) slo: Vec<String>,
    /// Kind of load to vary
    #[arg(long, value_enum, default_value_t, help_heading = "Search")]
    pub(crate) over: Over,
    /// First load to try [default: 78 % of the highest throughput of a short staircase; with --points or --max-duration: 1]
    #[arg(long, value_name = "LOAD", help_heading = "Search", hide_short_help = true)]
    pub(crate) start: Option<f64>,
    /// Highest load to try
    #[arg(
        long,
        default_value_t = 4096.0,
        value_name = "LOAD",
        help_heading = "Search",
        hide_short_help = true
    )]
    pub(crate) max: f64,
    /// Precision to aim for: half width of the 95 % confidence interval, relative to the result
    #[arg(
        long,
        default_value = "5%",
        value_name = "SHARE",
        help_heading = "Search",
        hide_short_help = true
    )]
    pub(crate) resolution: String,
    /// Maximum number of points before the runs that hold a load [default: as many as fit --budget; with --max-duration: 20]
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) points: Option<usize>,
    /// Minimum duration of a point [default: depends on --budget; with --points or --max-duration: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Search", hide_short_help = true)]
    pub(crate) min_duration: Option<String>,
    /// Maximum duration of a point, without its preload; one third of it while the limit is bracketed [default: depends on --budget; with --points: 180s]
    #[arg(long, value_name = "TIME", help_heading = "Search", hide_short_help = true)]
    pub(crate) max_duration: Option<String>,
    /// Number of GPUs behind the endpoint, for tokens per second per GPU
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) gpus: Option<u32>,
    #[command(flatten)]
    pub(crate) at: AddressArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

/// Flags of a search in virtual time.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Prediction instead of measurement")]
pub(crate) struct EngineArgs {
    /// Search in virtual time with this engine profile: the name of a built-in one, or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) engine: Option<String>,
    /// What-if: change a value of the profile; a list gives one search per value, such as cost.scale=1,1.1
    #[arg(long, value_name = "KEY=VALUES", requires = "engine", hide_short_help = true)]
    pub(crate) set: Vec<String>,
    /// Number of servers behind a router; a list gives one search per number [default: 1]
    #[arg(
        long,
        value_name = "LIST",
        requires = "engine",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(crate) replicas: Vec<usize>,
    /// Routing policy: round-robin, least-loaded, prefix-affinity or random2
    #[arg(
        long,
        value_name = "HOW",
        default_value = "round-robin",
        requires = "engine",
        hide_short_help = true
    )]
    pub(crate) router: Routing,
}

/// Flags of `tokometer predict`, besides those of `bench`, of which the target's have no effect.
#[derive(Debug, Clone, Args)]
pub(crate) struct PredictArgs {
    /// Engine profile: the name of a built-in profile, or a file
    #[arg(
        long,
        value_name = "NAME|FILE",
        required_unless_present = "roofline",
        help_heading = "Engine"
    )]
    pub(crate) engine: Option<String>,
    /// Engine from a data sheet, without measurements: "params=70e9 bytes=2 gpus=8 tflops=800 gbs=3350"
    #[arg(long, value_name = "DATA SHEET", help_heading = "Engine")]
    pub(crate) roofline: Option<String>,
    /// What-if: change a value of the profile, such as cost.scale=1.1
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Engine")]
    pub(crate) set: Vec<String>,
    /// Number of servers behind a router
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Engine")]
    pub(crate) replicas: usize,
    /// Routing policy: round-robin, least-loaded, prefix-affinity or random2
    #[arg(
        long,
        value_name = "HOW",
        default_value = "round-robin",
        help_heading = "Engine",
        hide_short_help = true
    )]
    pub(crate) router: Routing,
    /// Add the overhead of the older single-threaded clients [default: 1.5,0.05]
    #[arg(
        long,
        value_name = "REQUEST_MS,EVENT_MS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1.5,0.05",
        help_heading = "Engine",
        hide_short_help = true
    )]
    pub(crate) old_client: Option<String>,
    /// Explain what limited the run
    #[arg(long, help_heading = "Engine")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

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

/// `tokometer dataset`.
#[derive(Debug, Clone, Default, Args)]
#[command(args_override_self = true)]
pub(crate) struct DatasetArgs {
    /// Write all prompts to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) export: Option<PathBuf>,
    /// Number of prompts shown in full [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) show: Option<u64>,
    /// Count all rows of a trace that cannot be used, and exit with 1 if there are any
    #[arg(long, hide_short_help = true)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

/// `tokometer doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Files with printed reports, saved result files, and run folders; `-` reads standard input
    #[arg(required_unless_present = "load", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the findings as a self-contained HTML page
    #[arg(long, value_name = "FILE", conflicts_with_all = ["load", "format"])]
    pub(crate) html: Option<PathBuf>,
    /// The load at which to check this machine, instead of files.
    #[arg(
        long,
        value_name = "LOAD",
        conflicts_with = "files",
        allow_hyphen_values = true,
        help = "Check this machine instead, at this load: \"concurrency=2048 itl=20ms [rate=50] [ttft=50ms] [tokens=200] [tls]\", or the flags of bench in quotes"
    )]
    pub(crate) load: Option<String>,
    /// Format of standard output; Markdown is a comment for an issue
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TableFormatArg,
}

/// `tokometer merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Folders of shards, or the folder of a run with its shards below it
    #[arg(required = true, value_name = "SHARD|RUN")]
    pub(crate) folders: Vec<PathBuf>,
    /// Folder of the merged run [default: the given RUN]
    #[arg(long, short = 'o', value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// Remove an earlier run from --run-dir first
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `tokometer sim`.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port; 0 picks a free one
    #[arg(long, default_value_t = 8000)]
    pub(crate) port: u16,
    /// Listen on this Unix-domain socket instead of a port
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "tls"])]
    pub(crate) unix: Option<PathBuf>,
    /// Engine profile: a name or a file
    #[arg(long, visible_alias = "engine", value_name = "NAME|FILE", default_value = "default")]
    pub(crate) profile: String,
    /// What-if: change a value of the profile, such as cost.scale=1.1
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["ttft", "flood"])]
    pub(crate) set: Vec<String>,
    /// Name of the simulated model
    #[arg(long, value_name = "NAME", default_value = "simulated")]
    pub(crate) model: String,
    /// Server to imitate: vllm, sglang, llamacpp, tgi or transformers
    #[arg(long, value_name = "NAME", default_value = "vllm")]
    pub(crate) flavour: String,
    /// Without an engine: fixed time to first token of each stream
    #[arg(long, value_name = "TIME", requires = "itl")]
    pub(crate) ttft: Option<String>,
    /// Without an engine: fixed time between tokens of each stream
    #[arg(long, value_name = "TIME", requires = "ttft")]
    pub(crate) itl: Option<String>,
    /// Without an engine: send tokens as fast as the socket accepts them, this many per write
    #[arg(long, value_name = "EVENTS", conflicts_with = "ttft")]
    pub(crate) flood: Option<u32>,
    /// Tokens of reasoning before each answer (chat, Responses and Messages of vllm)
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub(crate) reasoning: u32,
    /// Report the cached tokens of each prompt in its usage, as vLLM with this flag
    #[arg(long, hide_short_help = true)]
    pub(crate) enable_prompt_tokens_details: bool,
    /// Multiply all times by this factor
    #[arg(long, value_name = "FACTOR")]
    pub(crate) slower: Option<f64>,
    /// Random seed of the server
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// File to log when each token was passed to the kernel
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Option<PathBuf>,
    /// Respond with 401 unless requests send this API key
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Serve TLS with a certificate generated at start
    #[arg(long)]
    pub(crate) tls: bool,
    /// Faults to inject, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) faults: Option<String>,
    /// Exit when standard input closes, so that the server does not outlive its parent process
    #[arg(long, hide = true)]
    pub(crate) follow_stdin: bool,
}

/// `NAME=VALUE`, the value possibly with more equals signs.
fn pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write it as NAME=VALUE".to_owned())
}

/// A command, and remarks about the arguments it was parsed from.
#[derive(Debug)]
pub(crate) struct ParsedArguments {
    pub(crate) command: Command,
    /// Flags of a bench in the order of typing: the last list varies fastest.
    pub(crate) order: Vec<String>,
    /// Flags that have no effect here.
    pub(crate) remarks: Vec<String>,
    /// When output is coloured; absent: as the environment says.
    pub(crate) colour: Option<ColourArg>,
}

/// Commands whose words are rewritten before they are parsed.
const REWRITTEN: [&str; 5] = ["bench", "sweep", "dataset", "capacity", "predict"];

/// Reads the words after the program's name.
pub(crate) fn parse(words: &[String]) -> Result<ParsedArguments, ParseOutcome> {
    let (words, remarks) = rewritten(&address::with_command(words))?;
    let named = std::iter::once("tokometer".to_owned()).chain(words.iter().cloned());
    let matches = declaration().try_get_matches_from(named).map_err(ParseOutcome::Clap)?;
    let cli = Cli::from_arg_matches(&matches).map_err(ParseOutcome::Clap)?;
    let order = order(&matches);
    Ok(ParsedArguments { command: cli.command, order, remarks, colour: cli.color })
}

pub(crate) fn declaration() -> clap::Command {
    shaped(Cli::command())
}

/// Why there is no command: help was requested, or the arguments are invalid.
#[derive(Debug)]
pub(crate) enum ParseOutcome {
    /// Clap has something to print: help, the version or an error.
    Clap(clap::Error),
    /// An unknown flag, or another tool's flag that is not supported.
    Refused(Refusal),
}

fn rewritten(words: &[String]) -> Result<(Vec<String>, Vec<String>), ParseOutcome> {
    let Some((command, rest)) = words.split_first() else { return Ok((Vec::new(), Vec::new())) };
    if !REWRITTEN.contains(&command.as_str()) {
        return Ok((words.to_vec(), Vec::new()));
    }
    let rest = address::in_front(rest);
    let Rewritten { words, remarks } =
        rewrite(&rest, &flags_of(command)).map_err(ParseOutcome::Refused)?;
    Ok((std::iter::once(command.clone()).chain(words).collect(), remarks))
}

pub(super) fn is_command(word: &str) -> bool {
    Cli::command().find_subcommand(word).is_some()
}

/// Long flags of a command, with their dashes.
pub(super) fn flags_of(command: &str) -> BTreeSet<String> {
    let mut cli = declaration();
    cli.build();
    let found = cli.find_subcommand(command);
    let flags = found.into_iter().flat_map(clap::Command::get_arguments);
    flags.filter_map(clap::Arg::get_long).map(|long| format!("--{long}")).collect()
}

/// Flags as typed, first to last, without their dashes.
fn order(matches: &ArgMatches) -> Vec<String> {
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let is_typed = |id: &&clap::Id| {
        matches.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine)
    };
    let mut typed: Vec<(usize, String)> = matches
        .ids()
        .filter(is_typed)
        .filter_map(|id| Some((matches.index_of(id.as_str())?, id.as_str().replace('_', "-"))))
        .collect();
    typed.sort();
    typed.into_iter().map(|(_, flag)| flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> ParsedArguments {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).unwrap()
    }

    #[test]
    fn the_declaration_of_flags_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_keep_the_order_of_typing() {
        let typed = typed("bench --request-rate 1,2 --model m --num_prompts 5,6");
        assert_eq!(typed.order, ["request-rate", "model", "num-prompts"]);
        let Command::Bench(bench) = typed.command else { panic!("not a bench") };
        let lists: Vec<&str> = bench.bench.lists.iter().map(|list| list.flag).collect();
        assert_eq!(lists, ["request-rate", "num-prompts"]);
    }

    #[test]
    fn headers_and_goodput_take_several_words() {
        let typed = typed("bench --header a=b c=d=e --goodput ttft:5 tpot:6 --insecure");
        let Command::Bench(bench) = typed.command else { panic!("not a bench") };
        let expected = [("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d=e".to_owned())];
        let part = &bench.bench.part;
        assert_eq!(part.targets[0].headers.as_ref().unwrap().0, expected);
        assert_eq!(part.metrics.goodput.len(), 2);
        assert!(bench.bench.has("insecure"));
    }

    /// The address that a command line is about, with the flags that it has besides.
    #[test]
    fn an_address_is_found_wherever_it_stands() {
        let check = |line: &str, expected: Option<&str>| {
            let Command::Bench(bench) = typed(line).command else { panic!("not a bench: {line}") };
            assert_eq!(bench.at.url.as_deref(), expected, "{line}");
        };
        let url = Some("http://h:8000");
        check("http://h:8000", url);
        check("localhost:8000", Some("localhost:8000"));
        check("http://h:8000 --budget 30s", url);
        check("--budget 30s http://h:8000", url);
        check("bench http://h:8000", url);
        check("bench --goodput ttft:5 http://h:8000", url);
        check("bench --header a=b c=d http://h:8000 --insecure", url);
        check("bench --trust-remote-code http://h:8000", url);
        check("bench --insecure http://h:8000", url);
        check("bench --base-url http://h:8000", None);
        check("bench --metrics-url http://m:1 http://h:8000", url);
        check("bench", None);
    }
}
