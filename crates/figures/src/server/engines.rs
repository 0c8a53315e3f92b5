//! What engines call their metrics.

/// The engines, and how the names of their metrics begin.
pub(super) const ENGINES: [(&str, &str); 4] =
    [("vllm", "vllm:"), ("sglang", "sglang:"), ("tgi", "tgi_"), ("llamacpp", "llamacpp:")];

/// A metric under one name for all engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    Running,
    Waiting,
    /// From 0 to 1.
    KvUse,
    /// Tokens per step with speculative decoding, where drafts are not counted.
    AcceptLength,
    Preemptions,
    PromptTokens,
    GenerationTokens,
    Finished,
    /// Requests whose client went away.
    Aborted,
    /// All prompt tokens where an engine does not count them apart.
    PrefixQueries,
    PrefixHits,
    Drafts,
    DraftTokens,
    AcceptedTokens,
    /// Accepted tokens at this position of a draft.
    AcceptedAt(u32),
    /// Of the values of a histogram, in seconds.
    Sum(Histogram),
    Count(Histogram),
}

/// How the samples of one page become one value. A server with several engines (data parallelism) has one
/// sample for each, by labels such as `engine` and `dp_rank`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    Sum,
    /// Each engine has a cache of its own, and the fullest one makes requests wait.
    Largest,
    /// Mean over the engines, weighted by the requests that run on each: an idle one takes no steps.
    MeanByRunning,
}

impl Metric {
    pub(super) fn join(self) -> Join {
        match self {
            Self::KvUse => Join::Largest,
            Self::AcceptLength => Join::MeanByRunning,
            Self::Running
            | Self::Waiting
            | Self::Preemptions
            | Self::PromptTokens
            | Self::GenerationTokens
            | Self::Finished
            | Self::Aborted
            | Self::PrefixQueries
            | Self::PrefixHits
            | Self::Drafts
            | Self::DraftTokens
            | Self::AcceptedTokens
            | Self::AcceptedAt(_)
            | Self::Sum(_)
            | Self::Count(_) => Join::Sum,
        }
    }
}

/// Of several names for one metric the first that a page has is read.
pub(super) const METRICS: [(Metric, &str); 40] = [
    (Metric::Running, "vllm:num_requests_running"),
    (Metric::Running, "sglang:num_running_reqs"),
    (Metric::Running, "tgi_batch_current_size"),
    (Metric::Running, "llamacpp:requests_processing"),
    (Metric::Waiting, "vllm:num_requests_waiting"),
    (Metric::Waiting, "sglang:num_queue_reqs"),
    (Metric::Waiting, "tgi_queue_size"),
    (Metric::Waiting, "llamacpp:requests_deferred"),
    (Metric::KvUse, "vllm:kv_cache_usage_perc"),
    (Metric::KvUse, "vllm:gpu_cache_usage_perc"),
    (Metric::KvUse, "sglang:token_usage"),
    (Metric::KvUse, "llamacpp:kv_cache_usage_ratio"),
    (Metric::AcceptLength, "sglang:spec_accept_length"),
    (Metric::Preemptions, "vllm:num_preemptions_total"),
    (Metric::Preemptions, "sglang:num_retracted_reqs_total"),
    (Metric::PromptTokens, "vllm:prompt_tokens_total"),
    (Metric::PromptTokens, "sglang:prompt_tokens_total"),
    (Metric::PromptTokens, "tgi_request_input_length_sum"),
    (Metric::PromptTokens, "llamacpp:prompt_tokens_total"),
    (Metric::GenerationTokens, "vllm:generation_tokens_total"),
    (Metric::GenerationTokens, "sglang:generation_tokens_total"),
    (Metric::GenerationTokens, "tgi_request_generated_tokens_sum"),
    (Metric::GenerationTokens, "llamacpp:tokens_predicted_total"),
    (Metric::Finished, "vllm:request_success_total"),
    (Metric::Finished, "sglang:num_requests_total"),
    (Metric::Finished, "tgi_request_success"),
    (Metric::Aborted, "vllm:request_success_total{finished_reason=\"abort\"}"),
    (Metric::Aborted, "sglang:num_aborted_requests_total"),
    (Metric::PrefixQueries, "vllm:prefix_cache_queries_total"),
    (Metric::PrefixQueries, "vllm:gpu_prefix_cache_queries_total"),
    (Metric::PrefixHits, "vllm:prefix_cache_hits_total"),
    (Metric::PrefixHits, "vllm:gpu_prefix_cache_hits_total"),
    (Metric::PrefixHits, "sglang:cached_tokens_total"),
    (Metric::PrefixHits, UNCOUNTED_PROMPT_TOKENS),
    (Metric::Drafts, "vllm:spec_decode_num_drafts_total"),
    (Metric::Drafts, "llamacpp:spec_decode_num_drafts_total"),
    (Metric::DraftTokens, "vllm:spec_decode_num_draft_tokens_total"),
    (Metric::DraftTokens, "llamacpp:spec_decode_num_draft_tokens_total"),
    (Metric::AcceptedTokens, "vllm:spec_decode_num_accepted_tokens_total"),
    (Metric::AcceptedTokens, "llamacpp:spec_decode_num_accepted_tokens_total"),
];

/// llama.cpp does not count prefix-cache hits among its prompt tokens.
pub(super) const UNCOUNTED_PROMPT_TOKENS: &str = "llamacpp:prompt_tokens_cached_total";

/// Has a label with the position.
pub(super) const ACCEPTED_PER_POSITION: &str = "vllm:spec_decode_num_accepted_tokens_per_pos_total";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Histogram {
    Ttft,
    /// From a request's arrival to its end.
    E2e,
    Queue,
    Prefill,
}

/// Without the suffixes of their series.
pub(super) const HISTOGRAMS: [(Histogram, &str); 9] = [
    (Histogram::Ttft, "vllm:time_to_first_token_seconds"),
    (Histogram::Ttft, "sglang:time_to_first_token_seconds"),
    (Histogram::E2e, "vllm:e2e_request_latency_seconds"),
    (Histogram::E2e, "sglang:e2e_request_latency_seconds"),
    (Histogram::E2e, "tgi_request_duration"),
    (Histogram::Queue, "vllm:request_queue_time_seconds"),
    (Histogram::Queue, "sglang:queue_time_seconds"),
    (Histogram::Queue, "tgi_request_queue_duration"),
    (Histogram::Prefill, "vllm:request_prefill_time_seconds"),
];
