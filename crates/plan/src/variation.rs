//! Which fields of several plans differ: the coordinates of a sweep, read back from its runs.

use serde_json::Value;

use crate::PlanField;

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
