//! A partial plan: only the fields that somebody set.
//!
//! Flags, plan files, sections and defaults are layers of one shape; a later layer lies over an
//! earlier one field by field. Fields are named by their path in the plan (`load.num_prompts`,
//! `targets.0.backend`). Types are checked when the finished stack becomes a `Plan`.

use serde::Serialize;
use serde_json::{Map, Value};

/// A partial plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Layer(Map<String, Value>);

impl Layer {
    /// The layer with these fields.
    pub(crate) fn new(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    /// Sets a field. An absent value leaves the field as it is.
    pub(crate) fn put(&mut self, path: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        if !value.is_null() {
            let mut root = Value::Object(std::mem::take(&mut self.0));
            *place(&mut root, path) = value;
            self.0 = object(root);
        }
    }

    /// Sets a field when a switch was given.
    pub(crate) fn put_if(&mut self, is_given: Given, path: &str, value: impl Serialize) {
        if is_given == Given::Yes {
            self.put(path, value);
        }
    }

    /// Sets a field to nothing, whatever lies below.
    pub(crate) fn clear(&mut self, path: &str) {
        let mut root = Value::Object(std::mem::take(&mut self.0));
        *place(&mut root, path) = Value::Null;
        self.0 = object(root);
    }

    /// The value of a field.
    pub(crate) fn at(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('.');
        let first = self.0.get(keys.next()?)?;
        keys.try_fold(first, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => value.get(key),
        })
    }

    /// The text of a field.
    pub(crate) fn text_at(&self, path: &str) -> Option<&str> {
        self.at(path).and_then(Value::as_str)
    }

    /// Takes a top-level field out.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    /// Lays `over` on top of this layer.
    pub(crate) fn cover(&mut self, over: &Self) {
        let mut root = Value::Object(std::mem::take(&mut self.0));
        cover(&mut root, &Value::Object(over.0.clone()));
        self.0 = object(root);
    }

    /// The fields.
    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

/// Whether a switch was given on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// It was.
    Yes,
    /// It was not: whatever lies below counts.
    No,
}

impl From<bool> for Given {
    fn from(is_given: bool) -> Self {
        if is_given { Self::Yes } else { Self::No }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The place of a path, made where it is missing. A number is a place in a list.
fn place<'a>(root: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(root, |value, key| {
        if let Ok(index) = key.parse::<usize>() { item(value, index) } else { field(value, key) }
    })
}

fn item(value: &mut Value, index: usize) -> &mut Value {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    let items = value.as_array_mut().expect("made an array just above");
    while items.len() <= index {
        items.push(Value::Object(Map::new()));
    }
    &mut items[index]
}

fn field<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let fields = value.as_object_mut().expect("made an object just above");
    fields.entry(key).or_insert(Value::Null)
}

/// Objects are merged, lists of objects position by position, everything else is replaced.
fn cover(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                cover(under.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(under), Value::Array(over)) if over.iter().any(Value::is_object) => {
            for (at, value) in over.iter().enumerate() {
                match under.get_mut(at) {
                    Some(below) => cover(below, value),
                    None => under.push(value.clone()),
                }
            }
        }
        (under, over) => *under = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn layer(value: Value) -> Layer {
        Layer::new(object(value))
    }

    #[test]
    fn paths_make_what_is_missing_and_absent_values_change_nothing() {
        let mut made = Layer::default();
        made.put("load.num_prompts", 5);
        made.put("targets.0.backend", "vllm");
        made.put("load.max_concurrency", None::<u32>);
        made.put_if(Given::No, "name", "x");
        let expected = json!({"load": {"num_prompts": 5}, "targets": [{"backend": "vllm"}]});
        assert_eq!(made, layer(expected));
        assert_eq!(made.text_at("targets.0.backend"), Some("vllm"));
        assert_eq!(made.at("targets.1.backend"), None);
    }

    #[test]
    fn a_layer_covers_field_by_field() {
        let mut under = layer(json!({
            "load": {"a": 1, "b": 2}, "targets": [{"x": 1, "y": 2}, {"x": 3}], "list": [1, 2, 3],
        }));
        under.cover(&layer(json!({"load": {"b": 5}, "targets": [{"y": 6}], "list": [9]})));
        let expected = json!({
            "load": {"a": 1, "b": 5}, "targets": [{"x": 1, "y": 6}, {"x": 3}], "list": [9],
        });
        assert_eq!(under, layer(expected));
    }
}
