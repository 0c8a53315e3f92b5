//! A prepared request without one of its fields.
//!
//! For a server that refuses a field which we added by ourselves. The prompt is not at hand any more
//! when the refusal comes, so the field is taken out of the bytes.

use serde_json::{Map, Value};

use crate::prepare::PreparedRequest;

const LENGTH: &[u8] = b"\r\nContent-Length: ";

impl PreparedRequest {
    /// The same request without `field`. `None` when it is not one of the optional ones, or when the
    /// body is not a JSON object.
    pub fn without(&self, field: &str) -> Option<Self> {
        let optional_fields: Vec<_> =
            self.optional_fields.iter().copied().filter(|optional| *optional != field).collect();
        if optional_fields.len() == self.optional_fields.len() {
            return None;
        }
        let mut body: Map<String, Value> = serde_json::from_slice(self.body()).ok()?;
        body.remove(field)?;
        let body = serde_json::to_vec(&body).ok()?;
        let mut bytes = with_length(&self.bytes[..self.body_start], body.len())?;
        let body_start = bytes.len();
        bytes.extend_from_slice(&body);
        let mut asked = self.asked;
        asked.body_bytes = body.len() as u64;
        Some(Self {
            bytes,
            body_start,
            asked,
            optional_fields,
            index: self.index,
            lora: self.lora.clone(),
        })
    }
}

/// A request's head with another length of its body.
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
    use tokometer_record::Asked;

    use super::*;

    fn request(body: &str) -> PreparedRequest {
        let head =
            format!("POST / HTTP/1.1\r\nContent-Length: {}\r\nAccept: */*\r\n\r\n", body.len());
        PreparedRequest {
            body_start: head.len(),
            bytes: [head.as_bytes(), body.as_bytes()].concat(),
            asked: Asked::default(),
            optional_fields: vec!["ignore_eos", "stream_options"],
            index: 3,
            lora: None,
        }
    }

    #[test]
    fn the_field_goes_and_the_length_follows() {
        let changed = request(r#"{"prompt":"a","ignore_eos":true}"#).without("ignore_eos").unwrap();
        let text = String::from_utf8(changed.bytes.clone()).unwrap();
        assert_eq!(
            text,
            "POST / HTTP/1.1\r\nContent-Length: 14\r\nAccept: */*\r\n\r\n{\"prompt\":\"a\"}"
        );
        assert_eq!(changed.body(), br#"{"prompt":"a"}"#);
        assert_eq!(changed.optional_fields, ["stream_options"]);
        assert_eq!(changed.asked.body_bytes, 14);
    }

    #[test]
    fn what_was_asked_for_or_is_not_there_stays() {
        assert_eq!(request(r#"{"prompt":"a"}"#).without("prompt"), None);
        assert_eq!(request(r#"{"prompt":"a"}"#).without("ignore_eos"), None);
        assert_eq!(request("[1]").without("ignore_eos"), None);
    }
}
