//! Fields that take several values, and parts of a plan with values of their own.

use std::fmt;

use serde::de::value::Error as Refused;
use serde::de::{self, DeserializeOwned, IntoDeserializer, MapAccess, Visitor};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, forward_to_deserialize_any};
use tokometer_base::partial;

use crate::PartialPlan;
use crate::field::PlanField;

/// A field of the plan that takes several values, one point of the sweep each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The field.
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
    /// One by one.
    List(Vec<SweepValue>),
    /// As on the command line.
    Text(String),
}

/// A part of a plan: values that replace the plan's own, under a heading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSection {
    /// Printed before its blocks, as it is.
    pub heading: String,
    /// Fields that take several values in this part.
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
    /// A whole number.
    Whole(u64),
    /// A finite number.
    Number(f64),
    /// A word, such as `inf`.
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

impl From<String> for SweepValue {
    fn from(text: String) -> Self {
        Self::Text(text)
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

impl SweepValue {
    /// The value in the type of a field.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(self).map_err(|why| why.to_string())
    }
}

/// Read like a value of a plan file, so that a swept field takes what a written one takes.
impl<'de> Deserializer<'de> for &SweepValue {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self {
            SweepValue::Whole(count) => visitor.visit_u64(*count),
            SweepValue::Number(number) => visitor.visit_f64(*number),
            SweepValue::Text(text) => visitor.visit_str(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.to_string().into_deserializer().deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
