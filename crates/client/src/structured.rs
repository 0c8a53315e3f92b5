//! Constraints on what an answer may be, and tools that the model may call, in each server's words.
//!
//! Both come from files and are kept as JSON text: the order of the keys of a schema decides the order
//! in which a constrained model writes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The name of a schema in requests that want one.
pub(crate) const SCHEMA_NAME: &str = "answer";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structured {
    Json(String),
    JsonObject,
    Regex(String),
    Choice(Vec<String>),
    Grammar(String),
}

const SCHEMA_KEYS: [&str; 10] =
    ["type", "properties", "$schema", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "items"];

impl Structured {
    /// Reads a constraint: a JSON schema, OpenAI's `response_format`, or vLLM's `structured_outputs`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).map_err(|why| format!("it is not a JSON object: {why}"))?;
        let word = |key: &str| fields.get(key).and_then(|it| serde_json::from_str(it.get()).ok());
        let nested =
            |json: &RawValue| serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(json.get());
        match word("type").unwrap_or_else(String::new).as_str() {
            "json_object" => return Ok(Self::JsonObject),
            "json_schema" => {
                // Nested in chat requests, flat in the Responses API.
                let inner = fields.get("json_schema").and_then(|json| nested(json).ok());
                let schema = inner.as_ref().unwrap_or(&fields).get("schema");
                let schema = schema.ok_or("its `json_schema` has no `schema`")?;
                return Self::schema(schema.get());
            }
            _ => {}
        }
        if let Some(inner) = fields.get("structured_outputs") {
            return Self::parse(inner.get());
        }
        let kinds = ["json", "regex", "choice", "grammar"];
        let kind = kinds.into_iter().find(|kind| fields.contains_key(*kind));
        match kind.map(|kind| (kind, &fields[kind])) {
            Some(("json", schema)) => Self::schema(schema.get()),
            Some(("choice", list)) => serde_json::from_str(list.get())
                .map(Self::Choice)
                .map_err(|_| "its `choice` is not a list of texts".to_owned()),
            Some((kind, text)) => {
                let text: String = serde_json::from_str(text.get())
                    .map_err(|_| format!("its `{kind}` is not a text"))?;
                Ok(if kind == "regex" { Self::Regex(text) } else { Self::Grammar(text) })
            }
            None => Self::schema(text),
        }
    }

    fn schema(text: &str) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
        let is_schema = schema
            .as_object()
            .is_some_and(|fields| SCHEMA_KEYS.iter().any(|key| fields.contains_key(*key)));
        if !is_schema {
            return Err(
                "it is not a JSON schema: it has neither a `type` nor `properties`".to_owned()
            );
        }
        Ok(Self::Json(text.trim().to_owned()))
    }

    pub(crate) fn of_vllm(&self) -> String {
        match self {
            Self::Json(schema) => format!(r#"{{"json":{schema}}}"#),
            Self::JsonObject => r#"{"json_object":true}"#.to_owned(),
            Self::Regex(regex) => json!({ "regex": regex }).to_string(),
            Self::Choice(choice) => json!({ "choice": choice }).to_string(),
            Self::Grammar(grammar) => json!({ "grammar": grammar }).to_string(),
        }
    }

    /// A field of SGLang's own, where there is one.
    pub(crate) fn of_sglang(&self) -> Option<BodyField> {
        let (name, value) = match self {
            Self::Json(schema) => ("json_schema", json!(schema)),
            Self::JsonObject => ("json_schema", json!(r#"{"type":"object"}"#)),
            Self::Regex(regex) => ("regex", json!(regex)),
            Self::Grammar(grammar) => ("ebnf", json!(grammar)),
            Self::Choice(_) => return None,
        };
        Some(BodyField { name, value })
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Json(_) => "a JSON schema",
            Self::JsonObject => "a JSON object",
            Self::Regex(_) => "a regular expression",
            Self::Choice(_) => "a choice of texts",
            Self::Grammar(_) => "a grammar",
        }
    }
}

pub(crate) struct BodyField {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
}

/// A tool's definition and whether the model must call one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolSet {
    /// Each as a JSON object in OpenAI's chat form, with a nested `function`.
    pub definitions: Vec<String>,
    /// `auto`, `none`, `required`, or the name of a tool. `None` leaves it to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
}

