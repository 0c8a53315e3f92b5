//! The points of a sweep: a plan with one value of each list.

use crate::values::rates;
use crate::{Axis, AxisValues, PartialPlan, Plan, PlanField, SweepValue};

use tokometer_base::Refusal;
use tokometer_base::units::nearest_count;

#[derive(Debug, Clone)]
pub struct PlannedPoint {
    /// Printed before the point's block, when the point is the first of its section.
    pub heading: Option<String>,
    /// The values that make this point, by the last part of their field's name.
    pub coordinates: Vec<(String, String)>,
    pub plan: Plan,
}

impl PlannedPoint {
    /// `num_prompts=8,request_rate=inf`; empty for a single run.
    pub fn label(&self) -> String {
        let pair = |(name, value): &(String, String)| format!("{name}={value}");
        self.coordinates.iter().map(pair).collect::<Vec<_>>().join(",")
    }
}

/// No sweep has more points: lists multiply quickly.
const POINTS_MAX: usize = 10_000;

pub(crate) type Combination = Vec<(PlanField, SweepValue)>;

/// All combinations of the axes' values. The last axis varies fastest.
pub(crate) fn combinations(axes: &[Axis]) -> Result<Vec<Combination>, Refusal> {
    let mut combinations: Vec<Combination> = vec![Vec::new()];
    for axis in axes {
        let values = axis_values(axis)?;
        combinations = combinations
            .iter()
            .flat_map(|before| {
                let with = |value: &SweepValue| {
                    let last = (axis.field, value.clone());
                    before.iter().cloned().chain(std::iter::once(last)).collect::<Combination>()
                };
                values.iter().map(with).collect::<Vec<_>>()
            })
            .collect();
        if combinations.len() > POINTS_MAX {
            return Err(Refusal::usage(
                format!(
                    "cannot run {} points: every combination of the lists is one point",
                    combinations.len()
                ),
                format!("shorten the lists: a sweep has at most {POINTS_MAX} points"),
            ));
        }
    }
    Ok(combinations)
}

fn axis_values(axis: &Axis) -> Result<Vec<SweepValue>, Refusal> {
    let values = match &axis.values {
        AxisValues::List(values) => values.clone(),
        AxisValues::Text(text) => {
            let values = rates(text).map_err(|why| {
                Refusal::usage(format!("cannot sweep `{}` over `{text}`: {why}", axis.field), "")
            })?;
            values.into_iter().map(|rate| number(rate.0)).collect()
        }
    };
    if values.is_empty() {
        return Err(Refusal::usage(
            format!("cannot sweep `{}`: its list of values is empty", axis.field),
            "",
        ));
    }
    Ok(values)
}

/// A number without a fraction is a whole one: counts refuse `8.0`.
fn number(number: f64) -> SweepValue {
    let is_whole = (0.0..1e15).contains(&number) && number.fract() == 0.0;
    if is_whole { SweepValue::Whole(nearest_count(number)) } else { number.into() }
}

pub(crate) fn substituted(
    part: &PartialPlan,
    combination: &Combination,
) -> Result<PartialPlan, Refusal> {
    let mut part = part.clone();
    for (field, value) in combination {
        field.set(&mut part, value).map_err(|why| Refusal::usage(why, ""))?;
    }
    Ok(part)
}

/// The combination as a reader names it.
pub(crate) fn coordinates(combination: &Combination) -> Vec<(String, String)> {
    let name = |field: &PlanField| field.name().rsplit('.').next().unwrap_or_default().to_owned();
    combination.iter().map(|(field, value)| (name(field), field.shown(value).to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(field: PlanField, text: &str) -> Axis {
        Axis { field, values: AxisValues::Text(text.to_owned()) }
    }

    #[test]
    fn the_last_axis_varies_fastest() {
        let axes =
            [axis(PlanField::REQUEST_RATE, "1,inf"), axis(PlanField::NUM_PROMPTS, "1,2,...,4")];
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
