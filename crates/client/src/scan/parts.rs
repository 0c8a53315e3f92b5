//! Answers whose text stands in a list of typed parts.

use serde_json::Value;

use super::fields::Fields;
use super::keys::Field;
use super::marks::Marks;
use super::text::Text;

/// Takes a field whose value is a list: of parts, or of texts of which the first counts.
pub(super) fn take_list(fields: &mut Fields<'_>, field: Field, list: &[Value]) {
    if let Some(text) = list.first().and_then(Value::as_str) {
        fields.text = Some(Text::Owned(text.to_owned()));
        return;
    }
    if field == Field::Text {
        fields.marks.set(Marks::CHOICE);
        for part in list {
            take_part(fields, part);
        }
    } else if fields.reasoning.as_ref().is_none_or(Text::is_empty) {
        let texts = list.iter().filter_map(|part| part.get("text").or_else(|| part.get("summary")));
        append(&mut fields.reasoning, Some(&texts.filter_map(Value::as_str).collect::<String>()));
    }
}

/// One part of an answer: a block of a message, or an item with parts of its own.
fn take_part(fields: &mut Fields<'_>, part: &Value) {
    let text = |key: &str| part.get(key).and_then(Value::as_str);
    let inner = |key: &str| part.get(key).and_then(Value::as_array).into_iter().flatten();
    match text("type").unwrap_or_default() {
        "message" | "reasoning" => {
            inner("content").chain(inner("summary")).for_each(|part| take_part(fields, part));
        }
        // Some gateways leave the type of a text out.
        "output_text" | "text" | "" => append(&mut fields.text, text("text")),
        "refusal" => append(&mut fields.text, text("refusal")),
        "reasoning_text" | "summary_text" => append(&mut fields.reasoning, text("text")),
        "thinking" => {
            append(&mut fields.reasoning, text("thinking"));
            for piece in inner("thinking") {
                append(&mut fields.reasoning, piece.get("text").and_then(Value::as_str));
            }
        }
        "tool_use" => fields.marks.set(Marks::TOOL_CALL),
        kind if kind.ends_with("_call") => fields.marks.set(Marks::TOOL_CALL),
        _ => {}
    }
}

fn append(known: &mut Option<Text<'_>>, more: Option<&str>) {
    let Some(more) = more else { return };
    let text = known.as_ref().map(Text::to_text).unwrap_or_default();
    *known = Some(Text::Owned(text + more));
}
