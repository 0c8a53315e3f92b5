//! Flags that change what a request's body says.

use std::path::PathBuf;

use clap::Args;

/// What a request's body says besides its prompt.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sampling and body")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct SamplingArgs {
    /// Sampling temperature [default: not sent; SGLang's conventions: 0]
    #[arg(long)]
    pub(crate) temperature: Option<f64>,
    /// Nucleus sampling: total probability of the tokens to sample from
    #[arg(long)]
    pub(crate) top_p: Option<f64>,
    /// Sample only from this number of most likely tokens
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) top_k: Option<i64>,
    /// Minimum probability of a token, relative to the most likely one
    #[arg(long)]
    pub(crate) min_p: Option<f64>,
    /// Penalty on frequent tokens
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: Option<f64>,
    /// Penalty on tokens already present
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) presence_penalty: Option<f64>,
    /// Penalty on repetition
    #[arg(long)]
    pub(crate) repetition_penalty: Option<f64>,
    /// Number of log probabilities per token
    #[arg(long, value_name = "N")]
    pub(crate) logprobs: Option<u32>,
    /// Request log probabilities (SGLang)
    #[arg(long)]
    pub(crate) return_logprob: bool,
    /// Number of top log probabilities per token (SGLang) [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) top_logprobs_num: Option<u32>,
    /// Position from which log probabilities are returned (SGLang) [default: -1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) logprob_start_len: Option<i64>,
    /// Generate exactly the requested output length: ignore EOS
    #[arg(long, overrides_with = "disable_ignore_eos")]
    pub(crate) ignore_eos: bool,
    /// Allow the output to end at EOS
    #[arg(long, overrides_with = "ignore_eos")]
    pub(crate) disable_ignore_eos: bool,
    /// Request whole responses instead of streams
    #[arg(long)]
    pub(crate) disable_stream: bool,
    /// Request token counts with every event: exact, but more work for the server
    #[arg(long)]
    pub(crate) continuous_usage: bool,
    /// Constrain the answers: a file with a JSON schema, or {"regex": …}, {"choice": […]}, {"grammar": …}
    #[arg(long, value_name = "FILE")]
    pub(crate) structured: Option<PathBuf>,
    /// File with tool definitions that are sent with every request
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// Whether the model must call a tool: auto, none, required, or a tool's name
    #[arg(long, value_name = "CHOICE")]
    pub(crate) tool_choice: Option<String>,
    /// Prompts with known answers to send beside the load: JSON lines with `prompt` or `messages`, and `expected` or `regex`
    #[arg(long, value_name = "FILE")]
    pub(crate) canary: Option<PathBuf>,
    /// Canaries per request of the load [default: 0.02]
    #[arg(long, value_name = "SHARE")]
    pub(crate) canary_share: Option<f64>,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    pub(crate) extra_body: Option<String>,
    /// Prefix of every x-request-id
    #[arg(long, value_name = "TEXT")]
    pub(crate) request_id_prefix: Option<String>,
}
