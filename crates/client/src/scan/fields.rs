//! The fields of one event, and how each is taken from its JSON value.

use tokometer_base::Nanos;
use tokometer_record::{ServerTimings, Usage};

use super::keys::Field;
use super::marks::Marks;
use super::text::Text;
use crate::quirk::GOES_ON;

/// Finish reasons for a response that the server could not complete.
const ABORTS: &str = "error network_error abort aborted cancelled canceled failed timeout \
                      insufficient_system_resource";

/// Whether a finish reason reports a failure. Some gateways pass it on in capitals.
pub(crate) fn is_abort(reason: &[u8]) -> bool {
    ABORTS.split_whitespace().any(|word| reason.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a finish reason says that the answer goes on.
fn is_no_reason(reason: &[u8]) -> bool {
    GOES_ON.iter().any(|quirk| quirk.rule.as_bytes() == reason)
}

/// The fields of one event that the client uses. Absent fields are `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Fields<'a> {
    pub(crate) marks: Marks,
    /// Text of the answer: a piece, or with [`Marks::CUMULATIVE`] all of it so far.
    pub(crate) text: Option<Text<'a>>,
    pub(crate) reasoning: Option<Text<'a>>,
    /// The text of the whole response or part, in the event that ends it.
    pub(crate) whole_text: Option<Text<'a>>,
    pub(crate) token_ids: Option<u32>,
    pub(crate) usage: Option<Usage>,
    /// The sum that the server states beside its counts.
    pub(crate) total_tokens: Option<u32>,
    pub(crate) timings: Option<ServerTimings>,
    /// Further choices of the same event. Servers send one per event unless asked for several.
    pub(crate) further: Vec<Self>,
    /// What the event is, in protocols that name it.
    pub(crate) event_type: Option<Text<'a>>,
    /// The state of the response, in events that describe it.
    pub(crate) status: Option<Text<'a>>,
}

/// A JSON value, reduced to what a field may need.
#[derive(Debug)]
pub(super) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Text<'a>),
    Array(u32),
    Object { is_empty: bool },
}

impl JsonValue<'_> {
    /// Whether it says nothing: null, false, zero or empty.
    fn is_nothing(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(said) => !said,
            Self::Number(code) => *code == 0.0,
            Self::Text(said) => said.is_empty(),
            Self::Array(count) => *count == 0,
            Self::Object { is_empty } => *is_empty,
        }
    }
}

/// A number that counts something; `None` for fractions, and beyond what any server counts.
pub(super) fn whole_count(number: f64) -> Option<u32> {
    let is_count = (0.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and in range, checked just before"
    )]
    is_count.then_some(number as u32)
}

fn span(value: &JsonValue<'_>) -> Option<Nanos> {
    match value {
        JsonValue::Number(millis) => Some(Nanos::from_millis_f64(*millis)),
        _ => None,
    }
}

fn text(value: JsonValue<'_>) -> Option<Text<'_>> {
    match value {
        JsonValue::Text(text) => Some(text),
        _ => None,
    }
}

/// Replaces a text, except by an empty one: a server may have several keys for one text, and only one of them is
/// filled.
fn fill<'a>(known: &mut Option<Text<'a>>, value: JsonValue<'a>) {
    let Some(text) = text(value) else { return };
    if known.is_none() || !text.is_empty() {
        *known = Some(text);
    }
}

impl<'a> Fields<'a> {
    /// Whether the event or one of its choices has all of `marks`.
    pub(crate) fn has_in_any_choice(&self, marks: Marks) -> bool {
        self.marks.has(marks) || self.further.iter().any(|choice| choice.marks.has(marks))
    }

    /// Sets the type of an event whose data does not name it.
    pub(crate) fn set_type(&mut self, name: &'a [u8]) {
        if self.event_type.is_none() && !name.is_empty() {
            self.event_type = Some(Text::Plain(name));
            self.marks.set(Marks::TYPED_BY_NAME);
        }
    }

