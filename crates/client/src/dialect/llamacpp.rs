//! llama.cpp's native `/completion`.
//!
//! Pieces of text in `content`, ids of their tokens in `tokens`, a running count in `tokens_predicted`.
//! Ends with `stop: true` and a `timings` object, without `[DONE]`.

use tokometer_base::PromptContent;

use super::protocol::{BodyContext, Counting, EndRule, Rules, TextForm};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;
use crate::scan::EventSchema;
use tokometer_base::IgnoreEos;

pub(super) const RULES: Rules = Rules {
    schema: EventSchema::Shared,
    framing: EventFraming::Sse,
    counting: Counting::RunningCount,
    text: TextForm::Piece,
    end: EndRule::FinalEvent,
};

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
