//! What kind of event a choice makes, and how the counts of several events become one.

use tokometer_record::{EventKind, Usage};

use crate::scan::{Fields, Marks, Text};

/// The reasoning of a choice, under whichever name it has.
pub(super) fn reasoning<'f>(fields: &'f Fields<'_>) -> Option<&'f Text<'f>> {
    let known = [&fields.reasoning, &fields.reasoning_alias, &fields.reasoning_parts];
    let known = known.map(Option::as_ref);
    known.into_iter().flatten().find(|text| !text.is_empty())
}

/// The kind of an event without new text.
pub(super) fn kind_without_text(fields: &Fields<'_>, seen: Marks) -> EventKind {
    let has = |mark| fields.marks.has(mark);
    if reasoning(fields).is_some() {
        EventKind::Reasoning
    } else if has(Marks::TOOL_CALL) {
        EventKind::ToolCall
    } else if has(Marks::CHOICE) || fields.text.is_some() {
        // TGI repeats the role in every event; only an opening one is a role event.
        let opens = has(Marks::ROLE) && !has(Marks::FINISHED) && !seen.has(Marks::CHOICE);
        if opens { EventKind::Role } else { EventKind::Empty }
    } else if fields.usage.is_some() {
        EventKind::Usage
    } else {
        EventKind::Other
    }
}

/// The later of two counts: servers begin with an estimate. Some gateways end with zeros behind the count.
fn latest(known: Option<u32>, told: Option<u32>) -> Option<u32> {
    told.filter(|tokens| *tokens > 0).or(known).or(told)
}

/// Adds the counts of an event to those of the events before it.
pub(super) fn merge(known: &mut Usage, told: Usage) {
    // The Messages API counts cached tokens apart, and not every event repeats them.
    let lacks_cached = told.cached_tokens.is_none() && known.cached_tokens > Some(0);
    known.prompt_tokens = if lacks_cached {
        told.prompt_tokens.max(known.prompt_tokens)
    } else {
        latest(known.prompt_tokens, told.prompt_tokens)
    };
    known.completion_tokens = latest(known.completion_tokens, told.completion_tokens);
    known.cached_tokens = told.cached_tokens.or(known.cached_tokens);
    known.reasoning_tokens = told.reasoning_tokens.or(known.reasoning_tokens);
}