    pub(super) fn into_owned(self) -> Fields<'static> {
        let owned = |text: Option<Text<'_>>| text.map(|text| Text::Owned(text.to_text()));
        Fields {
            text: owned(self.text),
            reasoning: owned(self.reasoning),
            whole_text: owned(self.whole_text),
            event_type: owned(self.event_type),
            status: owned(self.status),
            further: self.further.into_iter().map(Fields::into_owned).collect(),
            marks: self.marks,
            token_ids: self.token_ids,
            usage: self.usage,
            total_tokens: self.total_tokens,
            timings: self.timings,
        }
    }

    /// Stores the value of a known field. A null is ignored.
    pub(super) fn take(&mut self, field: Field, value: JsonValue<'a>) {
        if matches!(value, JsonValue::Null) {
            return;
        }
        match field {
            Field::Text => fill(&mut self.text, value),
            Field::Reasoning => fill(&mut self.reasoning, value),
            Field::WholeText => {
                self.marks.set(Marks::LAST);
                self.whole_text = text(value);
            }
            Field::EndedText => self.whole_text = text(value),
            Field::TokenIds => {
                if let JsonValue::Array(count) = value {
                    self.token_ids = Some(count);
                }
            }
            Field::EventType => self.event_type = text(value),
            Field::Status => self.status = text(value),
            Field::Prefill => self.timings.get_or_insert_default().prefill = span(&value),
            Field::Decode => self.timings.get_or_insert_default().decode = span(&value),
            _ => match value {
                JsonValue::Number(number) if field.is_count() => self.take_count(field, number),
                value => self.take_mark(field, &value),
            },
        }
    }

    fn take_count(&mut self, field: Field, number: f64) {
        let Some(count) = whole_count(number) else { return };
        let usage = self.usage.get_or_insert_default();
        match field {
            Field::TotalTokens => self.total_tokens = Some(count),
            Field::PromptTokens => usage.prompt_tokens = Some(count),
            Field::CompletionTokens => usage.completion_tokens = Some(count),
            Field::CachedTokens => usage.cached_tokens = Some(count),
            Field::PromptPart | Field::CachedPart => {
                let others = usage.prompt_tokens.unwrap_or(0);
                usage.prompt_tokens = Some(others.saturating_add(count));
                if field == Field::CachedPart {
                    usage.cached_tokens = Some(count);
                }
            }
            _ => usage.reasoning_tokens = Some(count),
        }
    }

    fn take_mark(&mut self, field: Field, value: &JsonValue<'_>) {
        let mark = match (field, value) {
            (Field::Role, JsonValue::Text(_)) => Marks::ROLE,
            (Field::ToolCalls, JsonValue::Array(1..)) => Marks::TOOL_CALL,
            (Field::ToolArguments, JsonValue::Text(part)) if !part.is_empty() => Marks::TOOL_CALL,
            (Field::Finish, JsonValue::Text(reason)) if is_no_reason(reason.as_bytes()) => return,
            (Field::Finish, JsonValue::Text(reason)) if is_abort(reason.as_bytes()) => {
                Marks::FINISHED.and(Marks::ABORTED)
            }
            (Field::Finish, _) => Marks::FINISHED,
            // Some servers have the field in every event and leave it empty.
            (Field::Error, said) if !said.is_nothing() => Marks::ERROR,
            (Field::Object, JsonValue::Text(kind)) if kind.is("error") => Marks::ERROR,
            (Field::ChoiceIndex, JsonValue::Number(index)) if *index > 0.0 => Marks::FURTHER,
            (Field::Last, JsonValue::Bool(true)) => Marks::LAST,
            (Field::Special, JsonValue::Bool(true)) => Marks::SPECIAL,
            _ => return,
        };
        self.marks.set(mark);
    }
}

impl Field {
    const fn is_count(self) -> bool {
        matches!(
            self,
            Self::PromptTokens
                | Self::CompletionTokens
                | Self::TotalTokens
                | Self::CachedTokens
                | Self::ReasoningTokens
                | Self::PromptPart
                | Self::CachedPart
        )
    }
}