pub(crate) type ToolFields = BTreeMap<String, Box<RawValue>>;

impl ToolSet {
    /// Reads a list of tools, or an object with `tools` and perhaps a `tool_choice`.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Wrapped<'a> {
            #[serde(borrow)]
            tools: Vec<&'a RawValue>,
            tool_choice: Option<Value>,
        }
        let list = serde_json::from_str::<Vec<&RawValue>>(text).map(|tools| (tools, None));
        let read = list.or_else(|_| {
            let Wrapped { tools, tool_choice } = serde_json::from_str(text)?;
            Ok::<_, serde_json::Error>((tools, tool_choice))
        });
        let (tools, choice) = read
            .map_err(|_| "it is neither a list of tools nor an object with `tools`".to_owned())?;
        if tools.is_empty() {
            return Err("it has no tools".to_owned());
        }
        let one = |(index, tool): (usize, &&RawValue)| {
            definition(tool.get()).map_err(|why| format!("tool {}: {why}", index + 1))
        };
        let definitions = tools.iter().enumerate().map(one).collect::<Result<_, _>>()?;
        let choice = match choice {
            Some(Value::String(word)) => Some(word),
            Some(object) => {
                let name = object.pointer("/function/name").or_else(|| object.get("name"));
                name.and_then(Value::as_str).map(str::to_owned)
            }
            None => None,
        };
        Ok(Self { definitions, choice })
    }

    pub fn names(&self) -> impl Iterator<Item = String> {
        self.definitions.iter().filter_map(|text| {
            let tool: Value = serde_json::from_str(text).ok()?;
            tool.pointer("/function/name").and_then(Value::as_str).map(str::to_owned)
        })
    }

    /// The functions with their fields as they are written.
    pub(crate) fn functions(&self) -> impl Iterator<Item = ToolFields> {
        let function = |text: &String| {
            let tool: ToolFields = serde_json::from_str(text).ok()?;
            serde_json::from_str::<ToolFields>(tool.get("function")?.get()).ok()
        };
        self.definitions.iter().filter_map(function)
    }
}

