//! Flags of the workload.

use clap::Args;
use tokometer_plan::FlagValues;

/// What to ask.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own on the command line"
)]
pub(crate) struct WorkloadArgs {
    /// Dataset of the prompts [default: random; SGLang's conventions: sharegpt]
    #[arg(long, value_name = "NAME")]
    pub(crate) dataset_name: Option<String>,
    /// The dataset's file (`-`: standard input), folder or hub id
    #[arg(long, value_name = "PATH")]
    pub(crate) dataset_path: Option<String>,
    /// Prompt length in tokens, for any dataset
    #[arg(long, value_name = "TOKENS")]
    pub(crate) input_len: Option<FlagValues<u64>>,
    /// Output length in tokens, for any dataset
    #[arg(long, value_name = "TOKENS")]
    pub(crate) output_len: Option<FlagValues<u64>>,
    /// Prompts per request, for backends that answer each of them (embeddings, classify) [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) batch_size: Option<u32>,
    /// Do not repeat rows if the dataset is too short: send fewer requests
    #[arg(long)]
    pub(crate) no_oversample: bool,
    /// Leave out rows of a file that cannot be used, instead of refusing the file
    #[arg(long)]
    pub(crate) skip_bad_rows: bool,
    /// Keep the order of the dataset's rows
    #[arg(long)]
    pub(crate) disable_shuffle: bool,
    /// Send prompts without applying the tokenizer's chat template
    #[arg(long)]
    pub(crate) skip_chat_template: bool,
    /// Apply the tokenizer's chat template to prompts
    #[arg(long)]
    pub(crate) apply_chat_template: bool,
    /// Additional values for the tokenizer's chat template
    #[arg(long, value_name = "JSON")]
    pub(crate) chat_template_kwargs: Option<String>,
    /// Text added to each prompt of a conversation dataset
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt_suffix: Option<String>,
    /// Send token ids instead of text, if the backend accepts them
    #[arg(long)]
    pub(crate) prompt_token_ids: bool,
    /// Skip prompts that exceed this context length together with their output
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_model_len: Option<u64>,
    #[command(flatten)]
    pub(crate) random: RandomArgs,
    #[command(flatten)]
    pub(crate) images: ImageArgs,
    #[command(flatten)]
    pub(crate) audio: AudioArgs,
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) shared: SharedPrefixArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) turns: TurnArgs,
}

/// Options of `random`, `random-ids` and `random-rerank`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload: random")]
pub(crate) struct RandomArgs {
    /// Prompt length in tokens [default: 1024]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) random_input_len: Option<FlagValues<u64>>,
    /// Output length in tokens [default: 128; SGLang's conventions: 1024]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) random_output_len: Option<FlagValues<u64>>,
    /// Range of the lengths, or {"input": A, "output": B}; --compat decides its meaning
    #[arg(long, value_name = "RATIO")]
    pub(crate) random_range_ratio: Option<String>,
    /// Length of the prefix shared by all prompts [default: 0]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) random_prefix_len: Option<u32>,
    /// For random-rerank: the model embeds query and documents one by one
    #[arg(long)]
    pub(crate) no_reranker: bool,
}

/// Options of `random-mm` and `image`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload: images")]
pub(crate) struct ImageArgs {
    /// Images per request for random-mm [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) random_mm_base_items_per_request: Option<u32>,
    /// Range of the number of images for random-mm, from 0 to 1 [default: 0]
    #[arg(long, value_name = "RATIO")]
    pub(crate) random_mm_num_mm_items_range_ratio: Option<f64>,
    /// Maximum number of images per request, such as {"image": 4} [default: 255]
    #[arg(long, value_name = "JSON")]
    pub(crate) random_mm_limit_mm_per_prompt: Option<String>,
    /// Image sizes for random-mm with the share of each [default: {(256, 256, 1): 0.5, (720, 1280, 1): 0.5}]
    #[arg(long, value_name = "BUCKETS")]
    pub(crate) random_mm_bucket_config: Option<String>,
    /// Images per request for image [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) image_count: Option<u32>,
    /// Draw the number of images between 1 and --image-count
    #[arg(long)]
    pub(crate) random_image_count: bool,
    /// Image size: 4k, 1080p, 720p, 360p, `HxW` or `random:HxW-HxW` [default: 1080p]
    #[arg(long, value_name = "SIZE")]
    pub(crate) image_resolution: Option<String>,
    /// Image format [default: jpeg]
    #[arg(long, value_name = "FORMAT", value_parser = ["jpeg", "png"])]
    pub(crate) image_format: Option<String>,
    /// Image content: noise or plain white [default: random]
    #[arg(long, value_name = "WHAT", value_parser = ["random", "blank"])]
    pub(crate) image_content: Option<String>,
}

/// Options of `random-audio`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload: audio")]
pub(crate) struct AudioArgs {
    /// Mean length of a generated audio clip [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) audio_length_mean: Option<f64>,
    /// Standard deviation of the audio length [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) audio_length_stddev: Option<f64>,
}

