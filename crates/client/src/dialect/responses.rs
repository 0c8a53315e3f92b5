//! OpenAI's `/v1/responses`.
//!
//! Each event names its type. Pieces come in `.delta` events of several kinds and are repeated by
//! `.done` events; usage comes with the terminal event, unasked. There is no `[DONE]`. Most servers keep
//! every response unless asked not to.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokometer_base::{IgnoreEos, PromptContent};
use tokometer_record::{Event, EventKind};

use super::completions::DETAILS;
use super::content;
use super::rules::{BodyContext, EndRule, Rules, WholeAnswer};
use crate::Error;
use crate::dialect::StreamState;
use crate::json_body::JsonBody;
use crate::scan::{Field, Fields, Key, Marks, Text, enter, is_abort, take, usage};
use crate::structured::{SCHEMA_NAME, Structured, ToolFields, ToolSet, is_choice_word, object};
use crate::tool_calls::ToolCalls;

pub(super) static RULES: Rules = Rules {
    write_constraint,
    write_tools,
    whole: WholeAnswer::Keys(ANSWER),
    is_typed: true,
    settle,
    take_calls,
    end: EndRule::FinalEvent,
    ..Rules::new(write_body, EVENT)
};

const EVENT: &[Key] = &[
    take("type", Field::EventType),
    take("delta", Field::Text),
    take("text", Field::EndedText),
    take("refusal", Field::EndedText),
    enter("response", RESPONSE),
    take("error", Field::Error),
];

const RESPONSE: &[Key] =
    &[take("status", Field::Status), usage("usage", USAGE), take("error", Field::Error)];

/// A response in one piece, whose output is a list of items.
const ANSWER: &[Key] = &[
    take("output", Field::Text),
    take("status", Field::Finish),
    usage("usage", USAGE),
    take("error", Field::Error),
];

const USAGE: &[Key] = &[
    take("input_tokens", Field::PromptTokens),
    take("output_tokens", Field::CompletionTokens),
    enter("input_tokens_details", DETAILS),
    enter("output_tokens_details", DETAILS),
];

/// `delta` is text in one event and a piece of a tool call in another, and `.done` events repeat what the pieces had.
fn settle(fields: &mut Fields<'_>, state: &mut StreamState, events: &[Event]) {
    let kind = fields.event_type.take();
    let kind = kind.as_ref().map_or(&b""[..], Text::as_bytes);
    let (piece, whole) = (fields.text.take(), fields.whole_text.take());
    match kind.strip_suffix(b".delta") {
        Some(b"response.output_text" | b"response.refusal") => fields.text = piece,
        // `reasoning_text`, `reasoning_summary_text`, and their earlier names.
        Some(kind) if kind.starts_with(b"response.reasoning") => fields.reasoning = piece,
        // Arguments of functions, tools and MCP servers, code of an interpreter.
        Some(_) if piece.is_some_and(|piece| !piece.is_empty()) => {
            fields.marks.set(Marks::TOOL_CALL);
        }
        Some(_) => {}
        None => settle_state(fields, kind),
    }
    if matches!(kind, b"response.output_text.done" | b"response.refusal.done") {
        let mut part = events.iter().skip(state.part_start);
        // The next part begins behind this event.
        state.part_start = events.len() + 1;
        if whole.is_some() && !part.any(|event| event.kind == EventKind::Text) {
            fields.text = whole;
            fields.marks.set(Marks::WHOLE_PART);
        }
    }
}

/// An event about the response as a whole.
fn settle_state(fields: &mut Fields<'_>, kind: &[u8]) {
    match kind {
        b"error" | b"response.failed" => fields.marks.set(Marks::ERROR),
        b"response.completed" | b"response.incomplete" | b"response.cancelled" => {
            fields.marks.set(Marks::FINISHED.and(Marks::LAST));
            if fields.status.as_ref().is_some_and(|status| is_abort(status.as_bytes())) {
                fields.marks.set(Marks::ABORTED);
            }
        }
        b"response.output_item.added" | b"response.function_call_arguments.done" => {
            fields.marks.set(Marks::NAMES_CALL);
        }
        // Servers may put a usage of zeros into the events that open a response.
        _ => fields.usage = None,
    }
}

fn take_calls(calls: &mut ToolCalls, kind: &str, event: &Value) {
    let last = calls.last_index();
    let index = event["output_index"].as_u64();
    match kind {
        "response.output_item.added" if event["item"]["type"] == "function_call" => {
            let index = index.unwrap_or_else(|| last.map_or(0, |last| last + 1));
            calls.add(index, &event["item"]["name"], &Value::Null);
        }
        "response.function_call_arguments.delta" => {
            calls.add(index.or(last).unwrap_or(0), &Value::Null, &event["delta"]);
        }
        // It repeats the pieces; some servers send no other.
        "response.function_call_arguments.done" => {
            let index = index.or(last).unwrap_or(0);
            if !calls.has_arguments(index) {
                calls.add(index, &Value::Null, &event["arguments"]);
            }
        }
        _ => {
            let items = (0..).zip(event["output"].as_array().into_iter().flatten());
            for (index, item) in items.filter(|(_, item)| item["type"] == "function_call") {
                calls.add(index, &item["name"], &item["arguments"]);
            }
        }
    }
}

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

fn write_constraint(body: &mut JsonBody<'_>, _: &BodyContext<'_>, constraint: &Structured) -> bool {
    match constraint {
        Structured::Json(schema) => body.raw(
            "text",
            &format!(
                r#"{{"format":{{"type":"json_schema","name":"{SCHEMA_NAME}","schema":{schema},"strict":true}}}}"#
            ),
        ),
        // The protocol has no field of its own for it; vLLM's server has.
        other => body.raw("structured_outputs", &other.of_vllm()),
    }
    true
}

fn write_tools(body: &mut JsonBody<'_>, tools: &ToolSet) -> bool {
    let Ok(kind) = RawValue::from_string(r#""function""#.to_owned()) else { return false };
    let flat = |function: ToolFields| {
        let mut fields = vec![("type", &*kind)];
        fields.extend(function.iter().map(|(name, value)| (name.as_str(), &**value)));
        object(&fields)
    };
    body.raw("tools", &format!("[{}]", tools.functions().map(flat).collect::<Vec<_>>().join(",")));
    if let Some(choice) = &tools.choice {
        let named = json!({ "type": "function", "name": choice });
        body.field("tool_choice", if is_choice_word(choice) { json!(choice) } else { named });
    }
    true
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
