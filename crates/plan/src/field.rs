//! The fields of a plan that a sweep can vary, by the names that plan files have for them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tokometer_base::neighbours::suggestion;
use tokometer_base::redact::hide_in_url;

use crate::PartialPlan;
use crate::options::{self, OptionRow};
use crate::sweep::SweepValue;

/// A field of the plan that a sweep can vary: the key of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanField(&'static str);

impl PlanField {
    pub const SEED: Self = Self("seed");
    pub const REQUEST_RATE: Self = Self("load.request_rate");
    pub const MAX_CONCURRENCY: Self = Self("load.max_concurrency");
    pub const NUM_PROMPTS: Self = Self("load.num_prompts");
    pub const DURATION_S: Self = Self("load.duration_s");
    pub const INPUT_LEN: Self = Self("workload.input_len");
    pub const OUTPUT_LEN: Self = Self("workload.output_len");

    /// Every field, in the order of the options.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for row in options::rows().filter(|row| row.is_swept()) {
            if !all.contains(&Self(row.key)) {
                all.push(Self(row.key));
            }
        }
        all
    }

    pub(crate) const fn of_row(row: &OptionRow) -> Self {
        Self(row.key)
    }

    /// Its path in the plan, such as `load.num_prompts`.
    pub const fn name(self) -> &'static str {
        self.0
    }

    pub fn is_set(self, plan: &PartialPlan) -> bool {
        options::is_set(plan, self.0)
    }

    /// A value of the field without what may be secret in it: addresses have parameters.
    pub fn shown(self, value: &SweepValue) -> SweepValue {
        match value {
            SweepValue::Text(text)
                if matches!(self.0, "targets.0.address" | "targets.0.endpoint") =>
            {
                SweepValue::Text(hide_in_url(text))
            }
            _ => value.clone(),
        }
    }

    /// Sets the field; the error says why it does not take the value.
    pub fn set(self, plan: &mut PartialPlan, value: &SweepValue) -> Result<(), String> {
        let refused = |why| format!("cannot set `{self}` to `{}`: {why}", self.shown(value));
        let value = serde_json::to_value(value).map_err(|why| refused(why.to_string()))?;
        options::set_key(plan, self.0, value).map_err(refused)
    }
}

impl fmt::Display for PlanField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PlanField {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = Self::all();
        let found = all.iter().find(|field| field.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|field| field.name()).collect();
            let near = suggestion(name, &names);
            format!("cannot sweep `{name}`: there is no such field; {near}")
        })
    }
}

impl Serialize for PlanField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PlanField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Fields that differ between the points of a search or a staircase without being what is varied.
const INCIDENTAL: [PlanField; 2] = [PlanField::SEED, PlanField::DURATION_S];

/// The fields whose values are not the same in all `plans` as records hold them, in the order of the plan.
/// Seed and duration count only where nothing else differs.
pub fn varied_fields(plans: &[&Value]) -> Vec<PlanField> {
    let is_varied = |field: &PlanField| {
        let mut values = plans.iter().map(|plan| field.stored(plan));
        let first = values.next().flatten();
        values.any(|value| value != first)
    };
    let all: Vec<PlanField> = PlanField::all().into_iter().filter(is_varied).collect();
    let main: Vec<PlanField> =
        all.iter().copied().filter(|field| !INCIDENTAL.contains(field)).collect();
    if main.is_empty() { all } else { main }
}

impl PlanField {
    /// Its value in a plan as a record holds it; `None` where it is not set.
    fn stored(self, plan: &Value) -> Option<&Value> {
        let at = format!("/{}", self.name().replace('.', "/"));
        plan.pointer(&at).filter(|value| !value.is_null())
    }

    /// The same as text; `None` where it is not set.
    pub fn stored_text(self, plan: &Value) -> Option<String> {
        self.stored(plan).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_read_by_name_and_an_unknown_one_names_its_neighbours() {
        for field in PlanField::all() {
            assert_eq!(field.name().parse(), Ok(field));
        }
        let why = "load.num_promts".parse::<PlanField>().unwrap_err();
        assert!(why.contains("similar: load.num_prompts"), "{why}");
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let check = |field: PlanField, value: SweepValue, part: &str| {
            let why = field.set(&mut PartialPlan::default(), &value).unwrap_err();
            assert!(why.contains(field.name()) && why.contains(part), "{why}");
        };
        check(PlanField::NUM_PROMPTS, SweepValue::Number(8.5), "8.5");
        check(
            "client.socket_reads".parse().unwrap(),
            SweepValue::Text("eagre".to_owned()),
            "eager",
        );
        check(PlanField::MAX_CONCURRENCY, SweepValue::Whole(1 << 40), "u32");
        check(PlanField::REQUEST_RATE, SweepValue::Text("fast".to_owned()), "fast");
    }

    fn varied(plans: &[Value]) -> Vec<&'static str> {
        let plans: Vec<&Value> = plans.iter().collect();
        varied_fields(&plans).into_iter().map(PlanField::name).collect()
    }

    #[test]
    fn what_differs_is_a_coordinate_and_the_duration_only_by_itself() {
        let plan = |flights: Option<u32>, seconds: f64| {
            json!({
                "seed": 0,
                "load": { "max_concurrency": flights, "duration_s": seconds, "request_rate": "inf" },
            })
        };
        assert_eq!(varied(&[plan(Some(1), 3.0), plan(Some(2), 4.0)]), ["load.max_concurrency"]);
        assert_eq!(varied(&[plan(None, 3.0), plan(Some(2), 3.0)]), ["load.max_concurrency"]);
        assert_eq!(varied(&[plan(None, 3.0), plan(None, 4.0)]), ["load.duration_s"]);
        assert_eq!(varied(&[plan(None, 3.0), plan(None, 3.0)]), [] as [&str; 0]);
        assert_eq!(varied(&[plan(None, 3.0)]), [] as [&str; 0]);
        assert_eq!(varied(&[]), [] as [&str; 0]);
    }

    #[test]
    fn values_are_shown_as_they_were_typed() {
        let plan = json!({ "load": { "request_rate": "inf", "max_concurrency": 8 } });
        let shown = |field: PlanField| field.stored_text(&plan);
        assert_eq!(shown(PlanField::REQUEST_RATE).as_deref(), Some("inf"));
        assert_eq!(shown(PlanField::MAX_CONCURRENCY).as_deref(), Some("8"));
        assert_eq!(shown(PlanField::NUM_PROMPTS), None);
    }
}
