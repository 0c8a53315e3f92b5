//! Whether answers call tools that exist, with arguments that fit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_record::{RunInfo, Timeline};

use super::Schema;

/// Counts of successful answers of a run with tools. An answer counts once, by the worst of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolCallCounts {
    /// Answers that had to call a tool (`--tool-choice required` or a name), or called one.
    pub judged: u64,
    /// Of these, whose calls all parse, name a declared tool, and fit its schema.
    pub valid: u64,
    /// Of these, without a call although one was required.
    pub missing: u64,
    pub not_json: u64,
    /// Of these, that name a tool which was not declared.
    pub unknown_tool: u64,
    /// Of these, that name a declared tool which the tool choice does not allow: another one than the
    /// named, or any with `none`.
    #[serde(default)]
    pub not_allowed: u64,
    /// Of these, whose arguments do not fit the tool's schema.
    pub misfit: u64,
    /// Of these, that parse and name a declared tool, whose schema has a keyword that is not checked.
    #[serde(default)]
    pub unchecked: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ToolCheck {
    /// What all requests offer that have no tools of their own.
    planned: Option<Offer>,
    has_own: bool,
    found: ToolCallCounts,
}

#[derive(Debug, Clone, Default)]
struct Offer {
    tools: BTreeMap<String, Arguments>,
    is_required: bool,
    /// The tools that may be called, by the tool choice. `None`: any of them.
    allowed: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
enum Arguments {
    /// Nothing: any object will do.
    Any,
    Checked(Schema),
    /// The schema has a keyword that is not checked.
    Unchecked,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: String,
}

/// What is wrong with a call, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallFault {
    None,
    Unchecked,
    Misfit,
    NotAllowed,
    UnknownTool,
    NotJson,
}

impl Arguments {
    fn of(schema: Option<&Value>) -> Self {
        let Some(schema) = schema else { return Self::Any };
        Schema::parse(schema).map_or(Self::Unchecked, Self::Checked)
    }
}

impl Offer {
    /// The tools of the plan: from `--tools`, else from `--extra-body`.
    fn planned(info: &RunInfo) -> Option<Self> {
        let Some(tools) = info.planned_tools() else { return Self::sent(info.extra_body()?) };
        let definitions = tools.get("definitions")?.as_array()?;
        let definitions: Vec<Value> = definitions
            .iter()
            .filter_map(|text| serde_json::from_str(text.as_str()?).ok())
            .collect();
        let choice = tools.get("choice").and_then(Value::as_str);
        let (is_required, allowed) = match choice {
            None | Some("auto") => (false, None),
            Some("none") => (false, Some(Vec::new())),
            Some("required") => (true, None),
            Some(name) => (true, Some(vec![name.to_owned()])),
        };
        Some(Self { tools: definitions.iter().filter_map(tool).collect(), is_required, allowed })
    }

    /// The tools of a body, in the words of any API.
    fn sent(body: &Value) -> Option<Self> {
        let tools = body.get("tools")?.as_array()?;
        let choice = body.get("tool_choice").filter(|choice| !choice.is_null());
        let word =
            choice.and_then(|choice| choice.as_str().or_else(|| choice.get("type")?.as_str()));
        // OpenAI's choice among several tools says apart whether one of them must be called.
        let mode = choice.and_then(|choice| choice.get("mode")?.as_str());
        let mode = mode.filter(|_| word == Some("allowed_tools"));
        Some(Self {
            tools: tools.iter().filter_map(tool).collect(),
            is_required: choice.is_some() && !matches!(mode.or(word), Some("auto" | "none")),
            allowed: choice.and_then(|choice| allowed(choice, word)),
        })
    }

