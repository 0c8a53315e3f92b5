//! Triton's `generate_stream` in front of TensorRT-LLM.
//!
//! New text in `text_output`, no counts, no end mark: the response ends with its body. The end token
//! is disabled by setting it to an id that no vocabulary has.

use tokometer_base::{Conventions, IgnoreEos, PromptContent};

use super::rules::{BodyContext, EndRule, Rules};
use crate::Error;
use crate::json_body::JsonBody;
use crate::scan::{Field, Key, take};

pub(super) static RULES: Rules = Rules { end: EndRule::Body, ..Rules::new(write_body, EVENT) };

const EVENT: &[Key] = &[take("text_output", Field::Text), take("error", Field::Error)];

/// Larger than every known vocabulary.
const UNREACHABLE_TOKEN: u32 = 1_048_576;

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    let PromptContent::Text(text) = &context.prompt.content else {
        return Err(context.wrong_form("plain text"));
    };
    body.field("accumulate_tokens", true);
    body.field("text_input", text);
    let sampling = &context.settings.sampling;
    if sampling.temperature.is_none() {
        match context.conventions {
            Some(Conventions::Vllm) => body.field("temperature", 0.0),
            Some(Conventions::Sglang) => body.field("temperature", 0.000_001),
            None => {}
        }
    }
    if sampling.top_p.is_none() && context.conventions.is_some() {
        body.field("top_p", 1.0);
    }
    body.members(sampling);
    if let Some(tokens) = context.prompt.output_tokens {
        body.field("max_tokens", tokens);
        if context.settings.ignore_eos != IgnoreEos::Off {
            body.field("min_length", tokens);
            body.field("end_id", UNREACHABLE_TOKEN);
        }
    }
    body.field("stream", context.is_streamed());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::prepare::tests::{body_of, settings, text_prompt};
    use tokometer_base::IgnoreEos;

    #[test]
    fn ignore_eos_sets_an_end_token_outside_the_vocabulary() {
        let mut settings = settings();
        settings.ignore_eos = IgnoreEos::Asked;
        assert_eq!(
            body_of("trt", &settings, &text_prompt()),
            r#"{"accumulate_tokens":true,"text_input":"Say \"hi\"","temperature":1e-6,"top_p":1.0,"max_tokens":7,"min_length":7,"end_id":1048576,"stream":true}"#
        );
    }
}
