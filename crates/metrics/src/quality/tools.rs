//! Whether answers call tools that exist, with arguments that fit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_record::RunInfo;

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
    /// Of these, with arguments that are not JSON.
    pub not_json: u64,
    /// Of these, that name a tool which was not declared.
    pub unknown_tool: u64,
    /// Of these, whose arguments do not fit the tool's schema.
    pub misfit: u64,
}

/// Judges the tool calls of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolCheck {
    /// `None` for a tool without a schema, or with one that cannot be checked.
    schemas: BTreeMap<String, Option<Schema>>,
    is_required: bool,
    found: ToolCallCounts,
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
    Misfit,
    UnknownTool,
    NotJson,
}

impl ToolCheck {
    /// `None` where the plan offers no tools.
    pub(super) fn of(info: &RunInfo) -> Option<Self> {
        let tools = info.plan.pointer("/request/tools")?;
        let definitions = tools.get("definitions")?.as_array()?;
        let schemas = definitions.iter().filter_map(|text| {
            let tool: Value = serde_json::from_str(text.as_str()?).ok()?;
            let function = tool.get("function")?;
            let schema = function.get("parameters").and_then(|schema| Schema::parse(schema).ok());
            Some((function.get("name")?.as_str()?.to_owned(), schema))
        });
        let choice = tools.get("choice").and_then(Value::as_str);
        Some(Self {
            schemas: schemas.collect(),
            is_required: choice.is_some_and(|choice| !matches!(choice, "auto" | "none")),
            found: ToolCallCounts::default(),
        })
    }

    /// Adds a successful answer with its calls as JSON text.
    pub(super) fn add(&mut self, calls: Option<&str>) {
        let calls: Vec<Call> =
            calls.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        if calls.is_empty() && !self.is_required {
            return;
        }
        self.found.judged += 1;
        let worst = calls.iter().map(|call| self.fault(call)).max();
        let count = match worst {
            None => &mut self.found.missing,
            Some(CallFault::None) => &mut self.found.valid,
            Some(CallFault::Misfit) => &mut self.found.misfit,
            Some(CallFault::UnknownTool) => &mut self.found.unknown_tool,
            Some(CallFault::NotJson) => &mut self.found.not_json,
        };
        *count += 1;
    }

    fn fault(&self, call: &Call) -> CallFault {
        // A call without arguments may have an empty text for them.
        let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let Ok(arguments) = serde_json::from_str::<Value>(text) else { return CallFault::NotJson };
        match self.schemas.get(&call.name) {
            None => CallFault::UnknownTool,
            Some(Some(schema)) if !schema.accepts(&arguments) => CallFault::Misfit,
            Some(_) if !arguments.is_object() => CallFault::Misfit,
            Some(_) => CallFault::None,
        }
    }

    pub(super) fn finish(&self) -> ToolCallCounts {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(choice: Option<&str>, calls: &[Option<&str>]) -> ToolCallCounts {
        let weather = json!({ "type": "function", "function": { "name": "weather", "parameters":
            { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } } });
        let tools = json!({ "definitions": [weather.to_string()], "choice": choice });
        let mut info = crate::testing::info(crate::testing::load(None, 1));
        info.plan = json!({ "request": { "tools": tools } });
        let mut check = ToolCheck::of(&info).unwrap();
        for one in calls {
            check.add(*one);
        }
        check.finish()
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
        let found = check(None, &answers);
        let expected = ToolCallCounts {
            judged: 5,
            valid: 2,
            missing: 0,
            not_json: 1,
            unknown_tool: 1,
            misfit: 1,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn an_answer_without_a_call_is_a_fault_only_where_one_was_required() {
        assert_eq!(check(Some("auto"), &[None]).judged, 0);
        let required = check(Some("required"), &[None]);
        assert_eq!((required.judged, required.missing), (1, 1));
        assert_eq!(check(Some("weather"), &[None]).missing, 1);
    }
}
