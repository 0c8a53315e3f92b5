//! What kind of event a choice makes, how many tokens it has, and how the counts of several events become one.

use tokometer_record::{ContentBytes, EventKind, Usage};

use super::ResponseReading;
use crate::dialect::Counting;
use crate::scan::{Fields, Marks, Text};
use crate::settings::UsageReports;

pub(super) fn reasoning<'f>(fields: &'f Fields<'_>) -> Option<&'f Text<'f>> {
    fields.reasoning.as_ref().filter(|text| !text.is_empty())
}

/// The kind of an event, after those with the marks `seen`.
pub(super) fn kind_of(fields: &Fields<'_>, seen: Marks) -> EventKind {
    let has = |mark| fields.marks.has(mark);
    let has_text = fields.text.as_ref().is_some_and(|text| !text.is_empty());
    if (has_text && !has(Marks::SPECIAL)) || has(Marks::ONLY_IDS) {
        EventKind::Text
    } else if reasoning(fields).is_some() {
        EventKind::Reasoning
    } else if has(Marks::TOOL_CALL) {
        EventKind::ToolCall
    } else if has(Marks::CHOICE) || fields.text.is_some() {
        // Some servers repeat the role in every event; only an opening one is a role event.
        let opens = has(Marks::ROLE) && !has(Marks::FINISHED) && !seen.has(Marks::CHOICE);
        if opens { EventKind::Role } else { EventKind::Empty }
    } else if fields.usage.is_some() {
        EventKind::Usage
    } else {
        EventKind::Other
    }
}

impl ResponseReading {
    /// Tokens in the event; `None` where nothing reports them.
    pub(super) fn tokens(&mut self, fields: &Fields<'_>, kind: EventKind) -> Option<u32> {
        if !kind.has_choice() {
            return None;
        }
        let running = fields.usage.and_then(|usage| usage.completion_tokens);
        let grown = running.map(|running| running.saturating_sub(self.state.counted));
        let tokens = match self.rules.counting {
            Counting::OnePerEvent => 1,
            Counting::RunningCount => grown?,
            Counting::WhenReported => {
                // Usage that was not requested with every event may be a sum, an estimate or zero.
                let is_requested = self.usage_reports == UsageReports::Continuous;
                fields.token_ids.or(grown.filter(|_| is_requested))?
            }
        };
        self.state.counted = self.state.counted.saturating_add(tokens);
        Some(tokens)
    }
}

/// The later of two counts: servers begin with an estimate. Some gateways end with zeros behind the count.
fn latest(known: Option<u32>, told: Option<u32>) -> Option<u32> {
    told.filter(|tokens| *tokens > 0).or(known).or(told)
}

/// Adds the counts of an event to those of the events before it.
pub(super) fn merge(known: &mut Usage, told: Usage) {
    // A protocol may count cached tokens apart, and not every event repeats them.
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

/// How much of the text came with the first content event, and how much of it was reasoning. The bytes are counted as
/// they stand in the JSON, escapes included. No figure is made of them: they show where a first event holds many
/// tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByteCount {
    known: Option<ContentBytes>,
    /// Whether an event had content whose size is not known, such as a tool call.
    has_other: bool,
}

impl ByteCount {
    /// Adds a content event of this many bytes, so many of them reasoning.
    #[inline]
    pub(super) fn add(&mut self, bytes: usize, reasoning: usize) {
        let (bytes, reasoning) = (bytes as u64, reasoning as u64);
        let known = self.known.get_or_insert(ContentBytes { first: bytes, ..Default::default() });
        known.all += bytes;
        *known.reasoning.get_or_insert(0) += reasoning;
    }

    pub(super) fn add_choice(&mut self, kind: EventKind, fields: &Fields<'_>) {
        if kind.is_content() {
            let thought = reasoning(fields).map_or(0, Text::len);
            let bytes = fields.text.as_ref().map_or(0, Text::len) + thought;
            let is_unknown = bytes == 0 || fields.marks.has(Marks::TOOL_CALL);
            // Events that repeat all text so far do not show how much came with each.
            self.has_other |= is_unknown || fields.marks.has(Marks::CUMULATIVE);
            self.add(bytes, thought);
        }
    }

    /// `None` where the size of some content is not known.
    pub(super) fn total(&self) -> Option<ContentBytes> {
        self.known.filter(|_| !self.has_other)
    }
}
