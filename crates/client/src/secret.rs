//! Values that may be sent to the server and must not appear anywhere else.
//!
//! [`ApiKey`], [`Headers`] and [`ExtraBody`] print and serialise without values that may be secrets,
//! so that no plan, log or message contains one by accident. [`HIDDEN`] stands instead, so
//! that a stored plan shows what has to be given again.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use tokometer_base::Partial;
use tokometer_base::partial::{FieldVisitor, Incomplete, visit_keys};
use tokometer_base::redact::{HIDDEN, Secrets, is_public_header, is_secret_name, redact};

/// The key sent in `Authorization`. Never printed, never serialised.
#[derive(Clone, PartialEq, Eq)]
pub enum ApiKey {
    Bearer(String),
    /// Sent the same way, from the variable of Anthropic's clients.
    Anthropic(String),
    /// Sent unchanged, as SGLang's client does with the variable `API_KEY`.
    Raw(String),
}

impl ApiKey {
    pub(crate) fn header_value(&self) -> String {
        match self {
            Self::Bearer(key) | Self::Anthropic(key) => format!("Bearer {key}"),
            Self::Raw(key) => key.clone(),
        }
    }

    pub fn variable(&self) -> &'static str {
        match self {
            Self::Bearer(_) => "OPENAI_API_KEY",
            Self::Anthropic(_) => "ANTHROPIC_API_KEY",
            Self::Raw(_) => "API_KEY",
        }
    }

    pub fn add_to(&self, secrets: &mut Secrets) {
        secrets.add(self.expose());
    }

    pub(crate) fn expose(&self) -> &str {
        match self {
            Self::Bearer(key) | Self::Anthropic(key) | Self::Raw(key) => key,
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([redacted])")
    }
}

#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// Adds the values of all headers that are not known to be public.
    pub fn add_to(&self, secrets: &mut Secrets) {
        for (name, value) in &self.0 {
            secrets.add_header(name, value);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops headers whose values were left out when they were written.
    pub fn drop_hidden(&mut self) {
        self.0.retain(|(_, value)| value != HIDDEN);
    }

    fn shown(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| {
            let is_public = is_public_header(name);
            (name.as_str(), if is_public { redact(value) } else { HIDDEN.to_owned() })
        })
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// Only values of public headers are written. Repeating the plan requires giving the others again.
impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.shown())
    }
}

/// A JSON object that is merged into every request body.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct ExtraBody(pub Map<String, Value>);

impl ExtraBody {
    /// Drops fields whose values were left out when they were written.
    pub fn drop_hidden(&mut self) {
        self.0.retain(|_, value| value != HIDDEN);
    }

    /// Adds the values of all fields whose names are those of secrets, at any depth.
    pub fn add_to(&self, secrets: &mut Secrets) {
        add_object(&self.0, secrets);
    }
}

impl fmt::Debug for ExtraBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&hidden_object(&self.0)).finish()
    }
}

/// Values that may be secrets are left out.
impl Serialize for ExtraBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hidden_object(&self.0).serialize(serializer)
    }
}

/// Whether a field holds a secret. A number is one only where nothing else can be meant: `max_token`
/// ends like a secret's name.
fn is_secret(name: &str, value: &Value) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_ambiguous = lower.ends_with("token") || lower.ends_with("tokens");
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(_) => is_secret_name(name) && !is_ambiguous,
        _ => is_secret_name(name),
    }
}

/// A JSON object without the values of secrets, at any depth.
pub fn hidden_object(object: &Map<String, Value>) -> Map<String, Value> {
    let hidden = |(name, value): (&String, &Value)| {
        let shown = if is_secret(name, value) { HIDDEN.into() } else { hidden_value(value) };
        (name.clone(), shown)
    };
    object.iter().map(hidden).collect()
}

/// A JSON value without the values of secrets, at any depth.
pub fn hidden_value(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(hidden_object(object)),
        Value::Array(values) => values.iter().map(hidden_value).collect(),
        Value::String(text) => redact(text).into(),
        _ => value.clone(),
    }
}

