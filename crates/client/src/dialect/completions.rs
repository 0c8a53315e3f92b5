//! OpenAI's `/v1/completions`, as vLLM, SGLang, llama.cpp, TGI and others speak it.
//!
//! Text in `choices[0].text`; usage in a last event with empty `choices` (vLLM, SGLang) or together
//! with the finish reason (llama.cpp, TGI, transformers). Not every server ends with `[DONE]`.

use tokometer_base::{Conventions, PromptContent};

use super::protocol::{BodyContext, Counting, EndRule, Rules, TextForm};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;
use crate::scan::EventSchema;
use crate::settings::UsageReports;
use tokometer_base::IgnoreEos;

pub(super) const RULES: Rules = Rules {
    schema: EventSchema::Choices,
    framing: EventFraming::Sse,
    counting: Counting::WhenReported,
    text: TextForm::Piece,
    end: EndRule::DoneOrFinish,
};

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
                body.optional("stream_options", serde_json::json!({"include_usage": true}));
            }
            UsageReports::Continuous => body.field(
                "stream_options",
                serde_json::json!({"include_usage": true, "continuous_usage_stats": true}),
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
