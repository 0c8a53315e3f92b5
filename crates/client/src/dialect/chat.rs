//! OpenAI's `/v1/chat/completions`.
//!
//! Text in `choices[0].delta.content`, reasoning in `reasoning_content` or `reasoning`. The first
//! event may hold only a role (vLLM, SGLang: empty content; llama.cpp: null; TGI: none). Without
//! streaming, `message` replaces `delta`. Framing, counts and end are those of completions.

use serde_json::{Value, json};
use tokometer_base::{Conventions, PromptContent};

use super::completions::{self, USAGE, write_shared};
use super::quirks;
use super::rules::{BodyContext, Rules, WholeAnswer};
use crate::Error;
use crate::json_body::JsonBody;
use crate::scan::{Field, Key, also, choices, enter, take, usage};
use crate::structured::{SCHEMA_NAME, Structured, ToolSet, is_choice_word};
use crate::tool_calls::ToolCalls;

pub(super) static RULES: Rules = Rules {
    write_constraint,
    write_tools,
    settle: quirks::settle,
    take_calls,
    whole: WholeAnswer::Keys(ANSWER),
    ..Rules::new(write_body, EVENT)
};

const EVENT: &[Key] = &[
    choices("choices", CHOICE),
    usage("usage", USAGE),
    take("error", Field::Error),
    take("object", Field::Object),
    take("type", Field::Object),
    also(quirks::OPENAI_EVENT),
];

/// A choice of a stream. Its `message`, which some servers send beside or behind the pieces, repeats them.
pub(super) const CHOICE: &[Key] = &[
    take("index", Field::ChoiceIndex),
    enter("delta", MESSAGE),
    take("finish_reason", Field::Finish),
    take("token_ids", Field::TokenIds),
    also(quirks::OPENAI_CHOICE),
];

const ANSWER: &[Key] = &[
    choices("choices", WHOLE_CHOICE),
    usage("usage", USAGE),
    take("error", Field::Error),
    take("object", Field::Object),
    take("type", Field::Object),
    also(quirks::OPENAI_EVENT),
];

const WHOLE_CHOICE: &[Key] = &[
    take("index", Field::ChoiceIndex),
    enter("message", MESSAGE),
    take("finish_reason", Field::Finish),
    also(quirks::OPENAI_CHOICE),
];

const MESSAGE: &[Key] = &[
    take("role", Field::Role),
    take("content", Field::Text),
    // The model declines to answer; `content` is then null or empty.
    take("refusal", Field::Text),
    take("reasoning_content", Field::Reasoning),
    take("reasoning", Field::Reasoning),
    take("tool_calls", Field::ToolCalls),
    also(quirks::CHAT_MESSAGE),
];

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

fn write_constraint(
    body: &mut JsonBody<'_>,
    context: &BodyContext<'_>,
    constraint: &Structured,
) -> bool {
    match constraint {
        Structured::Json(schema) => body.raw(
            "response_format",
            &format!(
                r#"{{"type":"json_schema","json_schema":{{"name":"{SCHEMA_NAME}","schema":{schema},"strict":true}}}}"#
            ),
        ),
        Structured::JsonObject => body.field("response_format", json!({ "type": "json_object" })),
        other => return completions::write_constraint(body, context, other),
    }
    true
}

fn write_tools(body: &mut JsonBody<'_>, tools: &ToolSet) -> bool {
    body.raw("tools", &format!("[{}]", tools.definitions.join(",")));
    if let Some(choice) = &tools.choice {
        let named = json!({ "type": "function", "function": { "name": choice } });
        body.field("tool_choice", if is_choice_word(choice) { json!(choice) } else { named });
    }
    true
}

fn take_calls(calls: &mut ToolCalls, _: &str, event: &Value) {
    let choice = &event["choices"][0];
    let list = [&choice["delta"], &choice["message"]].map(|part| part["tool_calls"].as_array());
    for (position, call) in (0..).zip(list.into_iter().flatten().flatten()) {
        let index = call["index"].as_u64().unwrap_or(position);
        let function = &call["function"];
        // Some servers give every piece an id of its own; only the first has the name.
        if function["name"].as_str().is_some_and(|name| !name.is_empty()) {
            calls.begin(index, call["id"].as_str().unwrap_or_default());
        }
        calls.add(index, &function["name"], &function["arguments"]);
    }
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