/// A JSON value whose texts, also the names of fields, are changed by `clean`.
pub fn cleaned_value(value: &Value, clean: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Object(object) => {
            let cleaned =
                |(name, value): (&String, &Value)| (clean(name), cleaned_value(value, clean));
            Value::Object(object.iter().map(cleaned).collect())
        }
        Value::Array(values) => values.iter().map(|value| cleaned_value(value, clean)).collect(),
        Value::String(text) => clean(text).into(),
        _ => value.clone(),
    }
}

/// Adds the values of all fields of an object whose names are those of secrets, at any depth.
pub fn add_object(object: &Map<String, Value>, secrets: &mut Secrets) {
    for (name, value) in object {
        if is_secret(name, value) {
            add_all(value, secrets);
        } else {
            add_value(value, secrets);
        }
    }
}

fn add_value(value: &Value, secrets: &mut Secrets) {
    match value {
        Value::Object(object) => add_object(object, secrets),
        Value::Array(values) => values.iter().for_each(|value| add_value(value, secrets)),
        Value::String(text) if text.contains("://") => secrets.add_url(text),
        _ => {}
    }
}

/// Everything below the name of a secret is one.
fn add_all(value: &Value, secrets: &mut Secrets) {
    match value {
        Value::Object(object) => object.values().for_each(|value| add_all(value, secrets)),
        Value::Array(values) => values.iter().for_each(|value| add_all(value, secrets)),
        // With its scheme, as in a header, and without.
        Value::String(text) => secrets.add_header("authorization", text),
        Value::Number(number) => secrets.add(&number.to_string()),
        Value::Null | Value::Bool(_) => {}
    }
}

impl Partial for ExtraBody {
    type Whole = Self;

    fn merge(&mut self, over: Self) {
        merge_objects(&mut self.0, over.0);
    }

    fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    fn complete(self) -> Result<Self, Incomplete> {
        Ok(self)
    }

    fn of(whole: Self) -> Self {
        whole
    }

    fn visit<V: FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V) {
        let shown: Vec<Map<String, Value>> =
            all.iter().map(|body| hidden_object(&body.0)).collect();
        let shown: Vec<&Map<String, Value>> = shown.iter().collect();
        let keys = shown.iter().flat_map(|body| body.keys());
        visit_keys(&shown, path, keys, |body, key| body.get(key), visitor);
    }
}

/// Overwrites fields of `under` with those of `over`. Nested objects are merged; other values are
/// replaced.
pub fn merge_objects(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => merge_objects(under, over),
            (_, value) => drop(under.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_or_written_holds_a_key() {
        let key = ApiKey::Bearer("verysecret".to_owned());
        let headers = Headers(vec![
            ("Authorization".to_owned(), "verysecret".to_owned()),
            ("x-tenant".to_owned(), "verysecret".to_owned()),
            ("accept".to_owned(), "Bearer verysecret".to_owned()),
            ("User-Agent".to_owned(), "blue".to_owned()),
        ]);
        let extra: Value = serde_json::json!({
            "min_tokens": 3,
            "apiKey": "verysecret",
            "u": "sk-verysecret123",
            "tools": [{"server": {"headers": {"X-Auth-Token": "verysecret", "n": 1}}}],
            "image": "http://me:verysecret@h/a.png?sig=verysecret",
        });
        let extra = ExtraBody(extra.as_object().unwrap().clone());
        let printed = format!("{key:?} {headers:?} {extra:?}");
        let written = serde_json::to_string(&(&headers, &extra)).unwrap();
        assert!(!printed.contains("verysecret"), "{printed}");
        assert!(!written.contains("verysecret"), "{written}");
        let mut secrets = Secrets::new();
        headers.add_to(&mut secrets);
        extra.add_to(&mut secrets);
        assert_eq!(secrets.redact_exact("is verysecret"), "is [redacted]");
        assert_eq!(
            written,
            r#"[[["Authorization","[redacted]"],["x-tenant","[redacted]"],["accept","Bearer [redacted]"],["User-Agent","blue"]],{"apiKey":"[redacted]","image":"http://[redacted]@h/a.png?sig=[redacted]","min_tokens":3,"tools":[{"server":{"headers":{"X-Auth-Token":"[redacted]","n":1}}}],"u":"[redacted]"}]"#
        );
    }
}
