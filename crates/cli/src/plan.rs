//! A measurement as meant: every option resolved, nothing left to look up.
//!
//! A plan is made once, by [`crate::lower`], and read-only after. It is what `--print-plan` shows,
//! what a run stores in its `plan.json` and what `--plan` reads, as TOML or JSON. An unknown key is
//! an error. No key or token is ever part of it: fields that look like one are left out on writing.

mod load;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_client as client;
use tokometer_client::conn::Stamps;
use tokometer_client::secret::{ExtraBody, Headers};
use tokometer_client::settings::Delivery;
use tokometer_drive as drive;
use tokometer_workload as workload;

pub(crate) use load::{Load, Overload, Strategy, Timing};

/// A whole measurement: one run, or one run per point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Name of the run, part of its folder's name.
    pub(crate) name: String,
    /// Whose rules hold where tools differ.
    pub(crate) family: workload::Family,
    /// Root of lengths and arrivals.
    pub(crate) seed: u64,
    /// Whether the content of prompts is new in every run.
    pub(crate) content: Content,
    /// What is measured.
    pub(crate) targets: Vec<Target>,
    /// Where prompts come from.
    pub(crate) workload: workload::Spec,
    /// How prompts are made and counted.
    pub(crate) prompts: Prompts,
    /// When requests are sent, and how many.
    pub(crate) load: Load,
    /// What happens around the measured phase.
    pub(crate) phases: Phases,
    /// What every request's body says.
    pub(crate) request: Request,
    /// How this client works.
    pub(crate) client: Client,
    /// Figures and objectives.
    pub(crate) metrics: Metrics,
    /// Where results go.
    pub(crate) output: Output,
    /// Fields that take several values. Empty for a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sweep: Vec<Axis>,
    /// How two targets take turns; absent for a plan with one target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interleave: Option<Interleave>,
    /// Parts with a heading and values of their own. Empty for a plan without parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sections: Vec<Section>,
}

impl Plan {
    /// The same plan with its second target alone; `None` for a plan with one target.
    pub(crate) fn second(&self) -> Option<Self> {
        let second = self.targets.get(1)?.clone();
        Some(Self { targets: vec![second], ..self.clone() })
    }
}

/// How two targets take turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interleave {
    /// Requests of one block; zero: chosen when the plan is made.
    #[serde(default)]
    pub(crate) block_requests: u64,
    /// Length of a block in seconds, from which its requests follow; absent: they are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block_s: Option<f64>,
    /// Run with `a` or `b` before a block of the other side; absent: there are two servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) switch_command: Option<String>,
}

/// Whether the content of prompts is new in every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    /// Salted afresh, so that no run meets its own prefix cache.
    Fresh,
    /// The same for the same seed.
    Repeated,
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Address {
    /// The embedded simulated server with this engine profile.
    Simulator(String),
    /// A server somewhere.
    Server(client::Url),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulator(profile) => write!(f, "simulator:{profile}"),
            Self::Server(url) => write!(f, "{url}"),
        }
    }
}

impl FromStr for Address {
    type Err = client::Error;

    fn from_str(text: &str) -> Result<Self, client::Error> {
        match text.strip_prefix("simulator") {
            Some("") => Ok(Self::Simulator("default".to_owned())),
            Some(rest) if rest.starts_with(':') => Ok(Self::Simulator(rest[1..].to_owned())),
            _ => client::Url::parse(text).map(Self::Server),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One server and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// Where requests go: a URL, or `simulator:PROFILE`.
    pub(crate) address: Address,
    /// The dialect's name.
    pub(crate) backend: String,
    /// Path of the measured route; absent: the backend's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// Model as the user named it; absent: the first that the server lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Name sent to the server, where it differs from `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) served_model_name: Option<String>,
    /// Sent with every request. Those that hold keys are not written.
    #[serde(default)]
    pub(crate) headers: Headers,
    /// Whose certificates are believed.
    #[serde(default)]
    pub(crate) trust: Trust,
}

/// Whose certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trust {
    /// The system's roots.
    #[default]
    System,
    /// These as well.
    File(PathBuf),
    /// Anybody's.
    Anybody,
}

/// How prompts are made and counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prompts {
    /// The tokenizer as the user named it; absent: the server's, the hub's or the built-in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokenizer: Option<String>,
    /// Text or token ids.
    pub(crate) form: Form,
    /// Order of a file's rows.
    pub(crate) row_order: workload::RowOrder,
    /// What to do when rows run out.
    pub(crate) oversample: workload::Oversample,
    /// Whether chat templates are applied here.
    pub(crate) templating: workload::Templating,
    /// Further values for a chat template; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template_values: Option<serde_json::Map<String, Value>>,
    /// Longest prompt and answer together; longer ones are left out. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_model_len: Option<u64>,
    /// Makes conversations of the prompts; absent: each stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<workload::Turns>,
}

/// How prompts reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// As the backend takes them: text, or messages on chat routes.
    Text,
    /// As token ids.
    TokenIds,
}

/// What happens around the measured phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phases {
    /// Seconds to wait for the server to come up.
    pub(crate) ready_timeout_s: f64,
    /// Requests before the measured phase.
    pub(crate) warmups: u64,
    /// Longest answer of such a request; absent: as in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warmup_output_max: Option<u32>,
    /// What is done to the server's prefix cache before the measured phase.
    pub(crate) cache: Cache,
    /// Seconds to wait for that.
    pub(crate) flush_timeout_s: f64,
    /// Whether the server's profiler runs during the measured phase.
    pub(crate) profiler: Profiler,
    /// Body of the request that starts it; absent: by the rules of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile_request: Option<serde_json::Map<String, Value>>,
    /// One-token side requests per second.
    pub(crate) probe_rate: f64,
}

