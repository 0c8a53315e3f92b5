//! Joins the pieces of tool calls.
//!
//! A call begins with its name; its arguments come in pieces. What identifies a call differs: `index` in chat,
//! `output_index` in the Responses API, the block's `index` in the Messages API. Servers that leave it out, or
//! give it to every call alike, send one call after another; then an item, or a name with an id, begins the next.

use memchr::memmem;
use serde::Serialize;
use serde_json::Value;

use crate::scan::EventSchema;

#[derive(Debug, Default)]
pub(super) struct ToolCalls(Vec<ToolCall>);

#[derive(Debug, Default, Serialize)]
struct ToolCall {
    #[serde(skip)]
    place: u64,
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

    /// Takes what an event, or an answer in one piece, says about calls. `name` is the event's type where its data
    /// has none.
    pub(super) fn take(&mut self, schema: EventSchema, name: &[u8], data: &[u8]) {
        let words: &[&str] = match schema {
            EventSchema::Shared | EventSchema::Choices => &["tool_calls", "function_call"],
            EventSchema::Responses => &["function_call"],
            EventSchema::Messages => &["tool_use", "input_json_delta"],
            _ => return,
        };
        let has = |word: &&str| {
            [name, data].iter().any(|text| memmem::find(text, word.as_bytes()).is_some())
        };
        if !words.iter().any(has) {
            return;
        }
        let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
        match schema {
            EventSchema::Responses => {
                let name = std::str::from_utf8(name).unwrap_or_default();
                self.take_response(event["type"].as_str().unwrap_or(name), &event);
            }
            EventSchema::Messages => self.take_message(&event),
            _ => self.take_choice(&event),
        }
    }

    fn take_choice(&mut self, event: &Value) {
        let choice = &event["choices"][0];
        let list = [&choice["delta"], &choice["message"]].map(|part| part["tool_calls"].as_array());
        for (place, call) in (0..).zip(list.into_iter().flatten().flatten()) {
            let place = call["index"].as_u64().unwrap_or(place);
            let function = &call["function"];
            // Some servers give every piece an id of its own; only the first has the name.
            if function["name"].as_str().is_some_and(|name| !name.is_empty()) {
                self.begin(place, call["id"].as_str().unwrap_or_default());
            }
            self.add(place, &function["name"], &function["arguments"]);
        }
        // The form before `tool_calls` has one call.
        for part in [&choice["delta"], &choice["message"]] {
            let function = &part["function_call"];
            if function.is_object() {
                self.add(0, &function["name"], &function["arguments"]);
            }
        }
    }

    fn take_response(&mut self, kind: &str, event: &Value) {
        let last = self.0.last().map(|call| call.place);
        let place = event["output_index"].as_u64();
        match kind {
            "response.output_item.added" if event["item"]["type"] == "function_call" => {
                let place = place.unwrap_or_else(|| last.map_or(0, |last| last + 1));
                self.add(place, &event["item"]["name"], &Value::Null);
            }
            "response.function_call_arguments.delta" => {
                self.add(place.or(last).unwrap_or(0), &Value::Null, &event["delta"]);
            }
            // It repeats the pieces; some servers send no other.
            "response.function_call_arguments.done" => {
                let place = place.or(last).unwrap_or(0);
                let call = self.0.iter().rfind(|call| call.place == place);
                if call.is_none_or(|call| call.arguments.is_empty()) {
                    self.add(place, &Value::Null, &event["arguments"]);
                }
            }
            _ => {
                let items = (0..).zip(event["output"].as_array().into_iter().flatten());
                for (place, item) in items.filter(|(_, item)| item["type"] == "function_call") {
                    self.add(place, &item["name"], &item["arguments"]);
                }
            }
        }
    }