    fn allows(&self, name: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one == name))
    }

    fn fault(&self, call: &Call) -> CallFault {
        // A call without arguments may have an empty text for them.
        let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let Ok(arguments) = serde_json::from_str::<Value>(text) else { return CallFault::NotJson };
        match self.tools.get(&call.name) {
            None => CallFault::UnknownTool,
            Some(_) if !self.allows(&call.name) => CallFault::NotAllowed,
            Some(Arguments::Checked(schema)) if !schema.accepts(&arguments) => CallFault::Misfit,
            Some(_) if !arguments.is_object() => CallFault::Misfit,
            Some(Arguments::Unchecked) => CallFault::Unchecked,
            Some(Arguments::Any | Arguments::Checked(_)) => CallFault::None,
        }
    }
}

/// The tools that the choice of a body allows. Chat nests the name under `function`, Responses and Messages
/// do not. `None` for a choice that names none.
fn allowed(choice: &Value, word: Option<&str>) -> Option<Vec<String>> {
    let name = |tool: &Value| {
        let name = tool.get("function").unwrap_or(tool).get("name")?;
        name.as_str().map(str::to_owned)
    };
    if word == Some("none") {
        return Some(Vec::new());
    }
    let several = choice.get("tools").and_then(Value::as_array);
    match several {
        Some(tools) => Some(tools.iter().filter_map(name).collect()),
        None => name(choice).map(|name| vec![name]),
    }
}

/// A tool's name and arguments: chat nests them under `function`, Responses and Messages do not, and
/// Messages has another word for the schema.
fn tool(definition: &Value) -> Option<(String, Arguments)> {
    let function = definition.get("function").unwrap_or(definition);
    let name = function.get("name")?.as_str()?.to_owned();
    let schema = function.get("parameters").or_else(|| function.get("input_schema"));
    Some((name, Arguments::of(schema)))
}

impl ToolCheck {
    pub(super) fn of(info: &RunInfo) -> Self {
        Self { planned: Offer::planned(info), ..Self::default() }
    }

    /// Adds a successful answer. It is judged by the request's own tools where it has some.
    pub(super) fn add(&mut self, timeline: &Timeline) {
        let own = timeline.own_tools.as_deref();
        let own = own.and_then(|text| Offer::sent(&serde_json::from_str(text).ok()?));
        self.has_own |= own.is_some();
        let Some(offer) = own.as_ref().or(self.planned.as_ref()) else { return };
        let calls = timeline.tool_calls.as_deref();
        let calls: Vec<Call> =
            calls.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        if calls.is_empty() && !offer.is_required {
            return;
        }
        let worst = calls.iter().map(|call| offer.fault(call)).max();
        self.found.judged += 1;
        let count = match worst {
            None => &mut self.found.missing,
            Some(CallFault::None) => &mut self.found.valid,
            Some(CallFault::Unchecked) => &mut self.found.unchecked,
            Some(CallFault::Misfit) => &mut self.found.misfit,
            Some(CallFault::NotAllowed) => &mut self.found.not_allowed,
            Some(CallFault::UnknownTool) => &mut self.found.unknown_tool,
            Some(CallFault::NotJson) => &mut self.found.not_json,
        };
        *count += 1;
    }