/// A tool in OpenAI's chat form. The flat form of the Responses API and Anthropic's are accepted too.
fn definition(text: &str) -> Result<String, String> {
    let fields: ToolFields =
        serde_json::from_str(text).map_err(|_| "it is not an object".to_owned())?;
    if fields.contains_key("function") {
        let inner: Value = serde_json::from_str(fields["function"].get()).unwrap_or_default();
        let has_name = inner.get("name").is_some_and(Value::is_string);
        return if has_name {
            Ok(text.to_owned())
        } else {
            Err("its function has no `name`".to_owned())
        };
    }
    if !fields.contains_key("name") {
        return Err("it has neither a `function` nor a `name`".to_owned());
    }
    let mut function: Vec<(&str, &RawValue)> = Vec::new();
    for (ours, theirs) in [
        ("name", "name"),
        ("description", "description"),
        ("parameters", "parameters"),
        ("parameters", "input_schema"),
        ("strict", "strict"),
    ] {
        function.extend(fields.get(theirs).map(|value| (ours, &**value)));
    }
    Ok(format!(r#"{{"type":"function","function":{}}}"#, object(&function)))
}

pub(crate) fn object(fields: &[(&str, &RawValue)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{}", value.get())).collect();
    format!("{{{}}}", fields.join(","))
}

/// Whether a choice of tools is one of the protocol's words, and not the name of a tool.
pub(crate) fn is_choice_word(choice: &str) -> bool {
    matches!(choice, "auto" | "none" | "required")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::tests::{body_of, refused, settings, text_prompt};

    const SCHEMA: &str =
        r#"{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}}}"#;

    #[test]
    fn a_constraint_is_read_in_each_tool_s_spelling() {
        let json = || Ok(Structured::Json(SCHEMA.to_owned()));
        let check = |text: &str, expected| assert_eq!(Structured::parse(text), expected, "{text}");
        check(SCHEMA, json());
        check(&format!(r#"{{"json":{SCHEMA}}}"#), json());
        check(&format!(r#"{{"structured_outputs":{{"json":{SCHEMA}}}}}"#), json());
        check(
            &format!(r#"{{"type":"json_schema","json_schema":{{"name":"x","schema":{SCHEMA}}}}}"#),
            json(),
        );
        check(&format!(r#"{{"type":"json_schema","name":"x","schema":{SCHEMA}}}"#), json());
        check(r#"{"type":"json_object"}"#, Ok(Structured::JsonObject));
        check(r#"{"regex":"a+"}"#, Ok(Structured::Regex("a+".to_owned())));
        let words = vec!["yes".to_owned(), "no".to_owned()];
        check(r#"{"choice":["yes","no"]}"#, Ok(Structured::Choice(words)));
        let why = |text: &str| Structured::parse(text).unwrap_err();
        assert!(why("[1]").contains("not a JSON object"), "{}", why("[1]"));
        assert!(why(r#"{"a":1}"#).contains("not a JSON schema"));
        assert!(why(r#"{"choice":"yes"}"#).contains("not a list of texts"));
    }

    #[test]
    fn a_schema_goes_where_the_server_looks_for_it_with_its_keys_in_their_order() {
        let mut settings = settings();
        settings.structured = Some(Structured::Json(SCHEMA.to_owned()));
        let check = |name: &str, expected: &str| {
            let body = body_of(name, &settings, &text_prompt());
            assert!(body.contains(expected), "{name}: {body}");
        };
        let nested = format!(
            r#""response_format":{{"type":"json_schema","json_schema":{{"name":"answer","schema":{SCHEMA},"strict":true}}}}"#
        );
        check("openai-chat", &nested);
        check("sglang-oai-chat", &nested);
        check("vllm", &format!(r#""structured_outputs":{{"json":{SCHEMA}}}"#));
        let quoted = serde_json::to_string(SCHEMA).unwrap();
        check("sglang", &format!(r#""json_schema":{quoted}"#));
        check("sglang-oai", &format!(r#""json_schema":{quoted}"#));
        check(
            "openai-responses",
            &format!(
                r#""text":{{"format":{{"type":"json_schema","name":"answer","schema":{SCHEMA}"#
            ),
        );
        check(
            "anthropic",
            &format!(r#""output_config":{{"format":{{"type":"json_schema","schema":{SCHEMA}}}}}"#),
        );
        check("llamacpp", &format!(r#""json_schema":{SCHEMA}"#));
        check("tgi", r#""grammar":{"type":"json","value":{"#);
        let why = refused("tensorrt-llm", &settings, &text_prompt());
        assert!(why.contains("a JSON schema") && why.contains("`tensorrt-llm`"), "{why}");
        settings.structured = Some(Structured::Choice(vec!["a".to_owned()]));
        let body = body_of("openai-chat", &settings, &text_prompt());
        assert!(body.contains(r#""structured_outputs":{"choice":["a"]}"#), "{body}");
        assert!(refused("sglang", &settings, &text_prompt()).contains("a choice of texts"));
    }

    #[test]
    fn tools_are_sent_in_the_form_of_the_protocol() {
        let text = r#"{"tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],"tool_choice":"required"}"#;
        let mut settings = settings();
        settings.tools = Some(ToolSet::parse(text).unwrap());
        let body = |name: &str| body_of(name, &settings, &text_prompt());
        assert!(body("openai-chat").contains(
            r#""tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],"tool_choice":"required""#
        ));
        assert!(body("openai-responses").contains(
            r#""tools":[{"type":"function","name":"f","parameters":{"z":1,"a":2}}],"tool_choice":"required""#
        ));
        assert!(body("anthropic").contains(
            r#""tools":[{"name":"f","input_schema":{"z":1,"a":2}}],"tool_choice":{"type":"any"}"#
        ));
        assert!(refused("vllm", &settings, &text_prompt()).contains("tools"));
        let flat = ToolSet::parse(r#"[{"name":"g","input_schema":{"type":"object"}}]"#).unwrap();
        assert_eq!(flat.names().collect::<Vec<_>>(), ["g"]);
        let why = |text: &str| ToolSet::parse(text).unwrap_err();
        assert_eq!(
            why(r#"[{"type":"function"}]"#),
            "tool 1: it has neither a `function` nor a `name`"
        );
        assert_eq!(why("[]"), "it has no tools");
        assert_eq!(why("3"), "it is neither a list of tools nor an object with `tools`");
    }
}
