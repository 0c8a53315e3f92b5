//! Fields that take several values, and parts of a plan with values of their own.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize};
use tokometer_base::partial;

use crate::PartialPlan;
use crate::field::PlanField;

/// A field of the plan that takes several values, one point of the sweep each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    pub field: PlanField,
    /// Its values in order: a list, or a text such as `1,2,...,64`.
    pub values: AxisValues,
}

/// Without what may be a secret in swept addresses.
impl Serialize for Axis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = |value: &SweepValue| self.field.shown(value);
        let values = match &self.values {
            AxisValues::List(values) => AxisValues::List(values.iter().map(shown).collect()),
            AxisValues::Text(text) => AxisValues::Text(text.clone()),
        };
        let mut axis = serializer.serialize_struct("Axis", 2)?;
        axis.serialize_field("field", &self.field)?;
        axis.serialize_field("values", &values)?;
        axis.end()
    }
}

/// Values as a plan file may write them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValues {
    List(Vec<SweepValue>),
    Text(String),
}

/// A part of a plan: values that replace the plan's own, under a heading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSection {
    /// Printed before its blocks, as it is.
    pub heading: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<Axis>,
    /// Fields of the plan that have other values in this part.
    #[serde(flatten)]
    pub changes: PartialPlan,
}

/// By hand: a derived reader keeps the fields of the plan in a tree first, which loses their lines and
/// takes another copy of all code that reads a plan.
impl<'de> Deserialize<'de> for PlanSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SectionVisitor)
    }
}

struct SectionVisitor;

impl<'de> Visitor<'de> for SectionVisitor {
    type Value = PlanSection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of `heading`, `sweep` and fields of a plan")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PlanSection, A::Error> {
        let (mut heading, mut sweep) = (None, Vec::new());
        let mut changes = PartialPlan::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "heading" => heading = Some(map.next_value()?),
                "sweep" => sweep = map.next_value()?,
                _ if changes.read_field(&key, &mut map)? => {}
                _ => {
                    let why = partial::unknown_key(&key, PartialPlan::KEYS);
                    return Err(de::Error::custom(why));
                }
            }
        }
        let heading = heading.ok_or_else(|| de::Error::missing_field("heading"))?;
        Ok(PlanSection { heading, sweep, changes })
    }
}

/// One value of a swept field, before the field's own type is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, from = "Written")]
pub enum SweepValue {
    Whole(u64),
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl From<Written> for SweepValue {
    fn from(written: Written) -> Self {
        match written {
            Written::Whole(count) => Self::Whole(count),
            Written::Number(number) => number.into(),
            Written::Text(text) => Self::Text(text),
        }
    }
}

impl From<u64> for SweepValue {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

/// What is not finite becomes a word, because JSON has no number for it.
impl From<f64> for SweepValue {
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::Text(number.to_string()) }
    }
}

impl fmt::Display for SweepValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(count) => write!(f, "{count}"),
            // With `.0` where there is no fraction: the names of run folders hold it.
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
