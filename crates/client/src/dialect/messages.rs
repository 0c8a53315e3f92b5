//! Anthropic's `/v1/messages`.
//!
//! Each event names its type. The first one carries the prompt's tokens long before the first text, the
//! last `message_delta` the answer's; `message_stop` ends the stream. The system prompt has a field of
//! its own, the length is required, and no server has a field that ignores the end token.

use serde_json::json;
use tokometer_base::{Message, PromptContent};

use super::content;
use super::protocol::{BodyContext, Counting, EndRule, Rules, TextForm};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;
use crate::scan::EventSchema;
use tokometer_base::IgnoreEos;

pub(super) const RULES: Rules = Rules {
    schema: EventSchema::Messages,
    framing: EventFraming::Sse,
    counting: Counting::WhenReported,
    text: TextForm::Piece,
    end: EndRule::FinalEvent,
};

/// The version of the protocol that servers ask for in a header.
pub(crate) const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The limit of an answer where the prompt has none: the protocol demands one.
const DEFAULT_LIMIT: u32 = 4096;

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    body.field("model", context.model());
    match &context.prompt.content {
        PromptContent::Text(text) => {
            body.field("messages", json!([{"role": "user", "content": text}]));
        }
        PromptContent::Messages(messages) => {
            let is_system = |message: &&Message| message.role == "system";
            let system: Vec<&str> =
                messages.iter().filter(is_system).map(|message| &*message.content).collect();
            if !system.is_empty() {
                body.field("system", system.join("\n\n"));
            }
            let others = messages.iter().filter(|message| !is_system(message));
            body.messages_as("messages", others, content::for_messages);
        }
        _ => return Err(context.wrong_form("plain text or a conversation")),
    }
    body.field("max_tokens", context.prompt.output_tokens.unwrap_or(DEFAULT_LIMIT));
    body.field("stream", context.is_streamed());
    body.members(&context.settings.sampling);
    // Only where the user insists: known servers accept the field and do nothing.
    if context.settings.ignore_eos == IgnoreEos::Asked {
        body.field("ignore_eos", true);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokometer_base::{Message, Prompt, PromptContent};

    use crate::dialect::Dialect;
    use crate::prepare::RequestInput;
    use crate::prepare::tests::{body_of, settings, text_prompt};
    use crate::secret::ApiKey;
    use tokometer_base::IgnoreEos;

    #[test]
    fn the_system_prompt_stands_apart_and_a_length_is_always_sent() {
        let mut settings = settings();
        settings.ignore_eos = IgnoreEos::Implied;
        assert_eq!(
            body_of("anthropic", &settings, &text_prompt()),
            r#"{"model":"tiny","messages":[{"content":"Say \"hi\"","role":"user"}],"max_tokens":7,"stream":true}"#
        );
        let says = |role: &str, content: &str| Message::new(role, content);
        let turns = vec![says("system", "Be short"), says("user", "Hi"), says("assistant", "Ho")];
        let prompt = Prompt {
            content: PromptContent::Messages(turns),
            output_tokens: None,
            ..text_prompt()
        };
        assert_eq!(
            body_of("anthropic", &settings, &prompt),
            r#"{"model":"tiny","system":"Be short","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}],"max_tokens":4096,"stream":true}"#
        );
    }

    #[test]
    fn a_key_is_sent_in_both_headers_that_servers_read() {
        let mut settings = settings();
        settings.api_key = Some(ApiKey::Bearer("k".to_owned()));
        let prompt = text_prompt();
        let request = Dialect::named("anthropic")
            .unwrap()
            .prepare(&settings, &RequestInput::new(&prompt, 0))
            .unwrap();
        let head = String::from_utf8_lossy(&request.bytes[..request.body_start]).into_owned();
        for line in ["Authorization: Bearer k", "x-api-key: k", "anthropic-version: 2023-06-01"] {
            assert!(head.lines().any(|known| known == line), "{line}: {head}");
        }
    }
}
