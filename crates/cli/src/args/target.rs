//! Flags that say what to measure.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tokometer_base::Conventions;
use tokometer_client::ApiKey;
use tokometer_client::conn::NamedAddresses;

use super::profiling::ProfilingArgs;
use crate::exit::Refusal;

/// Reads the name of a tool whose conventions to follow.
fn conventions() -> impl TypedValueParser<Value = Conventions> {
    let value = |conventions: Conventions| {
        PossibleValue::new(conventions.name()).help(match conventions {
            Conventions::Vllm => "Conventions of `vllm bench serve`",
            Conventions::Sglang => "Conventions of `sglang.bench_serving`",
        })
    };
    PossibleValuesParser::new(Conventions::ALL.map(value)).try_map(|name| name.parse())
}

/// What to measure.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Target")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct TargetArgs {
    /// Server protocol [default: openai]
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Address of the server, such as `http://127.0.0.1:8000` or `unix:/path/to.sock`
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Host of the server, instead of --base-url
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Port of the server, instead of --base-url
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Path of the measured endpoint [default: depends on the backend]
    #[arg(long, value_name = "PATH")]
    pub(crate) endpoint: Option<String>,
    /// Model name [default: the first one the server lists]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Model name to send to the server, if it differs from --model
    #[arg(long, value_name = "NAME")]
    pub(crate) served_model_name: Option<String>,
    /// Measure the embedded simulated server, with this engine profile
    #[arg(long, value_name = "PROFILE", num_args = 0..=1, default_missing_value = "default")]
    pub(crate) sim: Option<String>,
    /// Which tool's conventions to follow [default: depends on the backend]
    #[arg(long, value_parser = conventions())]
    pub(crate) compat: Option<Conventions>,
    /// Tokenizer: a tokenizer.json, a model folder, a hub id or a built-in encoding
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) tokenizer: Option<String>,
    /// Count prompt tokens with the built-in encoding instead of the model's tokenizer
    #[arg(long)]
    pub(crate) skip_tokenizer_init: bool,
    /// API key to send; other users of this machine may see it, so prefer --api-key-file
    #[arg(long, value_name = "KEY", value_parser = api_key, conflicts_with = "api_key_file")]
    pub(crate) api_key: Option<ApiKey>,
    /// File that contains the API key to send [default: the variable `OPENAI_API_KEY`]
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Extra headers, NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., value_parser = pair)]
    pub(crate) header: Vec<(String, String)>,
    /// Accept any TLS certificate
    #[arg(long)]
    pub(crate) insecure: bool,
    /// File with additional trusted certificates, in PEM format
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Client certificate to show to the server, in PEM format
    #[arg(long, value_name = "FILE")]
    pub(crate) client_cert: Option<PathBuf>,
    /// Private key of --client-cert, in PEM format [default: in the same file]
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,
    /// Use these addresses for a host and port instead of asking a name server
    #[arg(long, value_name = "HOST:PORT:ADDRESS[,ADDRESS]")]
    pub(crate) resolve: Vec<NamedAddresses>,
    /// Ignore proxies named by environment variables such as `HTTP_PROXY`
    #[arg(long)]
    pub(crate) no_proxy: bool,
    /// Seconds to wait for the server to become ready [default: 0; SGLang's conventions: 60]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) ready_check_timeout_sec: Option<f64>,
    /// LoRA adapters to distribute the requests over
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) lora_modules: Vec<String>,
    /// How LoRA adapters are assigned to requests
    #[arg(long, value_name = "HOW", value_parser = ["random", "round-robin"])]
    pub(crate) lora_assignment: Option<String>,
    /// How LoRA adapters are assigned to requests, as in SGLang's `bench_serving`
    #[arg(long, value_name = "HOW", value_parser = ["uniform", "distinct", "skewed"])]
    pub(crate) lora_request_distribution: Option<String>,
    /// Zipf exponent of the skewed assignment [default: 1.5]
    #[arg(long, value_name = "ALPHA")]
    pub(crate) lora_zipf_alpha: Option<f64>,
    /// Flush the server's prefix cache after the warm-up and before each point of a sweep
    #[arg(long)]
    pub(crate) flush_cache: bool,
    /// Timeout of the flush in seconds [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) flush_cache_timeout: Option<f64>,
    /// Run the server's profiler during the measured phase
    #[arg(long)]
    pub(crate) profile: bool,
    #[command(flatten)]
    pub(crate) profiling: ProfilingArgs,
}

impl TargetArgs {
    /// Whether any flag names a target: the simulator is then used only if requested.
    pub(crate) fn names_a_target(&self) -> bool {
        self.backend.is_some()
            || self.base_url.is_some()
            || self.host.is_some()
            || self.port.is_some()
            || self.endpoint.is_some()
            || self.model.is_some()
    }
}

/// An API key; nothing prints it.
fn api_key(text: &str) -> Result<ApiKey, String> {
    let is_sendable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || !is_sendable {
        return Err("a key has no spaces, line breaks or control characters".to_owned());
    }
    Ok(ApiKey::Bearer(text.to_owned()))
}

impl TargetArgs {
    /// The key that the flags give.
    pub(crate) fn key(&self) -> Result<Option<ApiKey>, Refusal> {
        let Some(path) = &self.api_key_file else { return Ok(self.api_key.clone()) };
        let refused = |why: String| {
            let message = format!("cannot use `--api-key-file {}`: {why}", path.display());
            Refusal::usage(message, "write the key alone into the file")
        };
        let text = crate::input::read_text(path)
            .map_err(|why| refused(format!("the file cannot be read ({})", why.kind())))?;
        api_key(text.trim()).map(Some).map_err(refused)
    }
}

/// `NAME=VALUE`, the value possibly with more equals signs.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write it as NAME=VALUE".to_owned())
}
