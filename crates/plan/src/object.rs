//! JSON objects that are sent as they are: layers are merged key by key, at every depth.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokometer_base::Partial;
use tokometer_base::partial::{FieldVisitor, Incomplete, visit_keys};
use tokometer_client::secret::merge_objects;

/// Those keys of an object that are set; `None`: there is no object.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(pub Option<Map<String, Value>>);

impl Partial for Object {
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
        visit_keys(all, (path, keys), |object, key| object.0.as_ref()?.get(key), visitor);
    }
}
