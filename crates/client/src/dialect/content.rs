//! Parts of chat messages in the words of the Responses and Messages APIs.
//!
//! Datasets write parts as chat routes take them. The other two APIs have words of their own for texts and
//! images. A part that is not known, or already has the API's own form, stays as it is.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

type JsonFields<'a> = BTreeMap<String, &'a RawValue>;

/// A message of the Responses API; `None` for one that needs no change.
pub(super) fn for_responses(message: &str) -> Option<String> {
    with_parts(message, |role, part| {
        let kind = if role == "assistant" { "output_text" } else { "input_text" };
        match word(part, "type")?.as_str() {
            "text" => Some(format!(r#"{{"type":"{kind}","text":{}}}"#, part.get("text")?)),
            "image_url" => {
                let ImagePart { url, detail } = image(part)?;
                // vLLM refuses an image without it.
                let detail = detail.unwrap_or(r#""auto""#);
                Some(format!(r#"{{"type":"input_image","image_url":{url},"detail":{detail}}}"#))
            }
            _ => None,
        }
    })
}

/// A message of the Messages API; `None` for one that needs no change.
pub(super) fn for_messages(message: &str) -> Option<String> {
    with_parts(message, |_, part| {
        if word(part, "type")? != "image_url" {
            return None;
        }
        let url = image(part)?.url;
        let source = match inline(url) {
            Some((media_type, data)) => {
                format!(r#"{{"type":"base64","media_type":"{media_type}","data":"{data}"}}"#)
            }
            None => format!(r#"{{"type":"url","url":{url}}}"#),
        };
        Some(format!(r#"{{"type":"image","source":{source}}}"#))
    })
}

/// The message with the parts that `change` returns something for replaced.
fn with_parts(
    message: &str,
    change: impl Fn(&str, &JsonFields<'_>) -> Option<String>,
) -> Option<String> {
    let fields: JsonFields<'_> = serde_json::from_str(message).ok()?;
    let parts: Vec<&RawValue> = serde_json::from_str(fields.get("content")?.get()).ok()?;
    let role = word(&fields, "role").unwrap_or_default();
    let one = |part: &&RawValue| {
        let known: Option<JsonFields<'_>> = serde_json::from_str(part.get()).ok();
        let changed = known.and_then(|known| change(&role, &known));
        changed.unwrap_or_else(|| part.get().to_owned())
    };
    let content = format!("[{}]", parts.iter().map(one).collect::<Vec<_>>().join(","));
    let field = |(name, value): (&String, &&RawValue)| {
        let value = if name == "content" { &content } else { value.get() };
        format!("{}:{value}", serde_json::Value::from(name.as_str()))
    };
    Some(format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(",")))
}

fn word(fields: &JsonFields<'_>, name: &str) -> Option<String> {
    serde_json::from_str(fields.get(name)?.get()).ok()
}

struct ImagePart<'a> {
    url: &'a str,
    detail: Option<&'a str>,
}

fn image<'a>(part: &JsonFields<'a>) -> Option<ImagePart<'a>> {
    let value = part.get("image_url")?.get();
    if value.starts_with('"') {
        return Some(ImagePart { url: value, detail: None });
    }
    let fields: JsonFields<'a> = serde_json::from_str(value).ok()?;
    let detail = fields.get("detail").map(|detail| detail.get());
    Some(ImagePart { url: fields.get("url")?.get(), detail })
}

/// The type and data of a data URL in JSON quotes. Base64 has no character that JSON escapes.
fn inline(url: &str) -> Option<(&str, &str)> {
    let inner = url.strip_prefix("\"data:")?.strip_suffix('"')?;
    inner.split_once(";base64,").filter(|(kind, data)| !kind.contains('\\') && !data.contains('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = r#"{"role":"user","content":[{"type":"text","text":"a \"b\""},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO","detail":"low"}},{"type":"image_url","image_url":{"url":"https://example.com/c.jpg"}}]}"#;

    #[test]
    fn images_are_written_in_the_words_of_each_api() {
        assert_eq!(
            for_responses(CHAT).unwrap(),
            r#"{"content":[{"type":"input_text","text":"a \"b\""},{"type":"input_image","image_url":"data:image/png;base64,iVBO","detail":"low"},{"type":"input_image","image_url":"https://example.com/c.jpg","detail":"auto"}],"role":"user"}"#
        );
        assert_eq!(
            for_messages(CHAT).unwrap(),
            r#"{"content":[{"type":"text","text":"a \"b\""},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}},{"type":"image","source":{"type":"url","url":"https://example.com/c.jpg"}}],"role":"user"}"#
        );
    }

    #[test]
    fn what_already_has_the_api_s_own_form_stays() {
        let own = r#"{"content":[{"type":"input_text","text":"a"},{"type":"tool_result","tool_use_id":"x"}],"role":"user"}"#;
        assert_eq!(for_responses(own).unwrap(), own);
        assert_eq!(for_messages(own).unwrap(), own);
        assert_eq!(for_messages(r#"{"role":"user","content":"text"}"#), None);
        let said = r#"{"content":[{"type":"text","text":"b"}],"role":"assistant"}"#;
        assert!(for_responses(said).unwrap().contains(r#""output_text""#));
    }
}
