//! The points of a sweep: a plan with one value of each list in its place.

use serde_json::Value;
use tokometer_plan::{Axis, AxisValues, Plan, Rate, Term, Values};

use super::layer::Layer;
use crate::exit::Refusal;

/// One run of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// Printed before the point's block, when the point is the first of its section.
    pub(crate) heading: Option<String>,
    /// The values that make this point, by the last part of their field's name.
    pub(crate) coordinates: Vec<(String, String)>,
    /// The plan of this point alone.
    pub(crate) plan: Plan,
}

impl Point {
    /// `num_prompts=8,request_rate=inf`; empty for a single run.
    pub(crate) fn label(&self) -> String {
        let pair = |(name, value): &(String, String)| format!("{name}={value}");
        self.coordinates.iter().map(pair).collect::<Vec<_>>().join(",")
    }
}

/// No sweep has more points: lists multiply quickly.
const POINTS_MAX: usize = 10_000;

/// A combination of values: field and value, first axis first.
pub(crate) type Combination = Vec<(String, Value)>;

/// All combinations of the axes' values. The last axis varies fastest.
pub(crate) fn combinations(axes: &[Axis]) -> Result<Vec<Combination>, Refusal> {
    let mut combinations: Vec<Combination> = vec![Vec::new()];
    for axis in axes {
        let values = axis_values(axis)?;
        combinations = combinations
            .iter()
            .flat_map(|before| {
                let with = |value: &Value| {
                    let last = (axis.field.clone(), value.clone());
                    before.iter().cloned().chain(std::iter::once(last)).collect::<Combination>()
                };
                values.iter().map(with).collect::<Vec<_>>()
            })
            .collect();
        if combinations.len() > POINTS_MAX {
            return Err(Refusal::usage(
                format!("cannot run {} points: lists multiply", combinations.len()),
                format!("at most {POINTS_MAX} points make a sweep"),
            ));
        }
    }
    Ok(combinations)
}

fn axis_values(axis: &Axis) -> Result<Vec<Value>, Refusal> {
    let values = match &axis.values {
        AxisValues::List(values) => values.clone(),
        AxisValues::Text(text) => {
            let values: Values<Rate> = text.parse().map_err(|why| {
                Refusal::usage(format!("cannot sweep `{}` over `{text}`: {why}", axis.field), "")
            })?;
            values.0.into_iter().map(number).collect()
        }
    };
    if values.is_empty() {
        return Err(Refusal::usage(format!("cannot sweep `{}` over no value", axis.field), ""));
    }
    Ok(values)
}

/// A number without a fraction is a whole one: counts refuse `8.0`.
fn number(rate: Rate) -> Value {
    u64::from_number(rate.0).map_or_else(|| rate.value(), Value::from)
}

/// Puts a combination in its place. A field that the plan does not know shows when it is read.
pub(crate) fn substituted(layer: &Layer, combination: &Combination) -> Layer {
    let mut layer = layer.clone();
    for (field, value) in combination {
        layer.put(field, value);
    }
    layer
}

/// The combination as a reader names it.
pub(crate) fn coordinates(combination: &Combination) -> Vec<(String, String)> {
    let name = |field: &str| field.rsplit('.').next().unwrap_or(field).to_owned();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    combination.iter().map(|(field, value)| (name(field), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(field: &str, text: &str) -> Axis {
        Axis { field: field.to_owned(), values: AxisValues::Text(text.to_owned()) }
    }

    #[test]
    fn the_last_axis_varies_fastest() {
        let axes = [axis("load.request_rate", "1,inf"), axis("load.num_prompts", "1,2,...,4")];
        let shown: Vec<String> = combinations(&axes)
            .unwrap()
            .iter()
            .map(|combination| {
                let pairs = coordinates(combination);
                pairs.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/")
            })
            .collect();
        assert_eq!(shown, ["1/1", "1/2", "1/4", "inf/1", "inf/2", "inf/4"]);
        assert_eq!(combinations(&[]).unwrap(), [Vec::new()]);
    }
}
