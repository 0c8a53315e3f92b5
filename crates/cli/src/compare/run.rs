//! One run as a comparison sees it: its figures, their values in blocks of time, and what it was.

use std::collections::BTreeMap;

use tokometer_metrics::Verdict;

use super::figure::Figure;

/// A run, a result file or a printed report.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Run {
    /// What the user called it: a path, with the number of the report where a file has several.
    pub(crate) name: String,
    /// Its figures. Those it does not have are absent.
    pub(crate) values: BTreeMap<Figure, f64>,
    /// The same in blocks of time; empty where only the figures are known.
    pub(crate) blocks: BTreeMap<Figure, Vec<f64>>,
    /// What it was.
    pub(crate) facts: Facts,
}

/// What a run was. What is not known is absent, and is not compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Facts {
    /// Where requests went.
    pub(crate) target: Option<String>,
    /// Whose definitions its figures follow.
    pub(crate) definitions: String,
    /// How much of the plan is known.
    pub(crate) known: Known,
    /// The plan, one line per field: its path and its value.
    pub(crate) plan: BTreeMap<String, String>,
    /// Dataset as opened.
    pub(crate) dataset: Option<String>,
    /// Tokenizer as opened.
    pub(crate) tokenizer: Option<String>,
    /// Prompt tokens per successful request.
    pub(crate) prompt_tokens: Option<f64>,
    /// Answer tokens per successful request.
    pub(crate) output_tokens: Option<f64>,
    /// Program version that made the record.
    pub(crate) version: Option<String>,
    /// Requests answered.
    pub(crate) succeeded: u64,
    /// Requests not answered.
    pub(crate) failed: u64,
    /// What its own notes amount to.
    pub(crate) verdict: Option<Verdict>,
    /// Whether less was measured than planned.
    pub(crate) is_partial: bool,
    /// Whether the target was the embedded simulator, or a prediction.
    pub(crate) is_simulated: bool,
}

/// How much of a plan is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Known {
    /// Some of its lines: those that a report prints.
    #[default]
    Partly,
    /// All of them.
    Wholly,
}

/// The lines of a plan.
pub(crate) fn plan_lines(plan: &serde_json::Value) -> BTreeMap<String, String> {
    let mut lines = BTreeMap::new();
    collect(plan, "", &mut lines);
    lines
}

fn collect(value: &serde_json::Value, path: &str, lines: &mut BTreeMap<String, String>) {
    let below = |key: &str| {
        if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
    };
    match value {
        serde_json::Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| collect(value, &below(key), lines));
        }
        serde_json::Value::Array(items) if items.iter().any(serde_json::Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                collect(item, &below(&at.to_string()), lines);
            }
        }
        serde_json::Value::Null => {}
        serde_json::Value::String(text) => {
            let _earlier = lines.insert(path.to_owned(), text.clone());
        }
        serde_json::Value::Number(number) => {
            // Through a float, so that 20 and 20.0 are one rate.
            let shown =
                number.as_f64().map_or_else(|| number.to_string(), |value| value.to_string());
            let _earlier = lines.insert(path.to_owned(), shown);
        }
        other => {
            let _earlier = lines.insert(path.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_becomes_one_line_per_field() {
        let plan = json!({"name": "x", "load": {"rate": 2.5, "cap": null}, "targets": [{"a": true}], "list": [1, 2]});
        let lines = plan_lines(&plan);
        let shown: Vec<String> =
            lines.iter().map(|(path, value)| format!("{path} = {value}")).collect();
        assert_eq!(shown, ["list = [1,2]", "load.rate = 2.5", "name = x", "targets.0.a = true"]);
    }
}
