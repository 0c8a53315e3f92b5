//! OpenAI's `/v1/responses`.
//!
//! Each event names its type. Pieces come in `.delta` events of several kinds and are repeated by
//! `.done` events; usage comes with the terminal event, unasked. There is no `[DONE]`. Most servers keep
//! every response unless asked not to.

use serde_json::json;
use tokometer_base::PromptContent;

use super::content;
use super::protocol::{BodyContext, Counting, EndRule, Rules, TextForm};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;
use crate::scan::EventSchema;
use tokometer_base::IgnoreEos;

pub(super) const RULES: Rules = Rules {
    schema: EventSchema::Responses,
    framing: EventFraming::Sse,
    counting: Counting::WhenReported,
    text: TextForm::Piece,
    end: EndRule::FinalEvent,
};

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    body.field("model", context.model());
    match &context.prompt.content {
        PromptContent::Text(text) => body.field("input", text),
        PromptContent::Messages(messages) => {
            body.messages_as("input", messages.iter(), content::for_responses);
        }
        _ => return Err(context.wrong_form("plain text or a conversation")),
    }
    if let Some(tokens) = context.prompt.output_tokens {
        body.field("max_output_tokens", tokens);
    }
    body.field("stream", context.is_streamed());
    body.optional("store", false);
    if let Some(count) = context.settings.logprobs {
        body.field("include", json!(["message.output_text.logprobs"]));
        body.field("top_logprobs", count);
    }
    body.members(&context.settings.sampling);
    match context.settings.ignore_eos {
        IgnoreEos::Asked => body.field("ignore_eos", true),
        IgnoreEos::Implied => body.optional("ignore_eos", true),
        IgnoreEos::Off => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokometer_base::{Message, PromptContent};

    use crate::prepare::tests::{body_after, body_of, refused, settings, text_prompt};
    use crate::settings::Delivery;
    use tokometer_base::IgnoreEos;

    #[test]
    fn a_request_has_the_fields_of_its_known_client() {
        let mut settings = settings();
        assert_eq!(
            body_of("openai-responses", &settings, &text_prompt()),
            r#"{"model":"tiny","input":"Say \"hi\"","max_output_tokens":7,"stream":true,"store":false}"#
        );
        settings.delivery = Delivery::Whole;
        settings.ignore_eos = IgnoreEos::Asked;
        let mut prompt = text_prompt();
        let message = Message::new("user", "Hi");
        prompt.content = PromptContent::Messages(vec![message]);
        assert_eq!(
            body_of("openai-responses", &settings, &prompt),
            r#"{"model":"tiny","input":[{"role":"user","content":"Hi"}],"max_output_tokens":7,"stream":false,"store":false,"ignore_eos":true}"#
        );
        prompt.content = PromptContent::TokenIds(vec![1]);
        assert_eq!(
            refused("openai-responses", &settings, &prompt),
            "cannot send token ids with the backend `openai-responses`\n  it accepts plain text or a conversation"
        );
    }

    #[test]
    fn a_server_without_a_store_gets_no_word_about_it() {
        assert_eq!(
            body_after("openai-responses", &text_prompt(), &["store"]),
            r#"{"input":"Say \"hi\"","max_output_tokens":7,"model":"tiny","stream":true}"#
        );
    }
}
