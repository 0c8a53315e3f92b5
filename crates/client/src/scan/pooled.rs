//! Answers without text: how many results there are, and what the server counted.
//!
//! An answer may hold millions of numbers. They are checked to be JSON and skipped; nothing of them is
//! kept. The results stand under `data` (OpenAI, vLLM), `results` (rerank), `embeddings` (Cohere) or
//! `scores` (SGLang), or the document itself is the list (Text Embeddings Inference, SGLang).

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokometer_record::Usage;

use super::NotJson;
use super::fields::whole_count;
use super::typed::says_error;

/// What an answer without text says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PooledAnswer {
    /// Number of results. `None` where there is no list of them.
    pub results: Option<u32>,
    /// Results among them that are null, empty, or no numbers.
    pub empty: u32,
    /// Results among them with the index of another one.
    pub repeated: u32,
    /// The server's count of the prompt.
    pub usage: Option<Usage>,
    /// Whether the document reports an error.
    pub is_error: bool,
}

/// Reads an answer; an error when `data` is not JSON.
pub fn scan_pooled(data: &[u8]) -> Result<PooledAnswer, NotJson> {
    serde_json::from_slice(data).map_err(|_| NotJson)
}

fn usage(prompt_tokens: Option<u32>) -> Option<Usage> {
    // Servers add `completion_tokens: 0`. Nothing was generated, which is not an answer of no tokens.
    prompt_tokens.map(|tokens| Usage { prompt_tokens: Some(tokens), ..Usage::default() })
}

/// The count of a prompt in the objects where servers put it.
fn prompt_tokens(object: &Value) -> Option<u32> {
    ["/prompt_tokens", "/total_tokens", "/billed_units/input_tokens", "/tokens/input_tokens"]
        .into_iter()
        .find_map(|place| object.pointer(place)?.as_f64())
        .and_then(whole_count)
}

/// A single value has nothing that is looked for.
macro_rules! nothing_in_scalars {
    () => {
        nothing_in_scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    ($($visit:ident: $scalar:ty),*) => {
        $(fn $visit<E>(self, _: $scalar) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        })*
    };
}

struct AnswerVisitor;

impl<'de> Visitor<'de> for AnswerVisitor {
    type Value = PooledAnswer;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PooledAnswer, A::Error> {
        let mut answer = PooledAnswer::default();
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match key.as_ref() {
                "data" | "results" | "embeddings" | "scores" => {
                    let found: Counted = map.next_value()?;
                    answer.results = found.results.or(answer.results);
                    answer.empty = answer.empty.max(found.empty);
                    answer.repeated = answer.repeated.max(found.repeated);
                }
                "usage" | "meta" | "meta_info" => {
                    let told: Value = map.next_value()?;
                    answer.usage = usage(prompt_tokens(&told)).or(answer.usage);
                }
                "error" => answer.is_error |= says_error(&map.next_value()?),
                "object" => {
                    answer.is_error |= map.next_value::<Value>()?.as_str() == Some("error");
                }
                _ => {
                    let IgnoredAny = map.next_value()?;
                }
            }
        }
        Ok(answer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<PooledAnswer, A::Error> {
        let Counted { results, empty, repeated, prompt_tokens } = Counted::of_list(seq)?;
        Ok(PooledAnswer { results, empty, repeated, usage: usage(prompt_tokens), is_error: false })
    }

    nothing_in_scalars!();
}

impl<'de> Deserialize<'de> for PooledAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnswerVisitor)
    }
}

/// A list of results, of which only the length is kept. Some lists are one level deeper, by the type
/// of the vectors.
#[derive(Default)]
struct Counted {
    results: Option<u32>,
    /// Entries among them without a value.
    empty: u32,
    /// Entries among them with the index of another one.
    repeated: u32,
    /// Sum of the counts that the entries have.
    prompt_tokens: Option<u32>,
}

