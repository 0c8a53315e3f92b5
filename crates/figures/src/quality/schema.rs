//! A checker for the part of JSON Schema that servers constrain by: types, properties, lists, numbers,
//! texts, choices and combinations.
//!
//! A keyword outside of this part is a fault when the schema is read: an answer is never called valid by
//! a rule that was not looked at.

use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    root: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaFault(String);

/// Keywords that are checked and have no schemas in them.
const CHECKED: [&str; 16] = [
    "required",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "$ref",
];
/// Say nothing about a document. By the standard, `format` is one of these unless a vocabulary says otherwise.
const SILENT: [&str; 11] = [
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$comment",
];
const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];

/// Depth of references and documents that is followed.
const DEPTH_MAX: usize = 64;

impl Schema {
    /// Reads a schema; a fault for one that is none, or has a keyword that is not checked.
    pub fn parse(schema: &Value) -> Result<Self, SchemaFault> {
        inspect(schema, "", UnknownKeywords::Refused)?;
        Ok(Self { root: schema.clone() })
    }

    /// Whether this is a schema at all, whatever keywords it has beside those that are checked.
    pub fn check(schema: &Value) -> Result<(), SchemaFault> {
        inspect(schema, "", UnknownKeywords::Accepted)
    }

    pub fn accepts(&self, document: &Value) -> bool {
        self.fits(&self.root, document, 0)
    }

    fn fits(&self, schema: &Value, document: &Value, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            return false;
        }
        let rules = match schema {
            Value::Bool(accepts) => return *accepts,
            Value::Object(rules) => rules,
            _ => return false,
        };
        let inner = |schema: &Value| self.fits(schema, document, depth + 1);
        let list = |name: &str| rules.get(name).and_then(Value::as_array);
        let reference = rules.get("$ref").and_then(Value::as_str);
        reference.is_none_or(|pointer| self.referenced(pointer).is_some_and(inner))
            && rules.get("type").is_none_or(|kinds| is_of_type(kinds, document))
            && list("enum")
                .is_none_or(|values| values.iter().any(|value| is_equal(value, document)))
            && rules.get("const").is_none_or(|value| is_equal(value, document))
            && list("anyOf").is_none_or(|schemas| schemas.iter().any(inner))
            && list("allOf").is_none_or(|schemas| schemas.iter().all(inner))
            && list("oneOf")
                .is_none_or(|schemas| schemas.iter().filter(|one| inner(one)).count() == 1)
            && within(rules, document)
            && self.members_fit(rules, document, depth)
    }

    fn members_fit(&self, rules: &Map<String, Value>, document: &Value, depth: usize) -> bool {
        let properties = rules.get("properties").and_then(Value::as_object);
        let others = rules.get("additionalProperties");
        match document {
            Value::Object(members) => {
                let required = rules.get("required").and_then(Value::as_array);
                let has =
                    |name: &Value| name.as_str().is_some_and(|name| members.contains_key(name));
                required.is_none_or(|names| names.iter().all(has))
                    && members.iter().all(|(name, value)| {
                        let own = properties.and_then(|properties| properties.get(name));
                        own.or(others).is_none_or(|schema| self.fits(schema, value, depth + 1))
                    })
            }
            Value::Array(items) => rules
                .get("items")
                .is_none_or(|schema| items.iter().all(|item| self.fits(schema, item, depth + 1))),
            _ => true,
        }
    }

    fn referenced(&self, pointer: &str) -> Option<&Value> {
        self.root.pointer(pointer.strip_prefix('#')?)
    }
}

/// What becomes of a keyword that is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownKeywords {
    Refused,
    Accepted,
}

/// Finds what is no schema, or cannot be checked.
fn inspect(schema: &Value, pointer: &str, unknown: UnknownKeywords) -> Result<(), SchemaFault> {
    let rules = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(rules) => rules,
        _ => return Err(SchemaFault(format!("`{pointer}` is not a schema"))),
    };
    for (key, value) in rules {
        let at = format!("{pointer}/{key}");
        match key.as_str() {
            "properties" | "$defs" | "definitions" => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    inspect(schema, &format!("{at}/{name}"), unknown)?;
                }
            }
            "items" | "additionalProperties" => inspect(value, &at, unknown)?,
            "anyOf" | "oneOf" | "allOf" => {
                for schema in value.as_array().into_iter().flatten() {
                    inspect(schema, &at, unknown)?;
                }
            }
            "type" => {
                let is_type =
                    |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
                let is_known =
                    value.as_array().map_or_else(|| is_type(value), |all| all.iter().all(is_type));
                if !is_known {
                    return Err(SchemaFault(format!("`{at}` names no type: {value}")));
                }
            }
            key if CHECKED.contains(&key) || SILENT.contains(&key) => {}
            _ if unknown == UnknownKeywords::Accepted => {}
            _ => return Err(SchemaFault(format!("the keyword `{at}` is not checked"))),
        }
    }
    Ok(())
}

fn is_of_type(kinds: &Value, document: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("object") => document.is_object(),
        Some("array") => document.is_array(),
        Some("string") => document.is_string(),
        Some("number") => document.is_number(),
        Some("integer") => document.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("boolean") => document.is_boolean(),
        Some("null") => document.is_null(),
        _ => false,
    };
    kinds.as_array().map_or_else(|| is(kinds), |all| all.iter().any(is))
}

