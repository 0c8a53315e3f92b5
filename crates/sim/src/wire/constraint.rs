//! Answers that a request constrains: a document that fits a JSON schema, or a call of a tool.
//!
//! The document is the smallest that the schema accepts, cut into tokens of a few characters. A schema with
//! a part that is not read here, and a choice that is left to the model, constrain nothing.

use serde_json::{Map, Value, json};

const TOKEN_CHARS: usize = 4;
const DEPTH_MAX: usize = 16;
/// Items and characters of a document that is made. No model answers with as many.
const SIZE_MAX: u64 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constraint {
    pub(super) pieces: Vec<String>,
    /// The tool whose arguments the document is.
    pub(super) tool: Option<CalledTool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CalledTool {
    pub(super) name: String,
    /// Whether the request names it, instead of asking for any.
    pub(super) is_named: bool,
}

enum ToolChoice<'b> {
    /// It is left to the model.
    Free,
    Any,
    Named(&'b str),
}

impl<'b> ToolChoice<'b> {
    fn of(name: Option<&'b Value>, any: &Value, word: &str) -> Self {
        match name.and_then(Value::as_str) {
            Some(name) => Self::Named(name),
            None if any == word => Self::Any,
            None => Self::Free,
        }
    }
}

pub(super) fn of_chat(body: &Value) -> Option<Constraint> {
    let choice = &body["tool_choice"];
    let wanted = ToolChoice::of(choice.pointer("/function/name"), choice, "required");
    call(list(body).map(|tool| &tool["function"]), "parameters", &wanted)
        .or_else(|| document(body.pointer("/response_format/json_schema/schema")))
        .or_else(|| document(body.pointer("/structured_outputs/json")))
}

pub(super) fn of_response(body: &Value) -> Option<Constraint> {
    let choice = &body["tool_choice"];
    call(list(body), "parameters", &ToolChoice::of(choice.get("name"), choice, "required"))
        .or_else(|| document(body.pointer("/text/format/schema")))
}

pub(super) fn of_message(body: &Value) -> Option<Constraint> {
    let choice = &body["tool_choice"];
    call(list(body), "input_schema", &ToolChoice::of(choice.get("name"), &choice["type"], "any"))
        .or_else(|| document(body.pointer("/output_config/format/schema")))
}

fn list(body: &Value) -> impl Iterator<Item = &Value> {
    body["tools"].as_array().into_iter().flatten()
}

fn call<'b>(
    mut tools: impl Iterator<Item = &'b Value>,
    schema: &str,
    choice: &ToolChoice<'_>,
) -> Option<Constraint> {
    let (tool, is_named) = match choice {
        ToolChoice::Named(name) => (tools.find(|tool| tool["name"] == *name)?, true),
        ToolChoice::Any => (tools.next()?, false),
        ToolChoice::Free => return None,
    };
    let found = document(tool.get(schema))?;
    let name = tool["name"].as_str()?.to_owned();
    Some(Constraint { tool: Some(CalledTool { name, is_named }), ..found })
}

fn document(schema: Option<&Value>) -> Option<Constraint> {
    let schema = schema?;
    let text = SmallestDocument { root: schema, left: SIZE_MAX }.of(schema, 0)?.to_string();
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(TOKEN_CHARS).map(|piece| piece.iter().collect()).collect();
    Some(Constraint { pieces, tool: None })
}

/// Finds the smallest document that fits a schema. `None` for a schema that is not understood, and for
/// documents that are too deep or too large to be an answer.
struct SmallestDocument<'a> {
    root: &'a Value,
    /// Items and characters that may still be added.
    left: u64,
}

impl SmallestDocument<'_> {
    fn of(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        let first = |name: &str| schema[name].as_array().and_then(|list| list.first());
        if let Some(value) = schema.get("const").or(first("enum")) {
            let _size = self.take(size(value))?;
            return Some(value.clone());
        }
        if let Some(pointer) = schema["$ref"].as_str() {
            return self.of(self.root.pointer(pointer.strip_prefix('#')?)?, depth + 1);
        }
        if let Some(choice) = first("anyOf").or(first("oneOf")) {
            return self.of(choice, depth + 1);
        }
        let kind = schema["type"].as_str().or_else(|| first("type").and_then(Value::as_str));
        match kind {
            Some("object") => {
                let names = schema["required"].as_array().into_iter().flatten();
                let member = |name: &Value| {
                    let name = name.as_str()?;
                    let _size = self.take(1 + name.len() as u64)?;
                    Some((name.to_owned(), self.of(&schema["properties"][name], depth + 1)?))
                };
                names.map(member).collect::<Option<Map<String, Value>>>().map(Value::Object)
            }
            Some("array") => {
                let least = self.take(schema["minItems"].as_u64().unwrap_or(0))?;
                let item = |_| self.of(&schema["items"], depth + 1);
                (0..least).map(item).collect::<Option<Vec<Value>>>().map(Value::Array)
            }
            Some("string") => {
                let least = self.take(schema["minLength"].as_u64().unwrap_or(1))?;
                Some(json!("a".repeat(least)))
            }
            Some("integer" | "number") => {
                Some(schema.get("minimum").cloned().unwrap_or_else(|| json!(0)))
            }
            Some("boolean") => Some(json!(true)),
            Some("null") => Some(Value::Null),
            _ => None,
        }
    }

    /// Counts items and characters before they are added.
    fn take(&mut self, count: u64) -> Option<usize> {
        self.left = self.left.checked_sub(count)?;
        usize::try_from(count).ok()
    }
}

