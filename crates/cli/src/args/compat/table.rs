//! Flags of the tools that scripts come from: those of our options, and those that mean nothing here.
//!
//! `docs/migrating.md` and the rewriting of command lines both read [`known`] and nothing else. A
//! row whose flag ends in `*` stands for all flags that start so.

use std::sync::LazyLock;

use tokometer_plan::options;

use super::FlagSupport::{self, Ignored, Kept, Refused, Renamed};

#[derive(Debug)]
pub(crate) struct CompatFlag {
    /// The flag as the tool spells it, with its dashes.
    pub(crate) flag: String,
    /// The tools that know it: `P` vLLM's Python client, `R` vLLM's Rust client, `S` SGLang's
    /// `bench_serving`, `O` the older `benchmark_serving.py` and its forks.
    pub(crate) tools: &'static str,
    pub(crate) fate: FlagSupport,
}

/// Every flag of the other tools, in the order of the documentation.
pub(crate) fn known() -> &'static [CompatFlag] {
    static ALL: LazyLock<Vec<CompatFlag>> = LazyLock::new(|| {
        let flag = |name, tools, fate| CompatFlag { flag: format!("--{name}"), tools, fate };
        let mut all = Vec::new();
        for row in options::rows() {
            if !row.tools.is_empty() {
                all.push(flag(row.flag, row.tools, Kept(row.remark)));
            }
            let others = row.also.iter();
            all.extend(others.map(|other| flag(other.flag, other.tools, Renamed(row.flag))));
        }
        all.extend(FOREIGN.iter().map(|(name, tools, fate)| flag(*name, tools, *fate)));
        all
    });
    &ALL
}

const AUDIO: &str = "use `--dataset-name custom_audio` with `--backend openai-audio`";
const PLOTS: &str = "`tokometer report RUN --html page.html` has charts";
const PROFILER: &str = "the profiler runs for the whole measured phase";
const DISAGGREGATED: &str =
    "measure through the router; `--metrics-url` reads the metrics of each server behind it";
const OTHER_PROFILERS: &str = "start the profiler of each server by hand";
const STEADY: &str = "the steady state is found from the record and shown in the summary";
const SPEED: &str =
    "use `--dataset-name hf --dataset-path FILE` with the dataset's files, or `spec_bench`";

/// Flags without an option of ours: the name, the tools that know it, and what becomes of it.
const FOREIGN: &[(&str, &str, FlagSupport)] = &[
    ("tokenizer-mode", "PRO", Ignored("determined by the tokenizer's file")),
    ("trust-remote-code", "PRO", Ignored("model code is never executed")),
    ("rust-client", "S", Ignored("this client is compiled, and uses `--workers` threads")),
    ("dry-run", "R", Refused("use `tokometer dataset` with the same flags")),
    ("pd-separated", "S", Refused(DISAGGREGATED)),
    ("fake-prefill", "S", Refused(DISAGGREGATED)),
    ("use-beam-search", "PO", Refused("beam search has no stream to measure")),
    ("best-of", "O", Refused("several candidates per request are not supported")),
    ("no-stream", "P", Ignored("vLLM loads the dataset whole with it; answers are streamed")),
    ("token-ids-logprob", "S", Refused("send it with `--extra-body`")),
    ("return-routed-experts", "S", Refused("send it with `--extra-body`")),
    ("dsv4", "O", Refused("use `--tokenizer` with the model's own chat template")),
    ("random-num-workers", "O", Ignored("prompts are made on all cores")),
    ("print-requests", "S", Ignored("`tokometer report RUN --csv FILE` lists requests")),
    ("plot-throughput", "S", Ignored(PLOTS)),
    ("cache-report", "S", Ignored("cached tokens are shown whenever the server reports them")),
    ("plot-timeline", "P", Ignored(PLOTS)),
    ("timeline-itl-thresholds", "P", Ignored(PLOTS)),
    ("plot-dataset-stats", "P", Ignored(PLOTS)),
    ("steady-state-threshold", "R", Ignored(STEADY)),
    ("steady-state-concurrency-ratio", "S", Ignored(STEADY)),
    (
        "steady-state-output-file",
        "S",
        Refused("the steady state is in `summary.json` of the run folder, and in `--format json`"),
    ),
    ("steady-state-min-window", "R", Ignored(STEADY)),
    ("no-steady-state", "R", Ignored(STEADY)),
    ("num-runs", "R", Refused("repeat the command, and give all runs to `tokometer compare`")),
    ("compare", "R", Refused("use `tokometer compare A B`")),
    ("sweep-num-prompts-factor", "R", Refused("give `--num-prompts` a list instead")),
    ("sweep-summary-percentiles", "R", Ignored("the table has fixed columns")),
    ("profile-batch-threshold", "R", Refused(PROFILER)),
    ("profile-duration", "R", Refused(PROFILER)),
    ("profile-prefill-url", "S", Refused(OTHER_PROFILERS)),
    ("profile-decode-url", "S", Refused(OTHER_PROFILERS)),
    ("dataset", "O", Refused("use `--dataset-name sharegpt --dataset-path FILE`")),
    ("enable-multimodal-chat", "P", Ignored("prompts with images are always messages")),
    ("hf-name", "P", Ignored("columns are found by name")),
    ("asr-*", "P", Refused(AUDIO)),
    ("blazedit-*", "P", Refused("the edit datasets are not supported yet")),
    (
        "bfcl-categories",
        "P",
        Refused("write the calls as rows of `--dataset-name openai`, with `tools` in each"),
    ),
    (
        "custom-ensure-client-side-data",
        "P",
        Ignored("files are always sent with the request; addresses are passed on"),
    ),
    ("speed-bench-config", "R", Refused(SPEED)),
    ("speed-bench-dataset-subset", "PR", Refused(SPEED)),
    ("speed-bench-output-len", "PRS", Refused(SPEED)),
    ("speed-bench-category", "PRS", Refused(SPEED)),
    ("speed-bench-max-input-len", "R", Refused(SPEED)),
    ("mooncake-workload", "S", Ignored("determined by the file given by `--dataset-path`")),
    ("gsp-fast-prepare", "S", Ignored("prompts are always prepared quickly")),
];