fn within(rules: &Map<String, Value>, document: &Value) -> bool {
    let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
    let is_between = |value: f64, least: &str, most: &str| {
        limit(least).is_none_or(|least| value >= least)
            && limit(most).is_none_or(|most| value <= most)
    };
    match document {
        Value::Number(number) => number.as_f64().is_none_or(|value| {
            is_between(value, "minimum", "maximum")
                && limit("exclusiveMinimum").is_none_or(|least| value > least)
                && limit("exclusiveMaximum").is_none_or(|most| value < most)
                && limit("multipleOf").is_none_or(|step| is_multiple(value, step))
        }),
        Value::String(text) => is_between(text.chars().count() as f64, "minLength", "maxLength"),
        Value::Array(items) => {
            let is_set = rules.get("uniqueItems").and_then(Value::as_bool) == Some(true);
            let repeats = |(at, item): (usize, &Value)| {
                items[..at].iter().any(|before| is_equal(before, item))
            };
            is_between(items.len() as f64, "minItems", "maxItems")
                && !(is_set && items.iter().enumerate().any(repeats))
        }
        Value::Object(members) => {
            is_between(members.len() as f64, "minProperties", "maxProperties")
        }
        _ => true,
    }
}

/// Whether two documents are the same: numbers by their value, so 1 is 1.0.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has = |(name, value): (&String, &Value)| {
                b.get(name).is_some_and(|other| is_equal(value, other))
            };
            a.len() == b.len() && a.iter().all(has)
        }
        _ => a == b,
    }
}

/// Whether a number is a whole number of steps, as far as its digits tell: 0.3 is three times 0.1.
fn is_multiple(value: f64, step: f64) -> bool {
    let steps = value / step;
    step > 0.0 && (steps - steps.round()).abs() <= 1e-9 * steps.abs().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_are_accepted_by_the_rules_that_servers_constrain_by() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "minLength": 1 },
                "age": { "type": "integer", "minimum": 0 },
                "tags": { "type": "array", "items": { "enum": ["a", "b"] }, "maxItems": 2 },
                "next": { "anyOf": [{ "$ref": "#/$defs/leaf" }, { "type": "null" }] },
            },
            "required": ["name"],
            "additionalProperties": false,
            "$defs": { "leaf": { "const": 7 } },
        });
        let schema = Schema::parse(&schema).unwrap();
        let check = |document: Value, is_valid: bool| {
            assert_eq!(schema.accepts(&document), is_valid, "{document}");
        };
        check(json!({ "name": "x" }), true);
        check(json!({ "name": "x", "age": 3.0, "tags": ["a", "b"], "next": 7 }), true);
        check(json!({ "name": "x", "next": null }), true);
        check(json!({}), false);
        check(json!({ "name": "" }), false);
        check(json!({ "name": 3 }), false);
        check(json!({ "name": "x", "age": -1 }), false);
        check(json!({ "name": "x", "age": 1.5 }), false);
        check(json!({ "name": "x", "tags": ["c"] }), false);
        check(json!({ "name": "x", "tags": ["a", "a", "a"] }), false);
        check(json!({ "name": "x", "next": 8 }), false);
        check(json!({ "name": "x", "other": 1 }), false);
        check(json!(["name"]), false);
    }

    #[test]
    fn sizes_repetitions_and_multiples_are_checked() {
        let check = |schema: Value, document: Value, is_valid: bool| {
            let schema = Schema::parse(&schema).unwrap();
            assert_eq!(schema.accepts(&document), is_valid, "{document}");
        };
        let list = || json!({ "uniqueItems": true });
        check(list(), json!([1, 2, [1]]), true);
        check(list(), json!([1, 1.0]), false);
        check(json!({ "enum": [1, [2.0]] }), json!(1.0), true);
        check(json!({ "enum": [1, [2.0]] }), json!([2]), true);
        check(json!({ "enum": [1, [2.0]] }), json!(2), false);
        check(json!({ "const": { "a": 1 } }), json!({ "a": 1.0 }), true);
        check(list(), json!([1, 2, 1]), false);
        let object = || json!({ "minProperties": 1, "maxProperties": 2 });
        check(object(), json!({ "a": 1 }), true);
        check(object(), json!({}), false);
        check(object(), json!({ "a": 1, "b": 2, "c": 3 }), false);
        check(json!({ "multipleOf": 0.1 }), json!(0.3), true);
        check(json!({ "multipleOf": 5 }), json!(12), false);
        check(json!({ "type": "string", "format": "date" }), json!("soon"), true);
    }

    #[test]
    fn a_rule_that_is_not_looked_at_makes_a_schema_unusable() {
        let fault = |schema: Value| Schema::parse(&schema).unwrap_err().to_string();
        assert!(fault(json!({ "type": "string", "pattern": "a+" })).contains("`/pattern`"));
        assert!(
            fault(json!({ "properties": { "a": { "type": "text" } } })).contains("names no type")
        );
        assert!(fault(json!(3)).contains("is not a schema"));
        assert_eq!(Schema::check(&json!({ "pattern": "a+" })), Ok(()));
        assert!(Schema::check(&json!({ "pattern": "a+", "type": "text" })).is_err());
        let endless = Schema::parse(&json!({ "$ref": "#" })).unwrap();
        assert!(!endless.accepts(&json!(1)));
    }
}
