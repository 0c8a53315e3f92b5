//! Plan files: TOML, JSON, or the `plan.json` of a run.

use std::path::Path;

use serde_json::Value;

use super::layer::Layer;
use crate::exit::Refusal;

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
        return Err(Refusal::usage(format!("cannot read the plan `{shown}`: it has no fields"), ""));
    };
    match fields.remove("plan") {
        Some(Value::Object(plan)) if fields.contains_key("schema") => Ok(Layer::new(plan)),
        Some(other) => {
            let _none = fields.insert("plan".to_owned(), other);
            Ok(Layer::new(fields))
        }
        None => Ok(Layer::new(fields)),
    }
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
