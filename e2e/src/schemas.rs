//! Whether JSON that the program writes fits the published schemas of `docs/schema`.
//!
//! Stricter than the standard in one point: a key that an object's schema does not name is a fault, so
//! that no key stays without a schema.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::program::root;

/// Files of run folders, with the names of their schemas.
const FILES: [(&str, &str); 4] = [
    ("summary.json", "summary"),
    ("plan.json", "run"),
    ("capacity.json", "capacity"),
    ("staircase.json", "staircase"),
];

/// Fails for a file below the folder that was written since then and does not fit its schema. A file
/// that is no JSON was left by a program that was killed, or by the test itself.
pub(crate) fn check_below(folder: &Path, since: SystemTime) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            check_below(&path, since);
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((_, schema)) = FILES.iter().find(|(file, _)| Some(*file) == name) else {
            continue;
        };
        let is_new = found.modified().is_ok_and(|at| at >= since);
        let text = if is_new { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        if let Ok(value) = serde_json::from_slice(&text) {
            assert_fits(schema, &value);
        }
    }
}

/// Fails for a value that does not fit the schema of this name.
pub fn assert_fits(schema: &str, value: &Value) {
    let root = read(schema);
    let mut faults = Vec::new();
    Checker { root: &root }.check(&root, value, "", &mut faults);
    assert!(faults.is_empty(), "docs/schema/{schema}.json: {faults:#?}");
}

fn read(schema: &str) -> Value {
    let path =
        root().join("docs/schema").join(format!("{}.json", schema.trim_end_matches(".json")));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
        if let Some(target) = schema["$ref"].as_str() {
            if let Some(pointer) = target.strip_prefix('#') {
                self.check(self.root.pointer(pointer).unwrap(), value, path, faults);
            } else {
                let root = read(target);
                Checker { root: &root }.check(&root, value, path, faults);
            }
        }
        if let Some(all) = schema["anyOf"].as_array() {
            let tried = all.iter().map(|one| {
                let mut own = Vec::new();
                self.check(one, value, path, &mut own);
                own
            });
            // The nearest alternative says most about what is wrong.
            let nearest = tried.min_by_key(Vec::len).unwrap_or_default();
            faults.extend(nearest);
        }
        if !is_of_type(&schema["type"], value) {
            faults.push(format!("{path}: {value} is not of type {}", schema["type"]));
        }
        if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
            faults.push(format!("{path}: {value} is none of {}", schema["enum"]));
        }
        if value.as_f64() < schema["minimum"].as_f64() && value.is_number() {
            faults.push(format!("{path}: {value} is too small"));
        }
        for (at, item) in value.as_array().into_iter().flatten().enumerate() {
            let own = schema["prefixItems"].get(at).unwrap_or(&schema["items"]);
            self.check(own, item, &format!("{path}[{at}]"), faults);
        }
        if let Some(fields) = value.as_object() {
            self.check_fields(schema, fields, path, faults);
        }
    }

    fn check_fields(
        &self,
        schema: &Value,
        fields: &serde_json::Map<String, Value>,
        path: &str,
        faults: &mut Vec<String>,
    ) {
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            faults.push(format!("{path}: `{name}` is missing"));
        }
        for (name, value) in fields {
            let path = format!("{path}.{name}");
            match (schema["properties"].get(name), schema.get("additionalProperties")) {
                (Some(own), _) => self.check(own, value, &path, faults),
                (None, Some(other)) => self.check(other, value, &path, faults),
                (None, None) if schema["properties"].is_object() => {
                    faults.push(format!("{path}: the schema does not have this key"));
                }
                (None, None) => {}
            }
        }
    }
}

fn is_of_type(wanted: &Value, value: &Value) -> bool {
    let is_one = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    match wanted {
        Value::String(name) => is_one(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is_one),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_found() {
        let schema = json!({
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "integer", "minimum": 0},
                "b": {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]},
                "c": {"type": "object", "additionalProperties": {"$ref": "#/$defs/d"}},
            },
            "$defs": {"d": {"type": "array", "items": {"type": "number"}}},
        });
        let faults = |value: Value| {
            let mut faults = Vec::new();
            Checker { root: &schema }.check(&schema, &value, "", &mut faults);
            faults
        };
        assert_eq!(faults(json!({"a": 1, "b": null, "c": {"k": [0.5]}})), Vec::<String>::new());
        assert_eq!(faults(json!({})), [": `a` is missing"]);
        assert_eq!(faults(json!({"a": -1})), [".a: -1 is too small"]);
        assert_eq!(faults(json!({"a": 1, "b": "y"})), [".b: \"y\" is none of [\"x\"]"]);
        assert_eq!(faults(json!({"a": 1, "e": 1})), [".e: the schema does not have this key"]);
        assert_eq!(
            faults(json!({"a": 1, "c": {"k": ["x"]}})),
            [".c.k[0]: \"x\" is not of type \"number\""]
        );
    }
}
