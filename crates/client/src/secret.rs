//! Values that may be sent to the server and must not appear anywhere else.
//!
//! [`ApiKey`], [`Headers`] and [`ExtraBody`] print and serialise without values that look like keys,
//! so that no plan, log or message contains one by accident.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use tokometer_base::Partial;
use tokometer_base::partial::{FieldVisitor, Incomplete, visit_keys};
use tokometer_base::redact::redact;

const HIDDEN: &str = "[redacted]";

/// The key sent in `Authorization`. Never printed, never serialised.
#[derive(Clone, PartialEq, Eq)]
pub enum ApiKey {
    /// Sent as `Bearer KEY`.
    Bearer(String),
    /// Sent unchanged, as SGLang's client does with the variable `API_KEY`.
    Raw(String),
}

impl ApiKey {
    pub(crate) fn header_value(&self) -> String {
        match self {
            Self::Bearer(key) => format!("Bearer {key}"),
            Self::Raw(key) => key.clone(),
        }
    }

    pub(crate) fn expose(&self) -> &str {
        match self {
            Self::Bearer(key) | Self::Raw(key) => key,
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey([redacted])")
    }
}

/// Whether a header or body field of this name holds a key.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let endings =
        ["api_key", "apikey", "secret", "password", "access_token", "auth_token", "cookie"];
    name == "key" || name.contains("authorization") || endings.iter().any(|end| name.ends_with(end))
}

/// Header names and values from the user.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(name, _)| is_secret_name(name)).map(|(_, value)| value.as_str())
    }

    fn shown(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| {
            let hidden = is_secret_name(name);
            (name.as_str(), if hidden { HIDDEN.to_owned() } else { redact(value, &[]) })
        })
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// Secret headers are left out. Repeating the plan requires giving them again.
impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.shown().filter(|(_, value)| !value.contains(HIDDEN)))
    }
}

/// A JSON object that is merged into every request body.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct ExtraBody(pub Map<String, Value>);

impl ExtraBody {
    fn shown(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().filter(|(name, value)| {
            let text = value.to_string();
            !is_secret_name(name) && redact(&text, &[]) == text
        })
    }

    fn shown_value(&self, key: &str) -> Option<&Value> {
        self.shown().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(|(name, _)| is_secret_name(name))
            .filter_map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for ExtraBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// Fields that look like keys are left out.
impl Serialize for ExtraBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown())
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
        let keys = all.iter().flat_map(|body| body.shown().map(|(name, _)| name));
        visit_keys(all, (path, keys), Self::shown_value, visitor);
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
            ("X-Api-Key".to_owned(), "verysecret".to_owned()),
            ("x-note".to_owned(), "Bearer verysecret".to_owned()),
            ("x-tenant".to_owned(), "blue".to_owned()),
        ]);
        let extra: Value =
            serde_json::json!({"min_tokens": 3, "api_key": "verysecret", "u": "sk-verysecret123"});
        let extra = ExtraBody(extra.as_object().unwrap().clone());
        let printed = format!("{key:?} {headers:?} {extra:?}");
        let written = serde_json::to_string(&(&headers, &extra)).unwrap();
        assert!(!printed.contains("verysecret"), "{printed}");
        assert!(!written.contains("verysecret"), "{written}");
        assert_eq!(written, r#"[[["x-tenant","blue"]],{"min_tokens":3}]"#);
    }
}
