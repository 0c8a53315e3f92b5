//! Spans of OpenTelemetry's conventions for generative AI: a list of spans with ISO times, or OTLP as JSON.
//!
//! A span that chats with a model is a call; those of tools are the gaps between calls. A span without messages has
//! only its lengths.

use serde_json::{Map, Value, json};
use tokometer_base::Nanos;

use super::super::call::{Agent, Call, Content, Moment, SECOND, Tokens, key};
use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

pub(in super::super) const FORM: Form = Form {
    name: "opentelemetry",
    is: |names| names.have_any(&["spans", "resourcespans"]),
    read,
    clock: TraceClock::Trace,
};

fn read(row: Row<'_>, setting: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let file: Map<String, Value> = form::json(row)?;
    let trace = file.get("trace_id").and_then(Value::as_str);
    for span in spans(&file) {
        match Span::of(span).and_then(|span| span.call(trace, setting)) {
            Ok(Some(call)) if !found.calls.contains(&call) => found.calls.push(call),
            Ok(_) => {}
            Err(flaw) => found.flaws.push(flaw),
        }
    }
    Ok(())
}

/// The spans of a plain list, or of all scopes of all resources.
fn spans(file: &Map<String, Value>) -> Vec<&Value> {
    fn items(of: Option<&Value>) -> &[Value] {
        of.and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
    }
    let resources = items(file.get("resourceSpans")).iter();
    let scopes = resources.flat_map(|resource| items(resource.get("scopeSpans")));
    items(file.get("spans"))
        .iter()
        .chain(scopes.flat_map(|scope| items(scope.get("spans"))))
        .collect()
}

struct Span<'a> {
    fields: &'a Map<String, Value>,
    attributes: Map<String, Value>,
}

impl<'a> Span<'a> {
    fn of(span: &'a Value) -> Result<Self, Flaw> {
        let fields = span.as_object().ok_or_else(|| "a span is not an object".to_owned())?;
        let attributes = match fields.get("attributes") {
            Some(Value::Object(attributes)) => attributes.clone(),
            Some(Value::Array(list)) => list.iter().filter_map(otlp_attribute).collect(),
            _ => Map::new(),
        };
        Ok(Self { fields, attributes })
    }

    fn text(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.attributes.get(*name).and_then(Value::as_str))
    }

    fn tokens(&self, name: &str) -> Option<u32> {
        let names = match name {
            "input" => ["gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"],
            _ => ["gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"],
        };
        let value = names.iter().find_map(|name| self.attributes.get(*name))?;
        serde_json::from_value(value.clone()).ok().map(|tokens: Tokens| tokens.0)
    }

    fn time(&self, names: [&str; 2]) -> Result<Nanos, Flaw> {
        let none = || FlawKind::NoTime.with(format!("a span has no `{}`", names[0]));
        let [iso, nanos] = names.map(|name| self.fields.get(name));
        if let Some(text) = iso.and_then(Value::as_str) {
            return Moment::parse(text)?.nanos(SECOND);
        }
        let nanos = nanos.and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
        nanos.map(Nanos).ok_or_else(none)
    }

    /// The call of a span. `None` for a span that does not chat with a model, and for one that failed.
    fn call(&self, trace: Option<&str>, setting: &Setting) -> Result<Option<Call>, Flaw> {
        let name = self.fields.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_chat = self
            .text(&["gen_ai.operation.name"])
            .map_or_else(|| name.starts_with("chat"), |operation| operation == "chat");
        let has_failed =
            self.fields.get("status").and_then(|status| status.get("code")) == Some(&json!(2));
        if !is_chat || has_failed {
            return Ok(None);
        }
        let start = self.time(["start_time", "startTimeUnixNano"])?;
        let end = self.time(["end_time", "endTimeUnixNano"])?;
        let duration = end.checked_sub(start);
        let trace = self.fields.get("traceId").and_then(Value::as_str).or(trace);
        let session = self.text(&["gen_ai.conversation.id"]).or(trace).map_or(setting.place, key);
        let agent = self.text(&["gen_ai.agent.id"]);
        let messages = self.attributes.get("gen_ai.input.messages").and_then(messages);
        let ttft = self.attributes.get("gen_ai.response.time_to_first_chunk");
        Ok(Some(Call {
            session: Some(session),
            agent: agent.map(|agent| Agent {
                key: session ^ key(agent),
                parent: Some(session),
                joins: true,
            }),
            start: Some(start),
            duration: Some(
                duration.ok_or(FlawKind::NegativeTime.with("a span ends before it starts"))?,
            ),
            ttft: ttft.and_then(Value::as_f64).map(Nanos::from_secs_f64),
            input: self.tokens("input"),
            output: self.tokens("output"),
            prompt: messages.map_or(Content::Fresh, |list| Content::Messages { list, adds: false }),
            answer: self.answer(),
            extra_body: self.tools(),
            class: self.text(&["gen_ai.agent.name", "gen_ai.request.model"]).map(str::to_owned),
            ..Call::default()
        }))
    }
}

