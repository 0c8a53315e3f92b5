//! What came back, as far as it can be judged without a model: whether structured answers and tool calls
//! fit, whether canaries were answered as expected, and whether answers are degenerate. Speed of nonsense is not speed.
//!
//! Only answers whose text was recorded are judged. An answer that was cut at its length limit is not JSON
//! any more and counts as not valid.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_base::Script;
use tokometer_record::{AskedForm, RunInfo, Timeline};

mod canaries;
mod schema;
mod tools;

pub(crate) use canaries::CanaryCheck;
pub use canaries::{Canaries, Canary, CanaryFault, Expectation};
pub use schema::{Schema, SchemaFault};
pub use tools::ToolCallCounts;
use tools::ToolCheck;

/// An answer that is the same word, or the same few characters, so many times is degenerate.
const REPEATS: usize = 8;

/// Characters that count as one token at most.
const TOKEN_CHARS: usize = 16;

/// Counts of successful answers by what they contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quality {
    /// Answers whose text was recorded.
    pub judged: u64,
    /// Of these, without any text but blanks.
    pub empty: u64,
    /// Of these, one word or one token over and over.
    pub repeated: u64,
    /// Of these, in another writing system than the prompt's. Latin answers and answers to random prompts
    /// are not counted.
    #[serde(default)]
    pub wrong_script: u64,
    /// Of these, JSON documents. `None` where none were asked for.
    pub json: Option<u64>,
    /// Of these, documents that fit the schema. `None` without a schema.
    pub valid: Option<u64>,
    /// `None` where neither the plan nor a row of the dataset offers tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<ToolCallCounts>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct QualityCheck {
    wants_json: bool,
    schema: Option<Schema>,
    tools: ToolCheck,
    /// Whether prompts are random words, whose script says nothing about the answer's.
    is_random: bool,
    found: Quality,
}

impl QualityCheck {
    pub(crate) fn of(info: &RunInfo) -> Self {
        let form = info.asked_form();
        let schema = match form {
            AskedForm::JsonSchema(text) => serde_json::from_str(text).ok(),
            AskedForm::Text | AskedForm::JsonObject => None,
        };
        let schema = schema.and_then(|schema: Value| Schema::parse(&schema).ok());
        let wants_json = form != AskedForm::Text;
        let found = Quality {
            json: wants_json.then_some(0),
            valid: schema.as_ref().map(|_| 0),
            ..Quality::default()
        };
        let is_random =
            info.planned_dataset().is_none_or(|name| name.starts_with("random") || name == "image");
        Self { wants_json, schema, tools: ToolCheck::of(info), is_random, found }
    }

    pub(crate) fn add(&mut self, timeline: &Timeline) {
        self.tools.add(timeline);
        let Some(text) = timeline.text.as_deref() else { return };
        let has_calls = timeline.tool_calls.is_some();
        self.found.judged += 1;
        // An answer that is a tool call has no text.
        self.found.empty += u64::from(text.trim().is_empty() && !has_calls);
        self.found.repeated += u64::from(is_repeated(text));
        let script = timeline.requested.prompt_script.filter(|_| !self.is_random);
        self.found.wrong_script += u64::from(is_wrong_script(script, text));
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
        let tool_calls = self.tools.finish();
        let is_judged = self.found.judged > 0 || tool_calls.is_some_and(|found| found.judged > 0);
        is_judged.then_some(Quality { tool_calls, ..self.found })
    }
}

/// Whether an answer is in another script than its prompt. English and code answer prompts of any script.
fn is_wrong_script(prompt: Option<Script>, text: &str) -> bool {
    let Some((asked, found)) = prompt.zip(Script::dominant(text)) else { return false };
    asked != found && found != Script::Latin
}

fn is_repeated(text: &str) -> bool {
    is_one_word(text) || is_one_token(text)
}

fn is_one_word(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else { return false };
    let mut count = 1;
    words.all(|word| {
        count += 1;
        word == first
    }) && count >= REPEATS
}

/// A token need not be a word: a server whose logits are not numbers often answers `!!!!!!!!`. The last
/// repetition may be cut.
fn is_one_token(text: &str) -> bool {
    let letters: Vec<char> = text.trim().chars().collect();
    (1..=TOKEN_CHARS.min(letters.len() / REPEATS))
        .any(|length| letters.iter().zip(&letters[length..]).all(|(one, next)| one == next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_change_of_the_script_counts() {
        let han = "法国的首都是巴黎，位于塞纳河畔，是法国最大的城市和文化中心。";
        let latin = "The capital of France is the city of Paris.";
        assert!(is_wrong_script(Some(Script::Latin), han));
        assert!(!is_wrong_script(Some(Script::Han), latin), "English may answer anything");
        assert!(!is_wrong_script(Some(Script::Han), han));
        assert!(!is_wrong_script(None, han));
        assert!(!is_wrong_script(Some(Script::Latin), "巴黎"), "too short to tell");
    }

    #[test]
    fn one_word_over_and_over_is_degenerate_and_a_short_answer_is_not() {
        assert!(is_repeated(&"the ".repeat(8)));
        assert!(!is_repeated("no no no"));
        assert!(!is_repeated(&format!("{} end", "the ".repeat(9))));
        assert!(!is_repeated(""));
    }

    /// Blanks separated what counted as a token, so the most frequent kind of nonsense had none.
    #[test]
    fn a_token_that_is_no_word_is_degenerate_too() {
        for text in
            ["!!!!!!!!!!", "哈哈哈哈哈哈哈哈", "abcabcabcabcabcabcabcabcab", "\n0 0 0 0 0 0 0 0 0"]
        {
            assert!(is_repeated(text), "{text}");
        }
        for text in ["!!!", "hahaha", "Mississippi", "1001010010", "aaaaaaaaab"] {
            assert!(!is_repeated(text), "{text}");
        }
    }
}