impl Counted {
    fn of_list<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let (mut results, mut empty, mut sum) = (0_u32, 0_u32, None);
        let mut indexes = Vec::new();
        while let Some(Entry { tokens, index, is_empty }) = seq.next_element()? {
            results = results.saturating_add(1);
            indexes.extend(index);
            empty += u32::from(is_empty);
            sum = tokens.map(|tokens| tokens.saturating_add(sum.unwrap_or(0))).or(sum);
        }
        let all = indexes.len();
        indexes.sort_unstable();
        indexes.dedup();
        let repeated = u32::try_from(all - indexes.len()).unwrap_or(u32::MAX);
        Ok(Self { results: Some(results), empty, repeated, prompt_tokens: sum })
    }
}

struct CountedVisitor;

impl<'de> Visitor<'de> for CountedVisitor {
    type Value = Counted;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of results")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Counted, A::Error> {
        Counted::of_list(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counted, A::Error> {
        let mut found = Counted::default();
        while map.next_key::<IgnoredAny>()?.is_some() {
            let list: Counted = map.next_value()?;
            found.results = found.results.max(list.results);
            found.empty = found.empty.max(list.empty);
            found.repeated = found.repeated.max(list.repeated);
        }
        Ok(found)
    }

    nothing_in_scalars!();
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountedVisitor)
    }
}

/// Keys under which a result has its value: a vector, a score, or the probabilities of classes.
const VALUES: [&str; 5] = ["embedding", "data", "score", "relevance_score", "probs"];

/// One result.
#[derive(Default)]
struct Entry {
    /// The count of its prompt, where it has one (SGLang's rerank).
    tokens: Option<u32>,
    /// Its place in the request.
    index: Option<u64>,
    /// Whether its value is null, empty, or a list of nulls. A server writes vectors that are not numbers so.
    is_empty: bool,
}

/// Whether a value is there: not null and not empty. A list is what its first element is.
#[derive(Default)]
struct HasValue(bool);

struct HasValueVisitor;

impl<'de> Visitor<'de> for HasValueVisitor {
    type Value = HasValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of a result")
    }

    fn visit_unit<E>(self) -> Result<HasValue, E> {
        Ok(HasValue(false))
    }

    fn visit_bool<E>(self, _: bool) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }

    fn visit_i64<E>(self, _: i64) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }

    fn visit_u64<E>(self, _: u64) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }

    fn visit_f64<E>(self, _: f64) -> Result<HasValue, E> {
        Ok(HasValue(true))
    }

    fn visit_str<E>(self, text: &str) -> Result<HasValue, E> {
        Ok(HasValue(!text.is_empty()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<HasValue, A::Error> {
        let first = seq.next_element::<HasValue>()?.unwrap_or_default();
        while let Some(IgnoredAny) = seq.next_element()? {}
        Ok(first)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HasValue, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(HasValue(true))
    }
}

impl<'de> Deserialize<'de> for HasValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HasValueVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a result")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let mut entry = Entry::default();
        let (mut has_key, mut has_value) = (false, false);
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            if key == "index" {
                entry.index = map.next_value::<Value>()?.as_u64();
            } else if key == "meta_info" {
                entry.tokens = prompt_tokens(&map.next_value::<Value>()?);
            } else if VALUES.contains(&key.as_ref()) {
                has_key = true;
                has_value |= map.next_value::<HasValue>()?.0;
            } else {
                let IgnoredAny = map.next_value()?;
            }
        }
        entry.is_empty = has_key && !has_value;
        Ok(entry)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Entry, A::Error> {
        let first = seq.next_element::<HasValue>()?.unwrap_or_default();
        while let Some(IgnoredAny) = seq.next_element()? {}
        Ok(Entry { tokens: None, index: None, is_empty: !first.0 })
    }

    fn visit_unit<E>(self) -> Result<Entry, E> {
        Ok(Entry { tokens: None, index: None, is_empty: true })
    }

    fn visit_str<E>(self, text: &str) -> Result<Entry, E> {
        Ok(Entry { tokens: None, index: None, is_empty: text.is_empty() })
    }

    nothing_in_scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
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