    fn take_message(&mut self, event: &Value) {
        let place = event["index"].as_u64().unwrap_or(0);
        let block = &event["content_block"];
        if block["type"] == "tool_use" {
            // The arguments come behind it; a server that sends them at once sends no piece.
            let is_empty = block["input"].as_object().is_none_or(serde_json::Map::is_empty);
            let input = if is_empty { &Value::Null } else { &block["input"] };
            self.add(place, &block["name"], input);
        }
        self.add_known(place, &event["delta"]["partial_json"]);
        let blocks = (0..).zip(event["content"].as_array().into_iter().flatten());
        for (place, block) in blocks.filter(|(_, block)| block["type"] == "tool_use") {
            self.add(place, &block["name"], &block["input"]);
        }
    }

    fn add_known(&mut self, place: u64, arguments: &Value) {
        if arguments.is_string() {
            self.add(place, &Value::Null, arguments);
        }
    }

    /// Begins another call at `place` where the id is not that of the one there.
    fn begin(&mut self, place: u64, id: &str) {
        let known = self.0.iter().rfind(|call| call.place == place);
        if !id.is_empty() && known.is_none_or(|call| call.id != id) {
            self.0.push(ToolCall { place, id: id.to_owned(), ..ToolCall::default() });
        }
    }

    /// Adds to the last call at `place`. Arguments are a text, or the document itself.
    fn add(&mut self, place: u64, name: &Value, arguments: &Value) {
        let at = self.0.iter().rposition(|call| call.place == place).unwrap_or_else(|| {
            self.0.push(ToolCall { place, ..ToolCall::default() });
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
    use super::*;

    fn joined(schema: EventSchema, events: &[&str]) -> String {
        let mut calls = ToolCalls::default();
        for event in events {
            calls.take(schema, b"", event.as_bytes());
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
        assert_eq!(joined(EventSchema::Shared, &chat), ONE);
        let responses = [
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"f","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\""}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":":1}"}"#,
            r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"f","arguments":"{\"a\":1}"}}"#,
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call","name":"f","arguments":"{\"a\":1}"}]}}"#,
        ];
        assert_eq!(joined(EventSchema::Responses, &responses), ONE);
        let messages = [
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":1}"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        ];
        assert_eq!(joined(EventSchema::Messages, &messages), ONE);
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
        assert_eq!(joined(EventSchema::Shared, &events.each_ref().map(String::as_str)), TWO);
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
        assert_eq!(joined(EventSchema::Responses, &events.each_ref().map(String::as_str)), TWO);
    }

    #[test]
    fn arguments_that_come_only_at_their_end_count_once() {
        let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f"}}"#;
        let done = r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"a\":1}"}"#;
        assert_eq!(joined(EventSchema::Responses, &[added, done]), ONE);
        assert_eq!(joined(EventSchema::Responses, &[added, done, done]), ONE);
    }

    #[test]
    fn a_block_may_open_with_its_input() {
        let opened = |input: &str| {
            format!(
                r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","name":"f","input":{input}}}}}"#
            )
        };
        assert_eq!(joined(EventSchema::Messages, &[&opened(r#"{"a":1}"#)]), ONE);
        let empty = r#"[{"name":"f","arguments":""}]"#;
        assert_eq!(joined(EventSchema::Messages, &[&opened("{}")]), empty);
    }

    #[test]
    fn answers_in_one_piece_have_their_calls_too() {
        let chat = r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}"#;
        assert_eq!(joined(EventSchema::Shared, &[chat]), ONE);
        let responses =
            r#"{"output":[{"type":"function_call","name":"f","arguments":"{\"a\":1}"}]}"#;
        assert_eq!(joined(EventSchema::Responses, &[responses]), ONE);
        let messages = r#"{"content":[{"type":"tool_use","name":"f","input":{"a":1}}]}"#;
        assert_eq!(joined(EventSchema::Messages, &[messages]), ONE);
        let text = r#"{"choices":[{"delta":{"content":"tool_calls","tool_calls":[]}}]}"#;
        assert_eq!(joined(EventSchema::Shared, &[text]), "");
    }
}
