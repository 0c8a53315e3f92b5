//! Conversations and inputs as rows of a file hold them, kept as they are written there.
//!
//! A message may have more than a role and a text: parts with images, tool calls, a name. Such a
//! message is sent as it is. Its text is known beside it, for counting.

use serde_json::Value;
use serde_json::value::RawValue;
use tokometer_base::Message;

/// The messages of a row, or why it has none that can be sent.
pub(crate) fn messages(text: &RawValue) -> Result<Vec<Message>, String> {
    let list: Vec<&RawValue> =
        serde_json::from_str(text.get()).map_err(|_| "its `messages` are not a list".to_owned())?;
    if list.is_empty() {
        return Err("its `messages` are empty".to_owned());
    }
    let one = |(index, entry): (usize, &&RawValue)| {
        message(entry.get()).map_err(|why| format!("message {}: {why}", index + 1))
    };
    list.iter().enumerate().map(one).collect()
}

fn message(text: &str) -> Result<Message, String> {
    let entry: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
    let fields = entry.as_object().ok_or("it is not an object with a role and content")?;
    // Items of the Responses API, such as the result of a tool call, have a type instead of a role.
    let role = match (fields.get("role"), fields.get("type")) {
        (Some(Value::String(role)), _) => role.clone(),
        (None, Some(Value::String(_))) => "tool".to_owned(),
        _ => return Err("it has no `role`".to_owned()),
    };
    let content = content(fields.get("content").unwrap_or(&Value::Null))?;
    let is_plain = fields.len() == 2 && fields.get("content").is_some_and(Value::is_string);
    let verbatim = (!is_plain).then(|| text.to_owned());
    Ok(Message { role, content, verbatim })
}

/// Whether a message says something that its text does not.
pub(crate) fn is_more_than_text(message: &Message) -> bool {
    let Some(verbatim) = &message.verbatim else { return false };
    let Ok(Value::Object(fields)) = serde_json::from_str(verbatim) else { return true };
    let has_other_fields = fields.keys().any(|key| !["role", "content", "name"].contains(&&**key));
    let is_text = |part: &Value| {
        part.is_string() || part.get("type").and_then(Value::as_str).is_some_and(is_text_type)
    };
    let parts = fields.get("content").and_then(Value::as_array);
    has_other_fields || parts.is_some_and(|parts| !parts.iter().all(is_text))
}

fn is_text_type(kind: &str) -> bool {
    matches!(kind, "text" | "input_text" | "output_text" | "refusal")
}

fn content(content: &Value) -> Result<String, String> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let text = |(index, part): (usize, &Value)| {
                part_text(part).map_err(|why| format!("part {}: {why}", index + 1))
            };
            parts.iter().enumerate().map(text).collect()
        }
        _ => Err("its `content` is neither a text nor a list of parts".to_owned()),
    }
}

fn part_text(part: &Value) -> Result<String, String> {
    if let Value::String(text) = part {
        return Ok(text.clone());
    }
    let _kind = part.get("type").and_then(Value::as_str).ok_or("it has no `type`")?;
    let text = part.get("text").and_then(Value::as_str);
    Ok(text.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Message>, String> {
        messages(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn what_is_more_than_a_text_is_kept_as_it_is() {
        let rows = r#"[
            {"role": "user", "content": "hi"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c1","content":"7"},
            {"role":"user","name":"ann","content":"and"},
            {"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,x"}},{"type":"text","text":"b"}]}
        ]"#;
        let read = read(rows).unwrap();
        let kept: Vec<bool> = read.iter().map(|message| message.verbatim.is_some()).collect();
        assert_eq!(kept, [false, true, true, true, true]);
        assert_eq!(read[4].content, "ab");
        assert_eq!(
            read[2].verbatim.as_deref(),
            Some(r#"{"role":"tool","tool_call_id":"c1","content":"7"}"#)
        );
    }

    #[test]
    fn a_message_that_cannot_be_sent_is_named_by_its_number() {
        let check = |rows: &str, expected: &str| {
            let why = read(rows).unwrap_err();
            assert!(why.contains(expected), "{rows}: {why}");
        };
        check("[]", "its `messages` are empty");
        check("{}", "its `messages` are not a list");
        check(r#"[{"content":"x"}]"#, "message 1: it has no `role`");
        check(r#"[{"role":"user","content":"x"},3]"#, "message 2: it is not an object");
        check(r#"[{"role":"user","content":5}]"#, "neither a text nor a list of parts");
        check(
            r#"[{"role":"user","content":[{"type":"text","text":"a"},{"text":"b"}]}]"#,
            "message 1: part 2: it has no `type`",
        );
    }
}
