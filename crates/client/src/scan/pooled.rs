//! Answers without text: how many results there are, and what the server counted.
//!
//! An answer may hold millions of numbers. They are checked to be JSON and skipped; nothing of them is
//! kept. The results stand under `data` (OpenAI, vLLM), `results` (rerank), `embeddings` (Cohere) or
//! `scores` (SGLang), or the document itself is the list (Text Embeddings Inference, SGLang).

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;
use tokometer_record::Usage;

use super::NotJson;
use super::fields::whole_count;
use crate::quirk::says_error;

const RESULTS: [&str; 4] = ["data", "results", "embeddings", "scores"];

/// Keys under which a result has its value: a vector, a score, or the probabilities of classes.
const VALUES: [&str; 5] = ["embedding", "data", "score", "relevance_score", "probs"];

/// What an answer without text says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PooledAnswer {
    /// Number of results. `None` where there is no list of them.
    pub(crate) results: Option<u32>,
    /// Results among them that are null, empty, or no numbers.
    pub(crate) empty: u32,
    /// Results among them with the index of another one.
    pub(crate) repeated: u32,
    pub(crate) usage: Option<Usage>,
    pub(crate) is_error: bool,
}

type JsonFields<'a> = BTreeMap<String, &'a RawValue>;

/// Reads an answer; an error when `data` is not JSON.
pub(crate) fn scan_pooled(data: &[u8]) -> Result<PooledAnswer, NotJson> {
    let document: &RawValue = serde_json::from_slice(data).map_err(|_| NotJson)?;
    let mut answer = PooledAnswer::default();
    let Ok(fields) = serde_json::from_str::<JsonFields<'_>>(document.get()) else {
        let tokens = answer.take_results(document);
        answer.usage = usage(tokens);
        return Ok(answer);
    };
    let parsed = |key: &str| fields.get(key).map(|raw| value(raw)).unwrap_or_default();
    for list in RESULTS.iter().filter_map(|key| fields.get(*key)) {
        let _tokens = answer.take_results(list);
        // Cohere's lists are one level deeper, by the type of the vectors.
        let by_type: JsonFields<'_> = serde_json::from_str(list.get()).unwrap_or_default();
        for list in by_type.values() {
            let _tokens = answer.take_results(list);
        }
    }
    let counts = ["usage", "meta", "meta_info"].map(|key| prompt_tokens(&parsed(key)));
    answer.usage = usage(counts.into_iter().flatten().next());
    answer.is_error = says_error(&parsed("error")) || parsed("object") == "error";
    Ok(answer)
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn usage(prompt_tokens: Option<u32>) -> Option<Usage> {
    // Servers add `completion_tokens: 0`. Nothing was generated, which is not an answer of no tokens.
    prompt_tokens.map(|tokens| Usage { prompt_tokens: Some(tokens), ..Usage::default() })
}

/// The count of a prompt in the objects where servers have it.
fn prompt_tokens(object: &Value) -> Option<u32> {
    ["/prompt_tokens", "/total_tokens", "/billed_units/input_tokens", "/tokens/input_tokens"]
        .into_iter()
        .find_map(|pointer| object.pointer(pointer)?.as_f64())
        .and_then(whole_count)
}

impl PooledAnswer {
    /// Counts the results of a list. Returns the sum of the prompts that its entries count (SGLang's rerank).
    fn take_results(&mut self, list: &RawValue) -> Option<u32> {
        let entries: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
        let (mut empty, mut sum, mut indexes) = (0, None, Vec::new());
        for entry in &entries {
            let Ok(fields) = serde_json::from_str::<JsonFields<'_>>(entry.get()) else {
                empty += u32::from(!has_value(entry));
                continue;
            };
            indexes.extend(fields.get("index").and_then(|index| value(index).as_u64()));
            let tokens = fields.get("meta_info").and_then(|meta| prompt_tokens(&value(meta)));
            sum = tokens.map(|tokens| tokens.saturating_add(sum.unwrap_or(0))).or(sum);
            let mut values = VALUES.iter().filter_map(|key| fields.get(*key)).peekable();
            let has_key = values.peek().is_some();
            empty += u32::from(has_key && !values.any(|value| has_value(value)));
        }
        let all = indexes.len();
        indexes.sort_unstable();
        indexes.dedup();
        let repeated = u32::try_from(all - indexes.len()).unwrap_or(u32::MAX);
        let results = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        self.results = self.results.max(Some(results));
        self.empty = self.empty.max(empty);
        self.repeated = self.repeated.max(repeated);
        sum
    }
}