/// What is done to the server's prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cache {
    /// Nothing.
    Keep,
    /// It is emptied.
    Flush,
}

/// Whether the server's profiler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Profiler {
    /// It does not.
    Off,
    /// From the start of the measured phase to its end.
    On,
}

/// What every request's body says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// End-of-sequence rule.
    pub(crate) ignore_eos: client::IgnoreEos,
    /// Stream or one piece.
    pub(crate) delivery: Delivery,
    /// Counts asked for.
    pub(crate) usage: client::UsageReports,
    /// Log probabilities per token; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) logprobs: Option<u32>,
    /// Beginning of every `x-request-id`; absent: no such header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_id_prefix: Option<String>,
    /// Sampling parameters.
    #[serde(default)]
    pub(crate) sampling: client::Sampling,
    /// Merged into every body. Fields that hold keys are not written.
    #[serde(default)]
    pub(crate) extra_body: ExtraBody,
    /// Adapters that requests are spread over; absent: the model itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lora: Option<Lora>,
}

/// Adapters and how they are assigned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lora {
    /// Their names.
    pub(crate) names: Vec<String>,
    /// How they are assigned.
    pub(crate) assignment: Assignment,
    /// Steepness of a skewed assignment.
    pub(crate) alpha: f64,
}

/// How adapters are assigned to requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Assignment {
    /// Each equally likely.
    #[serde(alias = "uniform")]
    Random,
    /// In turn.
    #[serde(alias = "distinct")]
    RoundRobin,
    /// The first most often, each next one `alpha` times less.
    Skewed,
}

/// How this client works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Client {
    /// When connections are opened.
    pub(crate) connections: drive::Connections,
    /// How sockets are read.
    pub(crate) harvest: drive::Harvest,
    /// Whose clock stamps what arrives.
    #[serde(default)]
    pub(crate) stamps: Stamps,
    /// Worker threads; absent: by the number of cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workers: Option<u16>,
    /// Seconds for a whole request; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_s: Option<f64>,
    /// Seconds for a connection.
    pub(crate) connect_timeout_s: f64,
    /// Seconds of silence in an answer; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stall_timeout_s: Option<f64>,
    /// Further attempts of a failed request.
    pub(crate) retries: u32,
    /// Seconds between readings of the server's metrics; zero: none.
    pub(crate) scrape_interval_s: f64,
    /// Where metrics are read, one for each replica; empty: at the server itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) metrics_urls: Vec<String>,
}

/// Figures and objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    /// Look of the classic block: a layout's name or `auto`.
    pub(crate) layout: String,
    /// Sections of the block.
    pub(crate) sections: Vec<String>,
    /// Percentiles of each section.
    pub(crate) percentiles: Vec<f64>,
    /// Objectives in milliseconds by metric: `ttft`, `tpot`, `e2el`.
    #[serde(default)]
    pub(crate) goodput: BTreeMap<String, f64>,
    /// What an INVALID run is worth.
    pub(crate) judgement: Judgement,
}

/// What an INVALID run is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Judgement {
    /// It is reported as such.
    Lenient,
    /// It ends the program with a code of its own.
    Strict,
}

/// Where results go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Output {
    /// Whether a run folder is kept.
    pub(crate) record: Record,
    /// Folder of the run; absent: one below `runs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run_dir: Option<PathBuf>,
    /// What stdout gets.
    pub(crate) shown: Shown,
    /// Port of loopback that tells the run's counters; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prometheus_port: Option<u16>,
    /// vLLM's result file; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vllm_result: Option<VllmResult>,
    /// SGLang's result file; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sglang_result: Option<SglangResult>,
}

/// Whether a run folder is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Record {
    /// It is.
    Kept,
    /// It is removed once the report is made.
    Dropped,
}

/// What stdout gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shown {
    /// The classic block and our summary.
    Text,
    /// The summary as JSON.
    Json,
    /// Nothing.
    Nothing,
}

/// vLLM's result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VllmResult {
    /// Its folder; absent: the working folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dir: Option<PathBuf>,
    /// Its name; absent: made of label, load, model and time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) filename: Option<String>,
    /// Beginning of a made name; absent: the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Facts to add.
    #[serde(default)]
    pub(crate) metadata: Vec<(String, String)>,
    /// Whether every request's figures are in it.
    #[serde(default)]
    pub(crate) is_detailed: bool,
    /// Whether an existing file is added to.
    #[serde(default)]
    pub(crate) is_appended: bool,
}

/// SGLang's result file, which is always added to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SglangResult {
    /// The file; absent: made of backend, date and workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// Tag of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
    /// Whether every request's figures are in it.
    #[serde(default)]
    pub(crate) is_detailed: bool,
}

/// A field of the plan that takes several values, one point of the sweep each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Axis {
    /// Path of the field in the plan, such as `load.num_prompts`.
    pub(crate) field: String,
    /// Its values in order: a list, or a text such as `1,2,...,64`.
    pub(crate) values: AxisValues,
}

/// Values as a plan file may write them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum AxisValues {
    /// One by one.
    List(Vec<Value>),
    /// As on the command line.
    Text(String),
}

/// A part of a plan: values that replace the plan's own, under a heading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    /// Printed before its blocks, as it is.
    pub(crate) heading: String,
    /// Fields that take several values in this part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sweep: Vec<Axis>,
    /// Fields of the plan that have other values in this part.
    #[serde(flatten)]
    pub(crate) changes: serde_json::Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_server_or_the_simulator() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), expected, "{text}");
        };
        check("simulator", "simulator:default");
        check("simulator:h100-8b", "simulator:h100-8b");
        check("http://127.0.0.1:8000", "http://127.0.0.1:8000");
        check("simulatorhost:80", "http://simulatorhost");
        assert!("http://".parse::<Address>().is_err());
    }
}