    /// `None` where no tools were offered.
    pub(super) fn finish(&self) -> Option<ToolCallCounts> {
        (self.planned.is_some() || self.has_own).then_some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GOOD: &str = r#"[{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}]"#;

    fn weather() -> Value {
        json!({ "name": "weather", "parameters":
            { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } })
    }

    fn judged(request: &Value, answers: &[(Option<&str>, Option<&str>)]) -> Option<ToolCallCounts> {
        let mut info = crate::testing::info(crate::testing::load(None, 1));
        info.plan = json!({ "request": request });
        let mut check = ToolCheck::of(&info);
        for (calls, own_tools) in answers {
            let mut timeline = crate::testing::answer(0, 1_000, &[]);
            timeline.tool_calls = calls.map(str::to_owned);
            timeline.own_tools = own_tools.map(str::to_owned);
            check.add(&timeline);
        }
        check.finish()
    }

    fn check(choice: Option<&str>, calls: &[Option<&str>]) -> ToolCallCounts {
        let definition = json!({ "type": "function", "function": weather() }).to_string();
        let answers: Vec<_> = calls.iter().map(|calls| (*calls, None)).collect();
        let tools = json!({ "definitions": [definition], "choice": choice });
        judged(&json!({ "tools": tools }), &answers).unwrap()
    }

    #[test]
    fn each_answer_is_counted_once_by_its_worst_call() {
        let good = r#"{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}"#;
        let other = r#"{"name":"wether","arguments":"{}"}"#;
        let cut = r#"{"name":"weather","arguments":"{\"city\":\"Os"}"#;
        let misfit = r#"{"name":"weather","arguments":"{\"city\":3}"}"#;
        let list = |calls: &[&str]| format!("[{}]", calls.join(","));
        let answers = [
            list(&[good]),
            list(&[good, good]),
            list(&[good, misfit]),
            list(&[misfit, other]),
            list(&[other, cut]),
        ];
        let answers: Vec<Option<&str>> = answers.iter().map(|text| Some(text.as_str())).collect();
        let expected = ToolCallCounts {
            judged: 5,
            valid: 2,
            not_json: 1,
            unknown_tool: 1,
            misfit: 1,
            ..ToolCallCounts::default()
        };
        assert_eq!(check(None, &answers), expected);
    }

    #[test]
    fn an_answer_without_a_call_is_a_fault_only_where_one_was_required() {
        for free in [None, Some("auto"), Some("none")] {
            assert_eq!(check(free, &[None]).judged, 0, "{free:?}");
        }
        for word in [json!("none"), json!({ "type": "none" }), json!({ "type": "auto" })] {
            let own = json!({ "tools": [weather()], "tool_choice": word }).to_string();
            let found = judged(&json!({}), &[(None, Some(own.as_str()))]).unwrap();
            assert_eq!(found.judged, 0, "{own}");
        }
        let required = check(Some("required"), &[None]);
        assert_eq!((required.judged, required.missing), (1, 1));
        assert_eq!(check(Some("weather"), &[None]).missing, 1);
        assert_eq!(check(Some("none"), &[None]).judged, 0);
        // The same in a body, where a choice may be an object.
        let missing = |choice: Value| {
            let body = json!({ "tools": [weather()], "tool_choice": choice });
            judged(&json!({ "extra_body": body }), &[(None, None)]).unwrap().missing
        };
        for choice in [json!(null), json!("auto"), json!("none"), json!({ "type": "auto" })] {
            assert_eq!(missing(choice.clone()), 0, "{choice}");
        }
        for choice in [json!("required"), json!({ "type": "tool", "name": "weather" })] {
            assert_eq!(missing(choice.clone()), 1, "{choice}");
        }
    }

    /// A call of another declared tool than the named one counted as valid, and so did a call with `none`.
    #[test]
    fn a_call_of_a_tool_that_the_choice_does_not_allow_is_a_fault() {
        let time = json!({ "name": "time" });
        let other = r#"[{"name":"time","arguments":"{}"}]"#;
        let counts = |choice: Value, call: &str| {
            let own = json!({ "tools": [weather(), time], "tool_choice": choice }).to_string();
            let found = judged(&json!({}), &[(Some(call), Some(own.as_str()))]).unwrap();
            assert_eq!(found.judged, 1, "{own}");
            (found.valid, found.not_allowed)
        };
        for named in [
            json!({ "type": "function", "function": { "name": "weather" } }),
            json!({ "type": "function", "name": "weather" }),
            json!({ "type": "tool", "name": "weather" }),
            json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "name": "weather" }] }),
        ] {
            assert_eq!(counts(named.clone(), GOOD), (1, 0), "{named}");
            assert_eq!(counts(named.clone(), other), (0, 1), "{named}");
        }
        for free in [json!(null), json!("auto"), json!("required"), json!({ "type": "any" })] {
            assert_eq!(counts(free.clone(), other), (1, 0), "{free}");
        }
        assert_eq!(counts(json!("none"), GOOD), (0, 1));
        let definitions: Vec<String> = [weather(), time].iter().map(Value::to_string).collect();
        let planned = |choice: &str| {
            let tools = json!({ "definitions": definitions, "choice": choice });
            judged(&json!({ "tools": tools }), &[(Some(other), None)]).unwrap().not_allowed
        };
        assert_eq!(["weather", "time", "required", "none"].map(planned), [1, 0, 0, 1]);
        // A choice among several that leaves the model free requires no call.
        let auto = json!({ "tools": [weather()], "tool_choice":
            { "type": "allowed_tools", "mode": "auto", "tools": [{ "name": "weather" }] } });
        let found = judged(&json!({}), &[(None, Some(auto.to_string().as_str()))]).unwrap();
        assert_eq!(found.judged, 0);
    }

    /// A row's own tools come before those of the plan, and a call may have no arguments at all.
    #[test]
    fn a_call_without_arguments_is_judged_by_the_tools_of_its_row() {
        let plan = json!({ "extra_body": { "tools": [weather()] } });
        let own = json!({ "tools": [{ "name": "time" }] }).to_string();
        let call = r#"[{"name":"time","arguments":""}]"#;
        let found = judged(&plan, &[(Some(call), Some(own.as_str())), (Some(call), None)]).unwrap();
        assert_eq!((found.judged, found.valid, found.unknown_tool), (2, 1, 1));
    }

    #[test]
    fn a_row_is_judged_by_its_own_tools_in_the_words_of_any_api() {
        let chat = json!({ "tools": [{ "type": "function", "function": weather() }] });
        let messages = json!({
            "tools": [{ "name": "weather", "input_schema": weather()["parameters"] }],
            "tool_choice": { "type": "any" },
        });
        let mut flat = weather();
        flat["type"] = "function".into();
        let other =
            json!({ "tools": [{ "type": "function", "name": "time" }], "tool_choice": "auto" });
        let [chat, messages, flat, other] =
            [chat, messages, json!({ "tools": [flat] }), other].map(|tools| tools.to_string());
        let answers = [
            (Some(GOOD), Some(chat.as_str())),
            (Some(GOOD), Some(flat.as_str())),
            (Some(GOOD), Some(messages.as_str())),
            (None, Some(messages.as_str())),
            (Some(GOOD), Some(other.as_str())),
            (None, Some(other.as_str())),
        ];
        let expected = ToolCallCounts {
            judged: 5,
            valid: 3,
            missing: 1,
            unknown_tool: 1,
            ..ToolCallCounts::default()
        };
        assert_eq!(judged(&json!({}), &answers), Some(expected));
        assert_eq!(judged(&json!({}), &[(None, None)]), None, "nothing was offered");
        let extra = json!({ "extra_body": serde_json::from_str::<Value>(&chat).unwrap() });
        assert_eq!(judged(&extra, &[(Some(GOOD), None)]).unwrap().valid, 1);
    }

    /// Servers write no arguments as an empty text, or as an object.
    #[test]
    fn a_tool_without_arguments_is_called_with_none() {
        let own = json!({ "tools": [{ "type": "function", "name": "now" }] }).to_string();
        for arguments in ["", " ", "{}"] {
            let call = json!([{ "name": "now", "arguments": arguments }]).to_string();
            let found = judged(&json!({}), &[(Some(call.as_str()), Some(own.as_str()))]).unwrap();
            assert_eq!((found.judged, found.valid), (1, 1), "{call}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_checked_makes_no_call_valid() {
        let mut tool = weather();
        tool["parameters"]["patternProperties"] = json!({});
        let own = json!({ "tools": [tool] }).to_string();
        let found = judged(&json!({}), &[(Some(GOOD), Some(own.as_str()))]).unwrap();
        assert_eq!((found.judged, found.valid, found.unchecked), (1, 0, 1));
    }
}
