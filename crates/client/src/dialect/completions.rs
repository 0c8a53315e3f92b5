//! OpenAI's `/v1/completions`, as vLLM, SGLang, llama.cpp, TGI and others speak it.
//!
//! Text in `choices[0].text`; usage in a last event with empty `choices` (vLLM, SGLang) or together
//! with the finish reason (llama.cpp, TGI, transformers). Not every server ends with `[DONE]`.

use serde_json::json;
use tokometer_base::backend::ServerKind;
use tokometer_base::{Conventions, IgnoreEos, PromptContent};

use super::quirks;
use super::rules::{BodyContext, Rules};
use crate::Error;
use crate::json_body::JsonBody;
use crate::scan::{Field, Key, also, choices, enter, take, usage};
use crate::settings::UsageReports;
use crate::structured::Structured;

pub(super) static RULES: Rules =
    Rules { write_constraint, settle: quirks::settle, ..Rules::new(write_body, EVENT) };

const EVENT: &[Key] = &[
    choices("choices", CHOICE),
    usage("usage", USAGE),
    take("error", Field::Error),
    take("object", Field::Object),
    take("type", Field::Object),
    also(quirks::OPENAI_EVENT),
];

pub(super) const CHOICE: &[Key] = &[
    take("index", Field::ChoiceIndex),
    take("text", Field::Text),
    take("finish_reason", Field::Finish),
    take("token_ids", Field::TokenIds),
    also(quirks::OPENAI_CHOICE),
];

pub(super) const USAGE: &[Key] = &[
    take("prompt_tokens", Field::PromptTokens),
    take("completion_tokens", Field::CompletionTokens),
    take("total_tokens", Field::TotalTokens),
    enter("prompt_tokens_details", DETAILS),
    enter("completion_tokens_details", DETAILS),
    also(quirks::OPENAI_USAGE),
];

/// What counts consist of, of prompts and of answers.
pub(super) const DETAILS: &[Key] =
    &[take("cached_tokens", Field::CachedTokens), take("reasoning_tokens", Field::ReasoningTokens)];

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    body.field("model", context.model());
    match &context.prompt.content {
        PromptContent::Text(text) => body.field("prompt", text),
        PromptContent::TokenIds(ids) => body.field("prompt", ids),
        _ => return Err(context.wrong_form("plain text or token ids")),
    }
    if let Some(tokens) = context.prompt.output_tokens {
        body.optional("max_tokens", tokens);
    }
    match context.conventions {
        Some(Conventions::Vllm) if context.settings.sampling.repetition_penalty.is_none() => {
            body.optional("repetition_penalty", 1.0);
        }
        Some(Conventions::Sglang) => body.optional("best_of", 1),
        Some(Conventions::Vllm) | None => {}
    }
    if let Some(count) = context.settings.logprobs {
        body.field("logprobs", count);
    }
    write_shared(body, context);
    Ok(())
}

/// The fields that OpenAI's two routes have in common.
pub(super) fn write_shared(body: &mut JsonBody<'_>, context: &BodyContext<'_>) {
    let settings = context.settings;
    body.field("stream", context.is_streamed());
    if context.is_streamed() {
        match settings.usage {
            UsageReports::Off => {}
            UsageReports::AtEnd => {
                body.optional("stream_options", json!({"include_usage": true}));
            }
            UsageReports::Continuous => body.field(
                "stream_options",
                json!({"include_usage": true, "continuous_usage_stats": true}),
            ),
        }
    }
    let is_sglang = context.conventions == Some(Conventions::Sglang);
    if is_sglang && settings.sampling.temperature.is_none() {
        body.optional("temperature", 0.0);
    }
    body.members(&settings.sampling);
    match settings.ignore_eos {
        IgnoreEos::Asked => body.field("ignore_eos", true),
        IgnoreEos::Implied => body.optional("ignore_eos", true),
        IgnoreEos::Off if is_sglang => body.optional("ignore_eos", false),
        IgnoreEos::Off => {}
    }
    if let Some(lora) = context.lora.filter(|_| is_sglang) {
        body.field("lora_path", lora);
    }
}

pub(super) fn write_constraint(
    body: &mut JsonBody<'_>,
    context: &BodyContext<'_>,
    constraint: &Structured,
) -> bool {
    let server = context.backend.server();
    let is_sglang = server == ServerKind::Sglang
        || (context.conventions == Some(Conventions::Sglang) && server == ServerKind::Any);
    match (constraint, server) {
        (Structured::Json(schema), ServerKind::LlamaCpp) => body.raw("json_schema", schema),
        (one, _) if is_sglang => {
            let Some(field) = one.of_sglang() else { return false };
            body.field(field.name, field.value);
        }
        (one, ServerKind::Vllm | ServerKind::Any) => {
            body.raw("structured_outputs", &one.of_vllm());
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use tokometer_base::Conventions;

    use crate::prepare::tests::{body_after, body_of, settings, text_prompt};
    use crate::settings::UsageReports;
    use tokometer_base::IgnoreEos;

    #[test]
    fn each_tools_own_fields_are_sent_by_its_conventions() {
        let check = |name: &str, conventions, expected: &str| {
            let mut settings = settings();
            settings.conventions = conventions;
            settings.ignore_eos = IgnoreEos::Implied;
            assert_eq!(body_of(name, &settings, &text_prompt()), expected);
        };
        check(
            "vllm",
            None,
            r#"{"model":"tiny","prompt":"Say \"hi\"","max_tokens":7,"repetition_penalty":1.0,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true}"#,
        );
        check(
            "sglang-oai",
            None,
            r#"{"model":"tiny","prompt":"Say \"hi\"","max_tokens":7,"best_of":1,"stream":true,"stream_options":{"include_usage":true},"temperature":0.0,"ignore_eos":true}"#,
        );
        check(
            "llamacpp-oai",
            Some(Conventions::Sglang),
            r#"{"model":"tiny","prompt":"Say \"hi\"","max_tokens":7,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true}"#,
        );
    }

    #[test]
    fn a_refused_length_field_gets_the_other_name() {
        let body = body_after("llamacpp-oai", &text_prompt(), &["max_tokens", "stream_options"]);
        assert_eq!(
            body,
            r#"{"max_completion_tokens":7,"model":"tiny","prompt":"Say \"hi\"","stream":true}"#
        );
    }

    #[test]
    fn requested_counts_and_sampling_are_sent_unchanged() {
        let mut settings = settings();
        settings.usage = UsageReports::Continuous;
        settings.sampling.temperature = Some(0.7);
        settings.sampling.top_k = Some(20);
        settings.logprobs = Some(2);
        assert_eq!(
            body_of("llamacpp-oai", &settings, &text_prompt()),
            r#"{"model":"tiny","prompt":"Say \"hi\"","max_tokens":7,"logprobs":2,"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"temperature":0.7,"top_k":20}"#
        );
    }
}
