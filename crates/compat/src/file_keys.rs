//! The keys of result files, with the fields that they hold.

use crate::quantity::Field;

/// Keys that both tools use for the same thing.
pub(crate) const SHARED: [(&str, Field); 11] = [
    ("completed", Field::Successful),
    ("failed", Field::Failed),
    ("duration", Field::Duration),
    ("total_input_tokens", Field::InputTokens),
    ("total_output_tokens", Field::OutputTokens),
    ("request_throughput", Field::RequestThroughput),
    ("output_throughput", Field::OutputThroughput),
    ("input_throughput", Field::InputThroughput),
    ("max_output_tokens_per_s", Field::PeakOutputThroughput),
    ("max_concurrent_requests", Field::PeakConcurrency),
    ("max_concurrency", Field::MaxConcurrency),
];

pub(crate) const VLLM: [(&str, Field); 12] = [
    ("total_token_throughput", Field::TotalThroughput),
    ("request_goodput", Field::Goodput),
    // vLLM of 2024 wrote the colon into the key.
    ("request_goodput:", Field::Goodput),
    ("request_rate", Field::RateConfigured),
    ("input_sequence_throughput", Field::InputSequenceThroughput),
    ("rtfx", Field::Rtfx),
    ("probe_completed", Field::ProbesCompleted),
    ("probe_failed", Field::ProbesFailed),
    ("probe_median_e2el_ms", Field::ProbeMedian),
    ("probe_p99_e2el_ms", Field::ProbeP99),
    ("probe_max_e2el_ms", Field::ProbeMax),
    ("spec_decode_acceptance_length", Field::SpecAcceptanceLength),
];

pub(crate) const SGLANG: [(&str, Field); 6] = [
    ("total_throughput", Field::TotalThroughput),
    ("total_input_text_tokens", Field::InputTextTokens),
    ("total_input_vision_tokens", Field::InputVisionTokens),
    ("total_output_tokens_retokenized", Field::RetokenizedTokens),
    ("concurrency", Field::Concurrency),
    ("accept_length", Field::AcceptLength),
];

pub(crate) const FILE_KEYS: [&[(&str, Field)]; 3] = [&SHARED, &VLLM, &SGLANG];

/// Whether a field counts things, which nobody rounds.
pub(crate) fn is_counted(field: Field) -> bool {
    matches!(
        field,
        Field::Successful
            | Field::Failed
            | Field::InputTokens
            | Field::InputTextTokens
            | Field::InputVisionTokens
            | Field::OutputTokens
            | Field::RetokenizedTokens
            | Field::MaxConcurrency
            | Field::PeakConcurrency
            | Field::ProbesCompleted
            | Field::ProbesFailed
    )
}
