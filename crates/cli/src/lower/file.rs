//! Plan files: TOML, JSON, or the `plan.json` of a run.

use std::path::Path;

use serde_json::Value;
use tokometer_plan::Plan;

use super::dataset;
use super::layer::Layer;
use crate::exit::Refusal;

/// TOML has no word for an absent value that hides a default, so plan files have this one.
const ABSENT: &str = "none";

/// Reads a plan file. A run's `plan.json` holds its plan under `plan`, beside facts of the run.
pub(crate) fn read(path: &Path) -> Result<Layer, Refusal> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|why| {
        Refusal::usage(
            format!("cannot read the plan `{shown}`: {why}"),
            "`--print-plan` shows a plan that can be saved",
        )
    })?;
    let value = parse(&text, path)
        .map_err(|why| Refusal::usage(format!("cannot read the plan `{shown}`: {why}"), ""))?;
    let Value::Object(mut fields) = value else {
        return Err(Refusal::usage(
            format!("cannot read the plan `{shown}`: it has no fields"),
            "",
        ));
    };
    let is_run = fields.contains_key("schema");
    let mut plan = match fields.remove("plan") {
        Some(Value::Object(plan)) if is_run => plan,
        Some(other) => {
            let _none = fields.insert("plan".to_owned(), other);
            fields
        }
        None => fields,
    };
    if let Some(Value::Object(workload)) = plan.get_mut("workload") {
        for value in workload.values_mut().filter(|value| *value == ABSENT) {
            *value = Value::Null;
        }
    }
    Ok(Layer::new(plan))
}

/// A plan as TOML that gives the same plan when it is read.
pub(crate) fn written(plan: &Plan) -> anyhow::Result<String> {
    let text = toml::to_string(plan)?;
    let defaults = dataset::defaults(plan.workload.name(), plan.family)?;
    let workload = serde_json::to_value(&plan.workload)?;
    let is_hidden = |(key, default): &(&String, &Value)| {
        !default.is_null() && workload.get(key).is_none_or(Value::is_null)
    };
    let hidden = defaults.as_object().into_iter().flatten().filter(is_hidden);
    let lines: Vec<String> = hidden.map(|(key, _)| format!("{key} = \"{ABSENT}\"\n")).collect();
    Ok(text.replacen("[workload]\n", &format!("[workload]\n{}", lines.concat()), 1))
}

fn parse(text: &str, path: &Path) -> Result<Value, String> {
    let is_json = path.extension().is_some_and(|extension| extension == "json")
        || text.trim_start().starts_with('{');
    if is_json {
        serde_json::from_str(text).map_err(|why| why.to_string())
    } else {
        toml::from_str(text).map_err(|why| why.to_string().trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_json_and_the_plan_of_a_run_are_read_alike() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let layer = read(&path).unwrap();
            assert_eq!(layer.at("load.num_prompts"), Some(&Value::from(5)), "{name}");
        };
        check("a.toml", "[load]\nnum_prompts = 5\n");
        check("b.json", r#"{"load": {"num_prompts": 5}}"#);
        check("plan.json", r#"{"schema": 1, "plan": {"load": {"num_prompts": 5}}}"#);
        let missing = read(&folder.path().join("none.toml")).unwrap_err().to_string();
        assert!(missing.contains("none.toml"), "{missing}");
        std::fs::write(folder.path().join("bad.toml"), "load = [").unwrap();
        assert!(read(&folder.path().join("bad.toml")).is_err());
    }
}
