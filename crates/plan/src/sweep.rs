//! Fields that take several values, and parts of a plan with values of their own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A field of the plan that takes several values, one point of the sweep each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Path of the field in the plan, such as `load.num_prompts`.
    pub field: String,
    /// Its values in order: a list, or a text such as `1,2,...,64`.
    pub values: AxisValues,
}

/// Values as a plan file may write them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValues {
    /// One by one.
    List(Vec<Value>),
    /// As on the command line.
    Text(String),
}

/// A part of a plan: values that replace the plan's own, under a heading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Printed before its blocks, as it is.
    pub heading: String,
    /// Fields that take several values in this part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<Axis>,
    /// Fields of the plan that have other values in this part.
    #[serde(flatten)]
    pub changes: serde_json::Map<String, Value>,
}
