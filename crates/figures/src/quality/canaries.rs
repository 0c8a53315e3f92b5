//! Greedy prompts with known answers, sent beside the load and left out of its figures.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_record::{RunInfo, Timeline};

const FAULTS_MAX: usize = 10;

const SHOWN_CHARS: usize = 80;

#[derive(Debug, Clone)]
pub enum Expectation {
    /// This text, blanks around it apart.
    Text(String),
    /// A text in which this expression is found.
    Regex(Box<regex_automata::meta::Regex>),
}

/// The expectation as a plan holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// An expression that the answer must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

impl Canary {
    /// Why nothing can be expected: neither a text nor an expression, both, or one that is none.
    pub fn expectation(&self) -> Result<Expectation, String> {
        match (&self.expected, &self.pattern) {
            (Some(text), None) => Ok(Expectation::Text(text.trim().to_owned())),
            (None, Some(pattern)) => regex_automata::meta::Regex::new(pattern)
                .map(|regex| Expectation::Regex(Box::new(regex)))
                .map_err(|why| format!("its `regex` is not a regular expression: {why}")),
            (None, None) => Err("it has neither `expected` nor `regex`".to_owned()),
            (Some(_), Some(_)) => Err("it has both `expected` and `regex`".to_owned()),
        }
    }
}

impl Expectation {
    fn is_met_by(&self, answer: &str) -> bool {
        match self {
            Self::Text(text) => answer.trim() == text,
            Self::Regex(regex) => regex.is_match(answer),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Canaries {
    pub sent: u64,
    pub as_expected: u64,
    pub faults: Vec<CanaryFault>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CanaryFault {
    /// Its line in the file, from 1, not counting empty ones.
    pub canary: u64,
    /// The beginning of the answer, or why there is none.
    pub answer: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct CanaryCheck {
    expectations: Vec<Option<Expectation>>,
    found: Canaries,
}

impl CanaryCheck {
    pub(crate) fn of(info: &RunInfo) -> Self {
        let expectation = |row: &Value| {
            let canary = Canary::deserialize(row).ok()?;
            canary.expectation().ok()
        };
        let expectations = info.canary_rows().map(expectation).collect();
        Self { expectations, found: Canaries::default() }
    }

    /// Adds an answer. Its index counts the canaries that were sent; the file is used over and over.
    pub(crate) fn add(&mut self, timeline: &Timeline) {
        let rows = self.expectations.len() as u64;
        if rows == 0 {
            return;
        }
        let row = timeline.identity.index % rows;
        let expectation = usize::try_from(row).ok().and_then(|row| self.expectations[row].as_ref());
        let Some(expectation) = expectation else { return };
        self.found.sent += 1;
        let answer = timeline.text.as_deref().filter(|_| timeline.is_success());
        if answer.is_some_and(|answer| expectation.is_met_by(answer)) {
            self.found.as_expected += 1;
        } else if self.found.faults.len() < FAULTS_MAX {
            let answer = answer.map_or_else(|| failure(timeline), shown);
            self.found.faults.push(CanaryFault { canary: row + 1, answer });
        }
    }

    pub(crate) fn finish(&self) -> Option<Canaries> {
        (self.found.sent > 0).then(|| self.found.clone())
    }
}

fn shown(answer: &str) -> String {
    let line: String = answer.trim().chars().take(SHOWN_CHARS).collect();
    line.replace(char::is_control, " ")
}

fn failure(timeline: &Timeline) -> String {
    match &timeline.outcome {
        tokometer_record::Outcome::Failed(failure) => {
            format!("failed: {}", shown(&failure.message))
        }
        _ => "no answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokometer_base::Nanos;
    use tokometer_record::{AttemptId, Outcome, Phase, RequestedLengths};

    use super::*;

    fn answered(index: u64, text: &str) -> Timeline {
        let identity = AttemptId::new(index, Phase::Canary);
        let mut timeline = Timeline::new(identity, RequestedLengths::default(), Nanos(0));
        timeline.text = Some(text.to_owned());
        timeline.outcome = Outcome::Success;
        timeline
    }

    #[test]
    fn answers_are_compared_with_their_rows_over_and_over() {
        let mut info = crate::testing::info(crate::testing::load(None, 1));
        info.plan =
            json!({ "canary": { "rows": [{ "expected": "Paris" }, { "pattern": "^4[.]?$" }] } });
        let mut check = CanaryCheck::of(&info);
        for (index, text) in (0..).zip([" Paris\n", "4.", "London", "5"]) {
            check.add(&answered(index, text));
        }
        let mut failed = answered(4, "Paris");
        failed.outcome = Outcome::Abandoned;
        check.add(&failed);
        let found = check.finish().unwrap();
        assert_eq!((found.sent, found.as_expected), (5, 2));
        let faults: Vec<(u64, &str)> =
            found.faults.iter().map(|fault| (fault.canary, fault.answer.as_str())).collect();
        assert_eq!(faults, [(1, "London"), (2, "5"), (1, "no answer")]);
        // More than the expected words is another answer, and only the first faults are kept.
        for _ in 0..2 * FAULTS_MAX {
            check.add(&answered(0, "Paris, or London"));
        }
        let found = check.finish().unwrap();
        assert_eq!((found.as_expected, found.faults.len()), (2, FAULTS_MAX));
    }

    #[test]
    fn a_row_expects_exactly_one_thing() {
        let why = |expected: Option<&str>, pattern: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let canary = Canary { expected: own(expected), pattern: own(pattern) };
            canary.expectation().err().unwrap_or_default()
        };
        assert_eq!(why(Some("a"), None), "");
        assert_eq!(why(None, None), "it has neither `expected` nor `regex`");
        assert_eq!(why(Some("a"), Some("b")), "it has both `expected` and `regex`");
        assert!(why(None, Some("(")).contains("not a regular expression"));
    }
}
