//! JSON objects that are sent as they are: layers are merged key by key, at every depth.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use tokometer_base::Partial;
use tokometer_base::partial::{FieldVisitor, Incomplete, visit_keys};
use tokometer_client::secret::{hidden_object, merge_objects};

/// Those keys of an object that are set; `None`: there is no object.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct PartialObject(pub Option<Map<String, Value>>);

/// Without the values of secrets.
impl Serialize for PartialObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hidden(&self.0, serializer)
    }
}

impl fmt::Debug for PartialObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").field(&self.0.as_ref().map(hidden_object)).finish()
    }
}

/// Writes an object without the values of secrets.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn hidden<S: Serializer>(
    object: &Option<Map<String, Value>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    object.as_ref().map(hidden_object).serialize(serializer)
}

impl Partial for PartialObject {
    type Whole = Option<Map<String, Value>>;

    fn merge(&mut self, over: Self) {
        match (&mut self.0, over.0) {
            (Some(under), Some(over)) => merge_objects(under, over),
            (under @ None, over) => *under = over,
            (Some(_), None) => {}
        }
    }

    fn is_unset(&self) -> bool {
        self.0.is_none()
    }

    fn complete(self) -> Result<Self::Whole, Incomplete> {
        Ok(self.0)
    }

    fn of(whole: Self::Whole) -> Self {
        Self(whole)
    }

    fn visit<V: FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V) {
        let keys = all.iter().filter_map(|object| object.0.as_ref()).flat_map(Map::keys);
        visit_keys(all, path, keys, |object, key| object.0.as_ref()?.get(key), visitor);
    }
}