/// Items and characters of a value that the schema gives.
fn size(value: &Value) -> u64 {
    1 + match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() as u64 + size(member)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object", "required": ["city", "days", "tags", "next"],
            "properties": {
                "city": { "type": "string", "enum": ["Oslo", "Rome"] },
                "days": { "type": "integer", "minimum": 1 },
                "tags": { "type": "array", "items": { "type": "string", "minLength": 2 }, "minItems": 1 },
                "next": { "anyOf": [{ "$ref": "#/$defs/leaf" }, { "type": "null" }] },
                "more": { "type": "number" },
            },
            "$defs": { "leaf": { "type": "boolean" } },
        })
    }

    const FITS: &str = r#"{"city":"Oslo","days":1,"next":true,"tags":["aa"]}"#;

    fn written(found: Option<Constraint>) -> Option<(String, Option<(String, bool)>)> {
        let tool = |tool: CalledTool| (tool.name, tool.is_named);
        found.map(|found| (found.pieces.concat(), found.tool.map(tool)))
    }

    #[test]
    fn every_route_has_its_own_words_for_a_schema_and_a_tool() {
        let text = Some((FITS.to_owned(), None));
        let chat = json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": schema() } } });
        assert_eq!(written(of_chat(&chat)), text);
        assert_eq!(written(of_chat(&json!({ "structured_outputs": { "json": schema() } }))), text);
        assert_eq!(
            written(of_response(&json!({ "text": { "format": { "schema": schema() } } }))),
            text
        );
        let message = json!({ "output_config": { "format": { "schema": schema() } } });
        assert_eq!(written(of_message(&message)), text);

        let call = |is_named| Some((FITS.to_owned(), Some(("f".to_owned(), is_named))));
        let tools =
            json!([{ "type": "function", "function": { "name": "f", "parameters": schema() } }]);
        assert_eq!(
            written(of_chat(&json!({ "tools": tools, "tool_choice": "required" }))),
            call(false)
        );
        let named = json!({ "type": "function", "function": { "name": "f" } });
        assert_eq!(written(of_chat(&json!({ "tools": tools, "tool_choice": named }))), call(true));
        let tools = json!([{ "type": "function", "name": "f", "parameters": schema() }]);
        let named = json!({ "type": "function", "name": "f" });
        assert_eq!(
            written(of_response(&json!({ "tools": tools, "tool_choice": named }))),
            call(true)
        );
        let tools = json!([{ "name": "f", "input_schema": schema() }]);
        let any = json!({ "type": "any" });
        assert_eq!(
            written(of_message(&json!({ "tools": tools, "tool_choice": any }))),
            call(false)
        );
        // What is left to the model, or cannot be read, constrains nothing.
        assert_eq!(
            written(of_message(&json!({ "tools": tools, "tool_choice": { "type": "auto" } }))),
            None
        );
        let unknown = json!({ "type": "function", "name": "g" });
        assert_eq!(written(of_response(&json!({ "tools": tools, "tool_choice": unknown }))), None);
        assert_eq!(
            written(of_response(&json!({ "text": { "format": { "schema": true } } }))),
            None
        );
    }

    /// One such request took all memory and ended the server.
    #[test]
    fn a_schema_whose_documents_are_endless_constrains_nothing() {
        let longest = json!({ "type": "string", "minLength": u64::MAX });
        assert_eq!(document(Some(&longest)), None);
        let many = json!({ "type": "array", "items": { "type": "null" }, "minItems": 2_000 });
        assert!(document(Some(&many)).is_some());
        let squared = json!({ "type": "array", "items": many, "minItems": 2_000 });
        assert_eq!(document(Some(&squared)), None);
    }

    /// Values that the schema gives itself, and the members of objects, were not counted.
    #[test]
    fn given_values_and_objects_count_for_the_size_of_a_document() {
        let repeated = |item: Value, count: u64| {
            document(Some(&json!({ "type": "array", "items": item, "minItems": count })))
        };
        let text = "a".repeat(100_000);
        for given in [json!({ "const": text }), json!({ "enum": [[[text]]] })] {
            assert!(repeated(given.clone(), 2).is_some());
            assert!(repeated(given, 1_000).is_none());
        }
        let name = "n".repeat(100_000);
        let object = json!({
            "type": "object", "required": [name], "properties": { &name: { "type": "null" } },
        });
        assert!(repeated(object.clone(), 2).is_some());
        assert!(repeated(object, 1_000).is_none());
        let one = json!({ "const": { "key": "value" } });
        assert!(repeated(one.clone(), 1_000).is_some());
        assert!(repeated(one, 999_999).is_none());
    }
}