impl Span<'_> {
    /// The recorded answer as a message of the assistant.
    fn answer(&self) -> Option<String> {
        let texts = ["gen_ai.output.text", "gen_ai.completion", "gen_ai.output"];
        if let Some(text) = self.text(&texts) {
            return Some(json!({ "role": "assistant", "content": text }).to_string());
        }
        let Value::Array(mut list) = listed(self.attributes.get("gen_ai.output.messages")?)? else {
            return None;
        };
        let mut message = plain(list.pop()?)?.pop()?;
        message.as_object_mut()?.retain(|name, _| name != "finish_reason");
        Some(message.to_string())
    }

    /// The tools that the model could call, as a field of the request.
    fn tools(&self) -> Option<String> {
        let Value::Array(list) = listed(self.attributes.get("gen_ai.tool.definitions")?)? else {
            return None;
        };
        let wrapped = |mut tool: Value| {
            if tool.get("function").is_none() {
                tool.as_object_mut().map(|fields| fields.remove("type"));
                tool = json!({ "type": "function", "function": tool });
            }
            tool
        };
        let tools: Vec<Value> = list.into_iter().map(wrapped).collect();
        (!tools.is_empty()).then(|| json!({ "tools": tools }).to_string())
    }
}

/// A value that may be written as text.
fn listed(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => serde_json::from_str(text).ok(),
        other => Some(other.clone()),
    }
}

/// `{"key": …, "value": {"stringValue": …}}` as a field of an object.
fn otlp_attribute(entry: &Value) -> Option<(String, Value)> {
    let name = entry.get("key")?.as_str()?;
    let value = entry.get("value")?.as_object()?.values().next()?;
    Some((name.to_owned(), value.clone()))
}

/// Messages as servers take them.
fn messages(value: &Value) -> Option<String> {
    let Value::Array(list) = listed(value)? else { return None };
    let list: Vec<Value> = list.into_iter().filter_map(plain).flatten().collect();
    (!list.is_empty()).then(|| Value::Array(list).to_string())
}

/// A message with parts as one with content and tool calls; each result of a tool is one of its own.
fn plain(mut message: Value) -> Option<Vec<Value>> {
    let fields = message.as_object_mut()?;
    let Some(Value::Array(parts)) = fields.remove("parts") else { return Some(vec![message]) };
    let text = |part: &Value, names: &[&str]| {
        let value = names.iter().find_map(|name| part.get(*name))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let (mut texts, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for part in &parts {
        let id = part.get("id").cloned().unwrap_or_default();
        match part.get("type").and_then(Value::as_str) {
            Some("tool_call") => {
                let name = part.get("name").cloned().unwrap_or_default();
                let arguments = text(part, &["arguments"]).unwrap_or_else(|| "{}".to_owned());
                let function = json!({ "name": name, "arguments": arguments });
                calls.push(json!({ "id": id, "type": "function", "function": function }));
            }
            Some("tool_call_response") => {
                let content = text(part, &["response", "result", "content"]).unwrap_or_default();
                results.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
            }
            _ => texts.extend(text(part, &["content"])),
        }
    }
    if texts.is_empty() && calls.is_empty() && !results.is_empty() {
        return Some(results);
    }
    fields.insert("content".to_owned(), Value::String(texts.join("\n")));
    if !calls.is_empty() {
        fields.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Some(std::iter::once(message).chain(results).collect())
}
