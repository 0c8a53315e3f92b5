//! llama.cpp's native `/completion`.
//!
//! Pieces of text in `content`, ids of their tokens in `tokens`, a running count in `tokens_predicted`.
//! Ends with `stop: true` and a `timings` object, without `[DONE]`.

use tokometer_base::{IgnoreEos, PromptContent};

use super::rules::{BodyContext, Counting, EndRule, Rules};
use crate::Error;
use crate::json_body::JsonBody;
use crate::scan::{Field, Key, enter, take};
use crate::structured::Structured;

pub(super) static RULES: Rules = Rules {
    write_constraint,
    counting: Counting::RunningCount,
    end: EndRule::FinalEvent,
    ..Rules::new(write_body, EVENT)
};

const EVENT: &[Key] = &[
    take("content", Field::Text),
    take("tokens", Field::TokenIds),
    take("stop", Field::Last),
    take("tokens_predicted", Field::CompletionTokens),
    take("tokens_evaluated", Field::PromptTokens),
    enter("timings", TIMINGS),
    take("error", Field::Error),
];

pub(super) const TIMINGS: &[Key] = &[
    take("cache_n", Field::CachedTokens),
    take("prompt_ms", Field::Prefill),
    take("predicted_ms", Field::Decode),
];

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    match &context.prompt.content {
        PromptContent::Text(text) => body.field("prompt", text),
        PromptContent::TokenIds(ids) => body.field("prompt", ids),
        _ => return Err(context.wrong_form("plain text or token ids")),
    }
    if let Some(tokens) = context.prompt.output_tokens {
        body.field("n_predict", tokens);
    }
    body.field("stream", context.is_streamed());
    if context.settings.ignore_eos != IgnoreEos::Off {
        body.field("ignore_eos", true);
    }
    if let Some(count) = context.settings.logprobs {
        body.field("n_probs", count);
    }
    body.members(&context.settings.sampling);
    Ok(())
}

fn write_constraint(body: &mut JsonBody<'_>, _: &BodyContext<'_>, constraint: &Structured) -> bool {
    match constraint {
        Structured::Json(schema) => body.raw("json_schema", schema),
        Structured::Grammar(grammar) => body.field("grammar", grammar),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::prepare::tests::{body_of, settings, text_prompt};

    #[test]
    fn its_body_has_its_own_name_for_the_length() {
        assert_eq!(
            body_of("llamacpp", &settings(), &text_prompt()),
            r#"{"prompt":"Say \"hi\"","n_predict":7,"stream":true}"#
        );
    }
}
