//! Flags that change what a request's body says.

use clap::Args;

/// What a request's body says besides its prompt.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sampling and body")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct SamplingArgs {
    /// Sampling temperature [default: not sent; SGLang's rules: 0]
    #[arg(long)]
    pub(crate) temperature: Option<f64>,
    /// Nucleus sampling
    #[arg(long)]
    pub(crate) top_p: Option<f64>,
    /// Most likely tokens considered
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) top_k: Option<i64>,
    /// Least probability considered
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
    /// Log probabilities per token
    #[arg(long, value_name = "N")]
    pub(crate) logprobs: Option<u32>,
    /// Ask for log probabilities, in SGLang's words
    #[arg(long)]
    pub(crate) return_logprob: bool,
    /// Top log probabilities per token, in SGLang's words [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) top_logprobs_num: Option<u32>,
    /// Position from which log probabilities are returned, in SGLang's words [default: -1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) logprob_start_len: Option<i64>,
    /// Let no answer end before its asked length
    #[arg(long, overrides_with = "disable_ignore_eos")]
    pub(crate) ignore_eos: bool,
    /// Let answers end by themselves
    #[arg(long, overrides_with = "ignore_eos")]
    pub(crate) disable_ignore_eos: bool,
    /// Take answers in one piece instead of a stream
    #[arg(long)]
    pub(crate) disable_stream: bool,
    /// Ask for counts with every event: exact, at a cost to the server
    #[arg(long)]
    pub(crate) continuous_usage: bool,
    /// JSON object merged into every body
    #[arg(long, value_name = "JSON")]
    pub(crate) extra_body: Option<String>,
    /// Beginning of every x-request-id
    #[arg(long, value_name = "TEXT")]
    pub(crate) request_id_prefix: Option<String>,
}