/// Whether a value is there: not null and not empty. A list is what its first element is, so that a vector of
/// nulls, as a server writes numbers that are none, has no value.
fn has_value(value: &RawValue) -> bool {
    let is_outside = |character: char| character == '[' || character.is_ascii_whitespace();
    let first = value.get().trim_start_matches(is_outside);
    !["null", "]", "\"\""].iter().any(|nothing| first.starts_with(nothing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_counts_are_found_in_the_answers_of_every_server() {
        let check = |body: &str, results: Option<u32>, tokens: Option<u32>| {
            let found = scan_pooled(body.as_bytes()).unwrap();
            let told = found.usage.and_then(|usage| usage.prompt_tokens);
            assert_eq!((found.results, told, found.is_error), (results, tokens, false), "{body}");
        };
        check(
            r#"{"data":[{"embedding":[1.0,-2e3]},{"embedding":"AAAA"}],"usage":{"prompt_tokens":7,"completion_tokens":0}}"#,
            Some(2),
            Some(7),
        );
        check(r#"{"usage":{"total_tokens":9},"results":[{"index":0}]}"#, Some(1), Some(9));
        check(
            r#"{"embeddings":{"float":[[1],[2]],"int8":[[1],[2]]},"meta":{"billed_units":{"input_tokens":4}}}"#,
            Some(2),
            Some(4),
        );
        // Cohere's own types call the billed tokens a float.
        check(
            r#"{"embeddings":[[1]],"error":"","meta":{"billed_units":{"input_tokens":4.0}}}"#,
            Some(1),
            Some(4),
        );
        check("[[0.5,1],[2,3],[4,5]]", Some(3), None);
        check(
            r#"[{"score":1.5,"index":0,"meta_info":{"prompt_tokens":3}},{"score":0,"meta_info":{"prompt_tokens":4}}]"#,
            Some(2),
            Some(7),
        );
        check(r#"{"scores":[[0.1,0.9]],"object":"scoring"}"#, Some(1), None);
        check(r#"{"data":[]}"#, Some(0), None);
        check(r#"{"choices":[]}"#, None, None);
        check("3", None, None);
        let empty = |body: &str| scan_pooled(body.as_bytes()).unwrap().empty;
        assert_eq!(
            empty(
                r#"{"data":[{"embedding":null},{"embedding":[]},{"embedding":[null,null]},{"embedding":""},{"embedding":[0.0]}]}"#
            ),
            4
        );
        assert_eq!(empty("[[],[null],[0.5]]"), 2);
        assert_eq!(
            empty(r#"{"results":[{"index":0,"relevance_score":null},{"relevance_score":0}]}"#),
            1
        );
        assert_eq!(empty(r#"{"embeddings":{"float":[[1],[]]}}"#), 1);
        assert_eq!(
            empty(r#"{"data":[{"label":"a","probs":[0.5]},{"data":[[1]]},{"score":0.0}]}"#),
            0
        );
        assert_eq!(empty(r#"{"scores":[null,null]}"#), 2);
        assert_eq!(empty(r#"{"data":[null,0.5]}"#), 1);
        assert_eq!(empty(r#"{"embeddings":["","AAAA"]}"#), 1);
        assert_eq!(empty(r#"{"data":[{"embedding":null,"data":[0.5]}]}"#), 0);
        assert_eq!(empty(r#"{"results":[{"score":null,"relevance_score":0.9}]}"#), 0);
        assert_eq!(empty(r#"{"results":[{"relevance_score":0.9,"score":null}]}"#), 0);
        assert!(scan_pooled(br#"{"error":{"message":"x"}}"#).unwrap().is_error);
        assert!(scan_pooled(br#"{"object":"error","message":"x"}"#).unwrap().is_error);
        assert!(scan_pooled(b"{\"data\":[1,").is_err());
    }
}
