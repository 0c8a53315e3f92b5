//! Joins the pieces of tool calls.
//!
//! A call begins with its name; its arguments come in pieces. An index identifies it. Servers that leave it out,
//! or give it to every call alike, send one call after another; then an item, or a name with an id, begins the next.

use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Default)]
pub(crate) struct ToolCalls(Vec<ToolCall>);

#[derive(Debug, Default, Serialize)]
struct ToolCall {
    #[serde(skip)]
    index: u64,
    /// Empty where the server gives none.
    #[serde(skip)]
    id: String,
    name: String,
    arguments: String,
}

impl ToolCalls {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The calls as JSON text. `None` when there was none.
    pub(super) fn to_json(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(&self.0).unwrap_or_default())
    }

    pub(crate) fn last_index(&self) -> Option<u64> {
        self.0.last().map(|call| call.index)
    }

    /// Whether arguments of the last call at `index` have come.
    pub(crate) fn has_arguments(&self, index: u64) -> bool {
        let call = self.0.iter().rfind(|call| call.index == index);
        call.is_some_and(|call| !call.arguments.is_empty())
    }

    /// Begins another call at `index` where the id is not that of the one there.
    pub(crate) fn begin(&mut self, index: u64, id: &str) {
        let known = self.0.iter().rfind(|call| call.index == index);
        if !id.is_empty() && known.is_none_or(|call| call.id != id) {
            self.0.push(ToolCall { index, id: id.to_owned(), ..ToolCall::default() });
        }
    }

    /// Adds to the last call at `index`. Arguments are a text, or the document itself.
    pub(crate) fn add(&mut self, index: u64, name: &Value, arguments: &Value) {
        let at = self.0.iter().rposition(|call| call.index == index).unwrap_or_else(|| {
            self.0.push(ToolCall { index, ..ToolCall::default() });
            self.0.len() - 1
        });
        let call = &mut self.0[at];
        call.name.push_str(name.as_str().unwrap_or_default());
        match arguments {
            Value::Null => {}
            Value::String(piece) => call.arguments.push_str(piece),
            document => call.arguments.push_str(&document.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::backend::Protocol;

    use super::*;
    use crate::dialect::rules_of;

    fn joined(protocol: Protocol, events: &[&str]) -> String {
        let mut calls = ToolCalls::default();
        for event in events {
            let event: Value = serde_json::from_str(event).unwrap();
            let kind = event["type"].as_str().unwrap_or_default();
            (rules_of(protocol).take_calls)(&mut calls, kind, &event);
        }
        calls.to_json().unwrap_or_default()
    }

    const ONE: &str = r#"[{"name":"f","arguments":"{\"a\":1}"}]"#;

    #[test]
    fn pieces_of_every_protocol_are_joined() {
        let chat = [
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
        ];
        assert_eq!(joined(Protocol::Chat, &chat), ONE);
        let responses = [
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"f","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\""}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":":1}"}"#,
            r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"f","arguments":"{\"a\":1}"}}"#,
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call","name":"f","arguments":"{\"a\":1}"}]}}"#,
        ];
        assert_eq!(joined(Protocol::Responses, &responses), ONE);
        let messages = [
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":1}"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        ];
        assert_eq!(joined(Protocol::Messages, &messages), ONE);
    }

    const TWO: &str =
        r#"[{"name":"f","arguments":"{\"a\":1}"},{"name":"g","arguments":"{\"b\":2}"}]"#;

    /// They became one call of no tool.
    #[test]
    fn calls_without_an_index_of_their_own_stay_apart() {
        let chat = |id: &str, name: &str, arguments: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"{id}","function":{{"name":"{name}","arguments":"{arguments}"}}}}]}}}}]}}"#
            )
        };
        let events = [
            chat("x", "f", r#"{\"a\":1}"#),
            chat("y", "g", r#"{\"b\""#),
            // A piece without a name belongs to the call under way, whatever its id.
            chat("y", "", ":"),
            chat("z", "", "2"),
            chat("", "", "}"),
        ];
        assert_eq!(joined(Protocol::Chat, &events.each_ref().map(String::as_str)), TWO);
        let added = |name: &str| {
            format!(
                r#"{{"type":"response.output_item.added","item":{{"type":"function_call","name":"{name}","arguments":""}}}}"#
            )
        };
        let piece = |text: &str| {
            format!(
                r#"{{"type":"response.function_call_arguments.delta","item_id":"i","delta":"{text}"}}"#
            )
        };
        let events =
            [added("f"), piece(r#"{\"a\":"#), piece("1}"), added("g"), piece(r#"{\"b\":2}"#)];
        assert_eq!(joined(Protocol::Responses, &events.each_ref().map(String::as_str)), TWO);
    }

    #[test]
    fn arguments_that_come_only_at_their_end_count_once() {
        let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f"}}"#;
        let done = r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"a\":1}"}"#;
        assert_eq!(joined(Protocol::Responses, &[added, done]), ONE);
        assert_eq!(joined(Protocol::Responses, &[added, done, done]), ONE);
    }

    #[test]
    fn a_block_may_open_with_its_input() {
        let opened = |input: &str| {
            format!(
                r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","name":"f","input":{input}}}}}"#
            )
        };
        assert_eq!(joined(Protocol::Messages, &[&opened(r#"{"a":1}"#)]), ONE);
        let empty = r#"[{"name":"f","arguments":""}]"#;
        assert_eq!(joined(Protocol::Messages, &[&opened("{}")]), empty);
    }

    #[test]
    fn answers_in_one_piece_have_their_calls_too() {
        let chat = r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}"#;
        assert_eq!(joined(Protocol::Chat, &[chat]), ONE);
        let responses =
            r#"{"output":[{"type":"function_call","name":"f","arguments":"{\"a\":1}"}]}"#;
        assert_eq!(joined(Protocol::Responses, &[responses]), ONE);
        let messages = r#"{"content":[{"type":"tool_use","name":"f","input":{"a":1}}]}"#;
        assert_eq!(joined(Protocol::Messages, &[messages]), ONE);
        let text = r#"{"choices":[{"delta":{"content":"tool_calls","tool_calls":[]}}]}"#;
        assert_eq!(joined(Protocol::Chat, &[text]), "");
    }
}