/// Options of datasets that are read from files.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload: files")]
pub(crate) struct FileArgs {
    /// Output length for sharegpt [default: that of the recorded answer]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sharegpt_output_len: Option<u32>,
    /// Maximum prompt plus output length for sharegpt, with SGLang's conventions
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sharegpt_context_len: Option<u32>,
    /// Output length for custom; -1 uses each row's own [default: 256]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub(crate) custom_output_len: Option<i64>,
    /// Prompt length for book
    #[arg(long, value_name = "TOKENS")]
    pub(crate) book_input_len: Option<FlagValues<u64>>,
    /// Output length for book [default: 150]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) book_output_len: Option<u32>,
    /// Prompt length for sonnet [default: 550]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sonnet_input_len: Option<u32>,
    /// Output length for sonnet [default: 150]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sonnet_output_len: Option<u32>,
    /// Length of the shared prefix for sonnet [default: 200]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sonnet_prefix_len: Option<u32>,
    /// Category of the questions for `spec_bench` [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) spec_bench_category: Option<String>,
    /// Subset of a hub dataset
    #[arg(long, value_name = "NAME")]
    pub(crate) hf_subset: Option<String>,
    /// Split of a hub dataset
    #[arg(long, value_name = "NAME")]
    pub(crate) hf_split: Option<String>,
    /// Output length for hf
    #[arg(long, value_name = "TOKENS")]
    pub(crate) hf_output_len: Option<u32>,
    /// Column of a hub dataset that holds the prompt
    #[arg(long, value_name = "NAME")]
    pub(crate) hf_text_column: Option<String>,
}

/// Options of datasets whose prompts share prefixes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload: shared prefixes")]
pub(crate) struct SharedPrefixArgs {
    /// Length of each prefix for `prefix_repetition` [default: 256]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) prefix_repetition_prefix_len: Option<u32>,
    /// Length of each suffix for `prefix_repetition` [default: 256]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) prefix_repetition_suffix_len: Option<u32>,
    /// Number of prefixes for `prefix_repetition` [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) prefix_repetition_num_prefixes: Option<u32>,
    /// Output length for `prefix_repetition` [default: 128]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) prefix_repetition_output_len: Option<u32>,
    /// Groups for generated-shared-prefix [default: 64]
    #[arg(long, value_name = "N")]
    pub(crate) gsp_num_groups: Option<u32>,
    /// Prompts per group [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) gsp_prompts_per_group: Option<u32>,
    /// Length of a group's system prompt [default: 2048]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) gsp_system_prompt_len: Option<u32>,
    /// Length of a question [default: 128]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) gsp_question_len: Option<u32>,
    /// Output length [default: 256]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) gsp_output_len: Option<u32>,
    /// Range of the lengths; 1 means fixed lengths [default: 1]
    #[arg(long, value_name = "RATIO")]
    pub(crate) gsp_range_ratio: Option<f64>,
    /// Turns of a conversation; each is sent after the previous answer [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) gsp_num_turns: Option<u32>,
    /// Send group after group instead of shuffled
    #[arg(long)]
    pub(crate) gsp_ordered: bool,
    /// Send each group's name as a routing key
    #[arg(long)]
    pub(crate) gsp_send_routing_key: bool,
    /// How prompts are distributed over groups [default: uniform]
    #[arg(long, value_name = "HOW", value_parser = ["uniform", "zipf"])]
    pub(crate) gsp_group_distribution: Option<String>,
    /// Zipf exponent of the group sizes
    #[arg(long, value_name = "ALPHA")]
    pub(crate) gsp_zipf_alpha: Option<f64>,
}

/// Options of traces.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload: traces")]
pub(crate) struct TraceArgs {
    /// Send requests at the timestamps of the trace
    #[arg(long, overrides_with = "no_self_timed")]
    pub(crate) self_timed: bool,
    /// Send requests at --request-rate instead of the timestamps of the trace
    #[arg(long, overrides_with = "self_timed")]
    pub(crate) no_self_timed: bool,
    /// Tokens per hash id of a `timed_trace` [default: 16]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) timed_trace_chunk_hash_size: Option<u32>,
    /// Multiply the timestamps of a `timed_trace` by this factor [default: 1]
    #[arg(long, value_name = "FACTOR")]
    pub(crate) timed_trace_sec_multiplier: Option<f64>,
    /// Multiply the timestamps of a mooncake trace by this factor [default: 1]
    #[arg(long, value_name = "FACTOR")]
    pub(crate) mooncake_slowdown_factor: Option<f64>,
    /// Number of rounds of each mooncake request [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) mooncake_num_rounds: Option<u32>,
}

/// Options of conversations.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Workload: conversations")]
pub(crate) struct TurnArgs {
    /// Send the prompts as multi-turn conversations; each turn waits for the previous answer
    #[arg(long)]
    pub(crate) multi_turn: bool,
    /// Number of turns of a conversation [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) multi_turn_num_turns: Option<u32>,
    /// Minimum number of turns; 0 means the value of --multi-turn-num-turns
    #[arg(long, value_name = "N")]
    pub(crate) multi_turn_min_turns: Option<u32>,
    /// Maximum number of turns; 0 means the value of --multi-turn-num-turns
    #[arg(long, value_name = "N")]
    pub(crate) multi_turn_max_turns: Option<u32>,
    /// Maximum number of requests in flight; same as --max-concurrency
    #[arg(long, value_name = "N")]
    pub(crate) multi_turn_concurrency: Option<FlagValues<u64>>,
    /// Milliseconds between an answer and the next turn [default: 0]
    #[arg(long, value_name = "MS")]
    pub(crate) multi_turn_delay_ms: Option<f64>,
    /// Prompt length of later turns for random; 0 means the length of the first turn
    #[arg(long, value_name = "TOKENS")]
    pub(crate) per_turn_input_len: Option<u32>,
}
