//! Anthropic's `/v1/messages`.
//!
//! Each event names its type. The first one carries the prompt's tokens long before the first text, the
//! last `message_delta` the answer's; `message_stop` ends the stream. The system prompt has a field of
//! its own, the length is required, and no server has a field that ignores the end token.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokometer_base::{IgnoreEos, Message, PromptContent};
use tokometer_record::Event;

use super::content;
use super::rules::{BodyContext, EndRule, Rules, WholeAnswer};
use crate::Error;
use crate::dialect::StreamState;
use crate::json_body::JsonBody;
use crate::scan::{Field, Fields, Key, Marks, enter, take, usage};
use crate::structured::{Structured, ToolFields, ToolSet, is_choice_word, object};
use crate::tool_calls::ToolCalls;

pub(super) static RULES: Rules = Rules {
    write_constraint,
    write_tools,
    write_head: |head, key| {
        head.header("anthropic-version", "2023-06-01");
        // Anthropic reads this header, other servers of the protocol `Authorization`.
        if let Some(key) = key {
            head.header("x-api-key", key.expose());
        }
    },
    whole: WholeAnswer::Keys(ANSWER),
    is_typed: true,
    settle,
    take_calls,
    end: EndRule::FinalEvent,
    ..Rules::new(write_body, EVENT)
};

const EVENT: &[Key] = &[
    take("type", Field::EventType),
    enter("delta", BLOCK),
    // A block may open with its first text; mostly it opens empty.
    enter("content_block", BLOCK),
    enter("message", MESSAGE),
    usage("usage", USAGE),
    take("error", Field::Error),
];

const BLOCK: &[Key] = &[
    take("text", Field::Text),
    take("thinking", Field::Reasoning),
    take("partial_json", Field::ToolArguments),
    take("stop_reason", Field::Finish),
];

const MESSAGE: &[Key] = &[usage("usage", USAGE)];

/// A message in one piece, whose content is a list of blocks.
const ANSWER: &[Key] = &[
    take("type", Field::Object),
    take("content", Field::Text),
    take("stop_reason", Field::Finish),
    usage("usage", USAGE),
    take("error", Field::Error),
];

/// Cached tokens are counted apart from the others of the prompt.
const USAGE: &[Key] = &[
    take("input_tokens", Field::PromptPart),
    take("cache_creation_input_tokens", Field::PromptPart),
    take("cache_read_input_tokens", Field::CachedPart),
    take("output_tokens", Field::CompletionTokens),
];

fn settle(fields: &mut Fields<'_>, _: &mut StreamState, _: &[Event]) {
    let Some(kind) = &fields.event_type else { return };
    if kind.is("error") {
        fields.marks.set(Marks::ERROR);
    } else if kind.is("message_stop") {
        fields.marks.set(Marks::LAST);
    } else if kind.is("content_block_start") {
        fields.text = fields.text.take().filter(|text| !text.is_empty());
        fields.marks.set(Marks::NAMES_CALL);
    } else if kind.is("message_start") {
        fields.marks.set(Marks::CHOICE.and(Marks::ROLE));
        // Its count of the answer is a beginning; the last `message_delta` has the true one.
        if let Some(usage) = &mut fields.usage {
            usage.completion_tokens = None;
        }
    }
}

fn take_calls(calls: &mut ToolCalls, _: &str, event: &Value) {
    let index = event["index"].as_u64().unwrap_or(0);
    let block = &event["content_block"];
    if block["type"] == "tool_use" {
        // The arguments come behind it; a server that sends them at once sends no piece.
        let is_empty = block["input"].as_object().is_none_or(serde_json::Map::is_empty);
        let input = if is_empty { &Value::Null } else { &block["input"] };
        calls.add(index, &block["name"], input);
    }
    let piece = &event["delta"]["partial_json"];
    if piece.is_string() {
        calls.add(index, &Value::Null, piece);
    }
    let blocks = (0..).zip(event["content"].as_array().into_iter().flatten());
    for (index, block) in blocks.filter(|(_, block)| block["type"] == "tool_use") {
        calls.add(index, &block["name"], &block["input"]);
    }
}

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

fn write_constraint(body: &mut JsonBody<'_>, _: &BodyContext<'_>, constraint: &Structured) -> bool {
    let Structured::Json(schema) = constraint else { return false };
    let format = format!(r#"{{"format":{{"type":"json_schema","schema":{schema}}}}}"#);
    body.raw("output_config", &format);
    true
}

fn write_tools(body: &mut JsonBody<'_>, tools: &ToolSet) -> bool {
    let own = |function: ToolFields| {
        let renamed =
            [("name", "name"), ("description", "description"), ("input_schema", "parameters")];
        let fields: Vec<(&str, &RawValue)> = renamed
            .into_iter()
            .filter_map(|(ours, name)| Some((ours, &**function.get(name)?)))
            .collect();
        object(&fields)
    };
    body.raw("tools", &format!("[{}]", tools.functions().map(own).collect::<Vec<_>>().join(",")));
    if let Some(choice) = tools.choice.as_deref() {
        let value = match choice {
            "required" => json!({ "type": "any" }),
            word if is_choice_word(word) => json!({ "type": word }),
            name => json!({ "type": "tool", "name": name }),
        };
        body.field("tool_choice", value);
    }
    true
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
