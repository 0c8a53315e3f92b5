//! The full parser, for constructs that the fast path rejects. It uses the same table of fields.

use serde_json::Value as Json;

use super::NotJson;
use super::fields::{EventField, Fields, JsonValue, KeyUse, KnownObject, slot};
use super::text::Text;
use super::typed::take_part;

pub(super) fn fields(root: KnownObject, data: &[u8]) -> Result<Fields<'static>, NotJson> {
    let document: Json = serde_json::from_slice(data).map_err(|_| NotJson)?;
    let mut fields = Fields::default();
    enter(root, &document, &mut fields);
    Ok(fields)
}

fn enter(place: KnownObject, json: &Json, fields: &mut Fields<'static>) {
    if let (KnownObject::Choice, Json::Array(items)) = (place, json) {
        for item in items.iter().skip(1).filter(|item| item.is_object()) {
            let mut further = Fields::default();
            enter(place, item, &mut further);
            fields.further.push(further);
        }
    }
    let object = match json {
        Json::Array(items) => items.first().and_then(Json::as_object),
        other => other.as_object(),
    };
    let Some(object) = object else { return };
    if !fields.enter(place) {
        return;
    }
    for (key, json) in object {
        match slot(place, key.as_bytes()) {
            KeyUse::Skip => {}
            KeyUse::Enter(inner) => enter(inner, json, fields),
            KeyUse::EnterOrTake(inner, _) if json.is_object() => enter(inner, json, fields),
            KeyUse::Take(EventField::Text) if has_parts(json) => {
                json.as_array().into_iter().flatten().for_each(|part| take_part(fields, part));
            }
            KeyUse::Take(EventField::ReasoningParts) => take_reasoning(json, fields),
            KeyUse::Take(field) | KeyUse::EnterOrTake(_, field) => fields.take(field, value(json)),
        }
    }
}

/// Takes the text of reasoning in parts (`OpenRouter`, `MiniMax`). Most events have it under another name too.
fn take_reasoning(json: &Json, fields: &mut Fields<'static>) {
    let texts = json.as_array().into_iter().flatten();
    let texts = texts.filter_map(|part| part.get("text").or_else(|| part.get("summary")));
    let text: String = texts.filter_map(Json::as_str).collect();
    if !text.is_empty() {
        fields.take(EventField::ReasoningParts, JsonValue::Text(Text::Owned(text)));
    }
}

/// Whether a text is a list of typed parts, as Mistral's servers stream it when the model reasons.
fn has_parts(json: &Json) -> bool {
    json.as_array().and_then(|parts| parts.first()).is_some_and(Json::is_object)
}

fn value(json: &Json) -> JsonValue<'static> {
    match json {
        Json::Null => JsonValue::Null,
        Json::Bool(value) => JsonValue::Bool(*value),
        Json::Number(number) => JsonValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => JsonValue::Text(Text::Owned(text.clone())),
        Json::Array(items) => {
            let first = items.first().and_then(Json::as_str);
            let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
            JsonValue::Array(count, first.map(|text| Text::Owned(text.to_owned())))
        }
        Json::Object(fields) => JsonValue::Object { is_empty: fields.is_empty() },
    }
}
