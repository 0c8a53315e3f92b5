//! Removes a field that the server refuses from a prepared request.
//!
//! [`refused_field`] decides from the server's message whether it refuses a *field*, as opposed to
//! its value. [`PreparedRequest::without`] builds the request to send instead. The prompt is no
//! longer available then, so the field is removed from the bytes. The output length is never removed:
//! it is sent under its other name, once.

use serde_json::{Map, Value};
use tokometer_record::{Failure, FailureKind};

use crate::multipart;
use crate::prepare::PreparedRequest;

const LENGTH: &[u8] = b"\r\nContent-Length: ";

/// Names of the same field: a server that refuses one may accept the other.
const LENGTH_NAMES: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Words in messages about an unknown field.
const FIELD_WORDS: &str = "unknown unrecognized unrecognised unsupported unexpected extra additional \
                           extra_forbidden";

/// What follows `not` in messages about an unknown field.
const NOT_WORDS: &str = "supported support permitted allowed recognized recognised accepted";

/// Words in messages about a bad value of a known field.
const VALUE_WORDS: &str = "value values greater less larger smaller longer fewer higher lower must exceed \
                           exceeds exceeded exceeding too maximum minimum most least range between \
                           limit context reduce required";

/// The optional field that a refusal is about. The response has status 400 or 422, names the field,
/// calls it unknown, and does not mention a value.
///
/// Servers have no common format for this, so the words of the message decide. In doubt the request
/// counts as failed: a field removed by mistake would change every later request of the run.
pub fn refused_field(failure: &Failure, optional_fields: &[&'static str]) -> Option<&'static str> {
    if failure.kind != FailureKind::Status || !matches!(failure.status, Some(400 | 422)) {
        return None;
    }
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let lower = failure.message.to_ascii_lowercase();
    let words: Vec<&str> =
        lower.split(|character| !is_word(character)).filter(|word| !word.is_empty()).collect();
    let has = |list: &str| list.split_whitespace().any(|known| words.contains(&known));
    let is_not = |pair: &[&str]| {
        pair[0] == "not" && NOT_WORDS.split_whitespace().any(|word| word == pair[1])
    };
    let is_about_field = has(FIELD_WORDS) || words.windows(2).any(is_not);
    if !is_about_field || has(VALUE_WORDS) {
        return None;
    }
    // A message may also name the replacement. The field that it is about comes first.
    words.iter().find_map(|word| optional_fields.iter().find(|field| *field == word)).copied()
}

pub fn replacement(field: &str) -> Option<&'static str> {
    let [new, old] = LENGTH_NAMES;
    match field {
        name if name == new => Some(old),
        name if name == old => Some(new),
        _ => None,
    }
}

impl PreparedRequest {
    /// The same request without `field`, or with the field's other name. `None` when the field is not
    /// optional, or when the body is neither a JSON object nor a form. The other name is not optional: a request
    /// without an output length is never sent.
    pub fn without(&self, field: &str) -> Option<Self> {
        let optional_fields: Vec<_> =
            self.optional_fields.iter().copied().filter(|optional| *optional != field).collect();
        if optional_fields.len() == self.optional_fields.len() {
            return None;
        }
        let body = match multipart::without(self.body(), field) {
            Some(form) => form,
            None => json_without(self.body(), field)?,
        };
        let mut bytes = with_length(&self.bytes[..self.body_start], body.len())?;
        let body_start = bytes.len();
        bytes.extend_from_slice(&body);
        let mut requested = self.requested;
        requested.body_bytes = body.len() as u64;
        Some(Self {
            bytes,
            body_start,
            requested,
            optional_fields,
            index: self.index,
            lora: self.lora.clone(),
            own_tools: self.own_tools.clone(),
        })
    }
}

fn json_without(body: &[u8], field: &str) -> Option<Vec<u8>> {
    let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let value = body.remove(field)?;
    if let Some(other) = replacement(field) {
        body.entry(other).or_insert(value);
    }
    serde_json::to_vec(&body).ok()
}

fn with_length(head: &[u8], length: usize) -> Option<Vec<u8>> {
    let at = head.windows(LENGTH.len()).position(|part| part.eq_ignore_ascii_case(LENGTH))?;
    let (before, after) = head.split_at(at + LENGTH.len());
    let line_end = after.iter().position(|byte| *byte == b'\r')?;
    let mut changed = before.to_vec();
    changed.extend_from_slice(length.to_string().as_bytes());
    changed.extend_from_slice(&after[line_end..]);
    Some(changed)
}

#[cfg(test)]
mod tests {
    use tokometer_record::RequestedLengths;

    use super::*;

    fn request(body: &str) -> PreparedRequest {
        let head =
            format!("POST / HTTP/1.1\r\nContent-Length: {}\r\nAccept: */*\r\n\r\n", body.len());
        PreparedRequest {
            body_start: head.len(),
            bytes: [head.as_bytes(), body.as_bytes()].concat(),
            requested: RequestedLengths::default(),
            optional_fields: vec!["ignore_eos", "stream_options"],
            index: 3,
            lora: None,
            own_tools: None,
        }
    }

    #[test]
    fn removing_a_field_updates_the_content_length() {
        let changed = request(r#"{"prompt":"a","ignore_eos":true}"#).without("ignore_eos").unwrap();
        let text = String::from_utf8(changed.bytes.clone()).unwrap();
        assert_eq!(
            text,
            "POST / HTTP/1.1\r\nContent-Length: 14\r\nAccept: */*\r\n\r\n{\"prompt\":\"a\"}"
        );
        assert_eq!(changed.body(), br#"{"prompt":"a"}"#);
        assert_eq!(changed.optional_fields, ["stream_options"]);
        assert_eq!(changed.requested.body_bytes, 14);
    }

    #[test]
    fn an_output_length_is_renamed_once_and_never_removed() {
        let mut first = request(r#"{"max_completion_tokens":7,"prompt":"a"}"#);
        first.optional_fields = vec!["max_completion_tokens"];
        let second = first.without("max_completion_tokens").unwrap();
        assert_eq!(second.body(), br#"{"max_tokens":7,"prompt":"a"}"#);
        assert_eq!(second.without("max_tokens"), None);
    }

    fn check_refusal(status: u16, message: &str, expected: Option<&str>) {
        let optional = ["ignore_eos", "stream_options", "max_completion_tokens", "temperature"];
        let failure =
            Failure { status: Some(status), ..Failure::new(FailureKind::Status, message) };
        assert_eq!(refused_field(&failure, &optional), expected, "{message}");
    }

    #[test]
    fn a_message_that_the_server_has_no_such_field_is_a_refusal_of_the_field() {
        let check = |message: &str, field: &str| check_refusal(400, message, Some(field));
        let transformers = r#"{"detail":"Unexpected fields in the request: {'ignore_eos'}"}"#;
        check_refusal(422, transformers, Some("ignore_eos"));
        check_refusal(500, transformers, None);
        check("Unrecognized request argument supplied: stream_options", "stream_options");
        check("Unknown field `ignore_eos` in the request", "ignore_eos");
        check("Additional properties are not allowed ('ignore_eos' was unexpected)", "ignore_eos");
        check(
            "Unsupported parameter: 'max_completion_tokens' is not supported with this model. \
             Use 'max_tokens' instead.",
            "max_completion_tokens",
        );
        let pydantic = "1 validation error:\n  {'type': 'extra_forbidden', 'loc': 'body.ignore_eos', \
                        'msg': 'Extra inputs are not permitted', 'input': 'True'}";
        check(pydantic, "ignore_eos");
    }

    #[test]
    fn a_message_about_a_value_or_about_something_else_refuses_no_field() {
        let check = |message: &str| check_refusal(400, message, None);
        check("ignore_eos_token is unknown");
        check("max_tokens is too large");
        // Captured from vLLM.
        check(
            "max_completion_tokens=5000 cannot be greater than max_model_len=2048. Please request \
             fewer output tokens. (parameter=max_completion_tokens, value=5000)",
        );
        check(
            "max_completion_tokens must be at least 1, got -5. (parameter=max_completion_tokens)",
        );
        check("Unsupported value: 'temperature' does not support 0.0 with this model.");
        check("`max_completion_tokens`: expected an integer");
        check("stream_options");
        check("unexpected end of input");
    }

    #[test]
    fn required_and_absent_fields_are_not_removed() {
        assert_eq!(request(r#"{"prompt":"a"}"#).without("prompt"), None);
        assert_eq!(request(r#"{"prompt":"a"}"#).without("ignore_eos"), None);
        assert_eq!(request("[1]").without("ignore_eos"), None);
    }
}
