//! OpenAI's `/v1/chat/completions`.
//!
//! Text in `choices[0].delta.content`, reasoning in `reasoning_content` or `reasoning`. The first
//! event may hold only a role (vLLM, SGLang: empty content; llama.cpp: null; TGI: none). Without
//! streaming, `message` replaces `delta`. Framing, counts and end are those of completions.

use serde_json::json;
use tokometer_base::{Conventions, PromptContent};

pub(super) use super::completions::RULES;
use super::completions::write_shared;
use super::protocol::BodyContext;
use crate::Error;
use crate::json_body::JsonBody;

pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    body.field("model", context.model());
    match &context.prompt.content {
        // vLLM's client always sends a list of parts, which chooses the server's template format.
        PromptContent::Text(text) if context.conventions == Some(Conventions::Vllm) => {
            let parts = json!([{"type": "text", "text": text}]);
            body.field("messages", json!([{"role": "user", "content": parts}]));
        }
        PromptContent::Text(text) => {
            body.field("messages", json!([{"role": "user", "content": text}]));
        }
        PromptContent::Messages(messages) => body.messages("messages", messages.iter()),
        _ => return Err(context.wrong_form("plain text or a conversation")),
    }
    if let Some(tokens) = context.prompt.output_tokens {
        body.optional("max_completion_tokens", tokens);
    }
    if let Some(count) = context.settings.logprobs {
        body.field("logprobs", true);
        body.field("top_logprobs", count);
    }
    write_shared(body, context);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokometer_base::{Message, PromptContent};

    use crate::prepare::tests::{body_after, body_of, settings, text_prompt};

    #[test]
    fn text_becomes_one_user_message_in_the_tools_form() {
        let check = |name: &str, expected: &str| {
            assert_eq!(body_of(name, &settings(), &text_prompt()), expected);
        };
        check(
            "openai-chat",
            r#"{"model":"tiny","messages":[{"content":[{"text":"Say \"hi\"","type":"text"}],"role":"user"}],"max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true}}"#,
        );
        check(
            "sglang-oai-chat",
            r#"{"model":"tiny","messages":[{"content":"Say \"hi\"","role":"user"}],"max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true},"temperature":0.0,"ignore_eos":false}"#,
        );
    }

    #[test]
    fn a_refused_length_field_is_replaced_and_not_dropped() {
        let mut prompt = text_prompt();
        prompt.content = PromptContent::Messages(vec![Message::new("system", "Be short")]);
        assert_eq!(
            body_after("llamacpp-oai-chat", &prompt, &["max_completion_tokens", "stream_options"]),
            r#"{"max_tokens":7,"messages":[{"content":"Be short","role":"system"}],"model":"tiny","stream":true}"#
        );
    }
}
