//! What came back, as far as it can be judged without a model: whether structured answers fit, and
//! whether answers are degenerate. Speed of nonsense is not speed.
//!
//! Only answers whose text was recorded are judged. An answer that was cut at its length limit is not JSON
//! any more and counts as not valid.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_record::{RunInfo, Timeline};

mod schema;

pub use schema::{Schema, SchemaFault};

/// Words of an answer that are all the same from here on make it degenerate.
const REPEATED_WORDS: usize = 8;

/// Counts of successful answers by what they contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quality {
    /// Answers whose text was recorded.
    pub judged: u64,
    /// Of these, without any text but blanks.
    pub empty: u64,
    /// Of these, one word over and over.
    pub repeated: u64,
    /// Of these, JSON documents. `None` where none were asked for.
    pub json: Option<u64>,
    /// Of these, documents that fit the schema. `None` without a schema.
    pub valid: Option<u64>,
}

/// Judges the answers of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct QualityCheck {
    wants_json: bool,
    schema: Option<Schema>,
    found: Quality,
}

impl QualityCheck {
    /// What the run's plan asked for.
    pub(crate) fn of(info: &RunInfo) -> Self {
        let asked = info.plan.pointer("/request/structured");
        let text = asked.and_then(|asked| asked.get("json")).and_then(Value::as_str);
        let schema: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
        let schema = schema.and_then(|schema| Schema::parse(&schema).ok());
        let is_object = asked.and_then(Value::as_str) == Some("json_object");
        let wants_json = text.is_some() || is_object;
        let found = Quality {
            json: wants_json.then_some(0),
            valid: schema.as_ref().map(|_| 0),
            ..Quality::default()
        };
        Self { wants_json, schema, found }
    }

    /// Adds a successful answer.
    pub(crate) fn add(&mut self, timeline: &Timeline) {
        let Some(text) = timeline.text.as_deref() else { return };
        self.found.judged += 1;
        self.found.empty += u64::from(text.trim().is_empty());
        self.found.repeated += u64::from(is_repeated(text));
        if !self.wants_json {
            return;
        }
        let document: Option<Value> = serde_json::from_str(text.trim()).ok();
        let plus = |count: Option<u64>, is_so: bool| count.map(|count| count + u64::from(is_so));
        self.found.json = plus(self.found.json, document.is_some());
        let fits = document
            .zip(self.schema.as_ref())
            .is_some_and(|(document, schema)| schema.accepts(&document));
        self.found.valid = plus(self.found.valid, fits);
    }

    /// `None` when no text was recorded.
    pub(crate) fn finish(&self) -> Option<Quality> {
        (self.found.judged > 0).then_some(self.found)
    }
}

fn is_repeated(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else { return false };
    let mut count = 1;
    words.all(|word| {
        count += 1;
        word == first
    }) && count >= REPEATED_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_over_and_over_is_degenerate_and_a_short_answer_is_not() {
        assert!(is_repeated(&"the ".repeat(8)));
        assert!(!is_repeated("no no no"));
        assert!(!is_repeated(&format!("{} end", "the ".repeat(9))));
        assert!(!is_repeated(""));
    }
}
