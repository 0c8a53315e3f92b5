//! A backend's wire protocol.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use tokometer_base::Backend;

/// Builds requests for one backend and reads its responses. Dereferences to [`Backend`], which holds
/// the backend's facts; a plan stores the backend's name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dialect(&'static Backend);

impl Dialect {
    pub fn named(name: &str) -> Option<Self> {
        Backend::named(name).map(Self)
    }

    pub(crate) fn row(self) -> &'static Backend {
        self.0
    }

    /// All backend names, the most used first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Backend::all().map(Backend::name)
    }
}

impl Deref for Dialect {
    type Target = Backend;

    fn deref(&self) -> &Backend {
        self.0
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dialect({})", self.name())
    }
}

impl Serialize for Dialect {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Dialect {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown backend `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::tests::{body_of, settings, text_prompt};
    use tokometer_base::PromptContent;

    /// The table's facts that show in request bodies, checked against those bodies.
    #[test]
    fn the_request_bodies_of_every_backend_match_its_row() {
        for name in Dialect::names() {
            let dialect = Dialect::named(name).unwrap();
            let mut prompt = text_prompt();
            // Its body is a form; see its own tests.
            if dialect.is_audio() {
                continue;
            }
            if let Some(route) = dialect.pooling() {
                prompt.content = crate::dialect::smallest_pooling_prompt(route);
            }
            let body = body_of(name, &settings(), &prompt);
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body.get("model").is_some(), dialect.sends_model(), "{name}");
            let keys =
                if dialect.is_pooling() { &["messages"][..] } else { &["messages", "input"] };
            let is_chat = keys.iter().any(|key| body.get(key).is_some());
            assert_eq!(is_chat, dialect.is_chat(), "{name}");
            prompt.content = PromptContent::TokenIds(vec![1, 2]);
            let ask = crate::RequestInput::new(&prompt, 0);
            let takes_ids = dialect.prepare(&settings(), &ask).is_ok();
            assert_eq!(takes_ids, dialect.takes_token_ids(), "{name}");
        }
    }

    #[test]
    fn a_dialect_is_written_and_read_as_its_name() {
        for name in Dialect::names() {
            let written = serde_json::to_string(&Dialect::named(name).unwrap()).unwrap();
            assert_eq!(written, format!("\"{name}\""));
            let read: Dialect = serde_json::from_str(&written).unwrap();
            assert_eq!(read.name(), name);
        }
        let refused = serde_json::from_str::<Dialect>("\"vlm\"").unwrap_err().to_string();
        assert!(refused.contains("unknown backend `vlm`"), "{refused}");
    }
}
