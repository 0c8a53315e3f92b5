//! A sweep as one JSON document.

use serde_json::{Map, Value, json};

use crate::exit::Refusal;
use crate::lower::PlannedPoint;

/// The points of a sweep so far: each is the document of a single run with its values under `point`.
#[derive(Debug, Default)]
pub(crate) struct SweepDocument(Vec<Value>);

impl SweepDocument {
    /// Adds a point: the JSON of its run, or why there is none.
    pub(crate) fn push(&mut self, point: &PlannedPoint, run: Result<String, &Refusal>) {
        let mut entry = Map::new();
        let values = point.coordinates.iter().map(|(name, value)| (name.clone(), number(value)));
        entry.insert("point".to_owned(), Value::Object(values.collect()));
        if let Some(heading) = &point.heading {
            entry.insert("heading".to_owned(), heading.as_str().into());
        }
        let run = run.map(|text| serde_json::from_str::<Map<String, Value>>(&text));
        match run {
            Ok(Ok(run)) => entry.extend(run),
            Ok(Err(_)) => entry.extend([error("the run has no summary")]),
            Err(refusal) => entry.extend([error(&refusal.message)]),
        }
        self.0.push(Value::Object(entry));
    }

    pub(crate) fn text(&self) -> String {
        format!("{:#}\n", json!({ "points": self.0 }))
    }
}

fn error(why: &str) -> (String, Value) {
    ("error".to_owned(), why.into())
}

/// A value as a number where it is one; `inf` is a word.
fn number(text: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(text).map_or_else(|_| text.into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::RefusalKind;
    use crate::lower;

    #[test]
    fn points_with_and_without_a_run_are_one_document() {
        let plan = lower::complete_part(tokometer_plan::PartialPlan::default()).unwrap();
        let point = |rate: &str| PlannedPoint {
            heading: None,
            coordinates: vec![("request_rate".to_owned(), rate.to_owned())],
            plan: plan.clone(),
        };
        let mut document = SweepDocument::default();
        document.push(&point("4"), Ok(r#"{"summary": {"a": 1}}"#.to_owned()));
        let refusal = Refusal::new(RefusalKind::Target, "cannot reach it");
        document.push(&point("inf"), Err(&refusal));
        let page: Value = serde_json::from_str(&document.text()).unwrap();
        let expected = json!({"points": [
            {"point": {"request_rate": 4}, "summary": {"a": 1}},
            {"point": {"request_rate": "inf"}, "error": "cannot reach it"},
        ]});
        assert_eq!(page, expected);
    }
}
