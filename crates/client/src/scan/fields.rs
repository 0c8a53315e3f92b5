//! The table of fields: the meaning of each key at each place of an event, for every dialect.

use tokometer_base::Nanos;
use tokometer_record::{ServerTimings, Usage};

use super::marks::Marks;
use super::text::Text;
use super::typed;

/// Finish reasons for a response that the server could not complete.
const ABORTS: [&str; 9] = [
    "error",
    "network_error",
    "abort",
    "aborted",
    "cancelled",
    "canceled",
    "failed",
    "timeout",
    "insufficient_system_resource",
];

/// Whether a finish reason reports a failure. Some gateways pass it on in capitals.
pub(crate) fn is_abort(reason: &[u8]) -> bool {
    ABORTS.iter().any(|word| reason.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a finish reason says that the answer goes on: TGI's completions leave it empty in every event except
/// the last, others write their language's null as a text.
fn is_no_reason(reason: &[u8]) -> bool {
    [&b""[..], b"null", b"None"].contains(&reason)
}

/// Whether a code is that of success.
pub(crate) fn is_success_number(code: f64) -> bool {
    code == 0.0 || (200.0..300.0).contains(&code)
}

/// The same for a code in the form of a text.
pub(crate) fn is_success_word(code: &[u8]) -> bool {
    let words = ["", "0", "200", "ok", "success"];
    words.iter().any(|word| code.eq_ignore_ascii_case(word.as_bytes()))
}

/// The fields of one event that the client uses. Absent fields are `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields<'a> {
    /// Facts that are true for this event.
    pub marks: Marks,
    /// New or cumulative text of the response; [`TextForm`](crate::dialect) says which.
    pub text: Option<Text<'a>>,
    /// Text of the reasoning, in `reasoning_content`.
    pub reasoning: Option<Text<'a>>,
    /// Text of the reasoning, in `reasoning`, `reasoning_text` or `thinking`.
    pub reasoning_alias: Option<Text<'a>>,
    /// Text of the reasoning, in the list `reasoning_details`.
    pub reasoning_parts: Option<Text<'a>>,
    /// The text of the whole response, in the event that ends it.
    pub whole_text: Option<Text<'a>>,
    /// Number of token ids in the event.
    pub token_ids: Option<u32>,
    /// The server's token counts.
    pub usage: Option<Usage>,
    /// The sum that the server states beside its counts.
    pub(super) total_tokens: Option<u32>,
    /// Durations reported by the server.
    pub timings: Option<ServerTimings>,
    /// Further choices of the same event. Servers send one per event unless asked for several.
    pub further: Vec<Self>,
    /// What the event is, in protocols that name it.
    pub(super) event_type: Option<Text<'a>>,
    /// The state of the response, in events that describe it.
    pub(super) status: Option<Text<'a>>,
}

/// A JSON value, reduced to what a field may need.
#[derive(Debug)]
pub(super) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Text<'a>),
    /// Number of elements, and the first one if it is a string.
    Array(u32, Option<Text<'a>>),
    /// Whether it has any key.
    Object {
        is_empty: bool,
    },
}

impl JsonValue<'_> {
    /// Whether it says nothing: null, false, zero or empty.
    fn is_nothing(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(said) => !said,
            Self::Number(code) => *code == 0.0,
            Self::Text(said) => said.is_empty(),
            Self::Array(count, _) => *count == 0,
            Self::Object { is_empty } => *is_empty,
        }
    }
}

/// An object whose keys are in the table.
#[derive(Debug, Clone, Copy)]
pub(super) enum KnownObject {
    Root,
    /// The same where all text stands in `choices`.
    ChoicesRoot,
    /// An event of the Responses API.
    ResponsesEvent,
    /// The response inside such an event.
    ResponseObject,
    /// An event of the Messages API.
    MessagesEvent,
    /// The message inside such an event.
    MessageObject,
    /// The increment inside such an event.
    BlockDelta,
    /// A chunk or event of a transcription.
    TranscriptEvent,
    /// The usage of the Messages API, which counts cached tokens apart.
    MessagesUsage,
    Choice,
    Delta,
    /// The whole message of a choice, or its text so far beside the increment.
    Message,
    /// What a provider adds to OpenAI's protocol under its own name.
    Vendor,
    /// `MiniMax`'s `base_resp`.
    VendorStatus,
    Usage,
    PromptDetails,
    CompletionDetails,
    /// SGLang's `meta_info`.
    Meta,
    /// TGI's `token`.
    Token,
    /// TGI's `details`.
    Details,
    /// llama.cpp's `timings`.
    Timings,
    /// SGLang's `finish_reason` in its object form.
    Finish,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum EventField {
    Text,
    /// Text in which the model declines to answer, instead of `content`.
    Refusal,
    Reasoning,
    ReasoningAlias,
    /// The same in a list of parts, beside or in the place of the text.
    ReasoningParts,
    WholeText,
    /// The text of a part that has ended, which its pieces had before.
    EndedText,
    Role,
    ToolCalls,
    /// The form of a tool call before `tool_calls`: an object.
    FunctionCall,
    Finish,
    Error,
    /// A number or name of an error; that of success is no error.
    ErrorCode,
    Object,
    Last,
    Special,
    ChoiceIndex,
    TokenIds,
    PromptTokens,
    CompletionTokens,
    TotalTokens,
    CachedTokens,
    ReasoningTokens,
    /// Tokens of the prompt that are counted in parts.
    PromptPart,
    /// The same, for the part that came from the cache.
    CachedPart,
    /// A piece of a tool call's arguments.
    ToolArguments,
    EventType,
    Status,
    Prefill,
    Decode,
}

/// What a key's value is used for.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyUse {
    Skip,
    /// An object with fields inside, or an array whose first element is one.
    Enter(KnownObject),
    Take(EventField),
    /// An object with fields inside, or a plain value.
    EnterOrTake(KnownObject, EventField),
}

/// The use of `key` at `place`.
pub(super) fn slot(place: KnownObject, key: &[u8]) -> KeyUse {
    use KeyUse::{Enter, EnterOrTake, Take};
    match (place, key) {
        // Text there is an error or a state of the queue, not the answer.
        (KnownObject::ChoicesRoot, b"text" | b"text_output" | b"content") => KeyUse::Skip,
        (KnownObject::ChoicesRoot, key) => slot(KnownObject::Root, key),
        (KnownObject::Root, b"choices") => Enter(KnownObject::Choice),
        // Moonshot has the counts in the choice that ends, Groq in an object of its own.
        (KnownObject::Root | KnownObject::Choice | KnownObject::Vendor, b"usage") => {
            Enter(KnownObject::Usage)
        }
        (KnownObject::Root, b"x_groq") => Enter(KnownObject::Vendor),
        // OpenRouter has the error of a choice inside of it.
        (KnownObject::Root | KnownObject::Choice, b"error") => Take(EventField::Error),
        // FastChat and Baidu; MiniMax has it in every answer.
        (KnownObject::Root, b"error_code") | (KnownObject::VendorStatus, b"status_code") => {
            Take(EventField::ErrorCode)
        }
        (KnownObject::Root, b"base_resp") => Enter(KnownObject::VendorStatus),
        (KnownObject::Root, b"object" | b"type") => Take(EventField::Object),
        (KnownObject::Root, b"timings") => Enter(KnownObject::Timings),
        (KnownObject::Root, b"meta_info") => Enter(KnownObject::Meta),
        (KnownObject::Root, b"token") => Enter(KnownObject::Token),
        (KnownObject::Root, b"details") => Enter(KnownObject::Details),
        (KnownObject::Root, b"generated_text") => Take(EventField::WholeText),
        (KnownObject::Root, b"stop") => Take(EventField::Last),
        (KnownObject::Root, b"output_ids" | b"tokens") | (KnownObject::Choice, b"token_ids") => {
            Take(EventField::TokenIds)
        }
        (KnownObject::Root, b"text" | b"text_output" | b"content")
        | (KnownObject::Choice | KnownObject::Token, b"text")
        | (KnownObject::Delta, b"content") => Take(EventField::Text),
        (KnownObject::Choice, b"index") => Take(EventField::ChoiceIndex),
        (KnownObject::Choice, b"delta") => Enter(KnownObject::Delta),
        (KnownObject::Choice, b"message") => Enter(KnownObject::Message),
        (KnownObject::Message, key) => slot(KnownObject::Delta, key),
        (KnownObject::Choice | KnownObject::Meta | KnownObject::Details, b"finish_reason") => {
            EnterOrTake(KnownObject::Finish, EventField::Finish)
        }
        (KnownObject::Finish, b"type") => Take(EventField::Finish),
        (KnownObject::Delta, b"refusal") => Take(EventField::Refusal),
        (KnownObject::Delta, b"function_call") => Take(EventField::FunctionCall),
        (KnownObject::Delta, b"role") => Take(EventField::Role),
        (KnownObject::Delta, b"reasoning_content") => Take(EventField::Reasoning),
        (KnownObject::Delta, b"reasoning" | b"reasoning_text" | b"thinking") => {
            Take(EventField::ReasoningAlias)
        }
        (KnownObject::Delta, b"reasoning_details") => Take(EventField::ReasoningParts),
        (KnownObject::Delta, b"tool_calls") => Take(EventField::ToolCalls),
        (KnownObject::Token, b"special") => Take(EventField::Special),
        _ => count_slot(place, key),
    }
}

/// The same for counts and durations.
fn count_slot(place: KnownObject, key: &[u8]) -> KeyUse {
    use KeyUse::{Enter, Take};
    match (place, key) {
        (KnownObject::Usage, b"prompt_tokens_details" | b"input_tokens_details") => {
            Enter(KnownObject::PromptDetails)
        }
        (KnownObject::Usage, b"completion_tokens_details" | b"output_tokens_details") => {
            Enter(KnownObject::CompletionDetails)
        }
        (KnownObject::Usage | KnownObject::Meta, b"prompt_tokens")
        | (KnownObject::Usage, b"input_tokens")
        | (KnownObject::Root, b"tokens_evaluated")
        | (KnownObject::Details, b"input_length") => Take(EventField::PromptTokens),
        (KnownObject::Usage | KnownObject::Meta, b"completion_tokens")
        | (KnownObject::Usage | KnownObject::MessagesUsage, b"output_tokens")
        | (KnownObject::Root, b"tokens_predicted")
        | (KnownObject::Details, b"generated_tokens") => Take(EventField::CompletionTokens),
        (KnownObject::Usage, b"total_tokens") => Take(EventField::TotalTokens),
        (KnownObject::PromptDetails | KnownObject::Meta | KnownObject::Usage, b"cached_tokens")
        | (KnownObject::Usage, b"prompt_cache_hit_tokens")
        | (KnownObject::Timings, b"cache_n") => Take(EventField::CachedTokens),
        (
            KnownObject::Usage | KnownObject::CompletionDetails | KnownObject::Meta,
            b"reasoning_tokens",
        ) => Take(EventField::ReasoningTokens),
        (KnownObject::Timings, b"prompt_ms") => Take(EventField::Prefill),
        (KnownObject::Timings, b"predicted_ms") => Take(EventField::Decode),
        _ => typed::slot(place, key),
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
        JsonValue::Text(text) | JsonValue::Array(_, Some(text)) => Some(text),
        _ => None,
    }
}

impl<'a> Fields<'a> {
    /// Called at the start of an object or array at a known place. False if it says nothing new.
    pub(super) fn enter(&mut self, place: KnownObject) -> bool {
        match place {
            // Perplexity repeats the text so far in a message beside each increment.
            KnownObject::Message if self.marks.has(Marks::INCREMENT) => return false,
            KnownObject::Message => self.marks.set(Marks::MESSAGE),
            KnownObject::Delta => {
                if self.marks.has(Marks::MESSAGE) {
                    self.forget_content();
                    self.marks.clear(Marks::MESSAGE.and(Marks::ROLE));
                }
                self.marks.set(Marks::INCREMENT);
            }
            KnownObject::Choice => self.marks.set(Marks::CHOICE),
            KnownObject::Finish => self.marks.set(Marks::FINISHED),
            KnownObject::Usage | KnownObject::MessagesUsage => {
                self.usage.get_or_insert_default();
            }
            _ => {}
        }
        true
    }

    /// Whether the event or one of its choices has all of `marks`.
    pub fn has_in_any_choice(&self, marks: Marks) -> bool {
        self.marks.has(marks) || self.further.iter().any(|choice| choice.marks.has(marks))
    }

    /// Removes the content of a choice: it repeats what was known before.
    pub fn forget_content(&mut self) {
        (self.text, self.reasoning) = (None, None);
        (self.reasoning_alias, self.reasoning_parts) = (None, None);
        self.marks.clear(Marks::TOOL_CALL);
    }

    /// Removes the content of the choices that have a whole message.
    pub fn forget_messages(&mut self) {
        if self.marks.has(Marks::MESSAGE) {
            self.forget_content();
        }
        self.further.iter_mut().for_each(Self::forget_messages);
    }

    /// Stores the value of a known field. A null is ignored.
    pub(super) fn take(&mut self, field: EventField, value: JsonValue<'a>) {
        if matches!(value, JsonValue::Null) {
            return;
        }
        match field {
            EventField::Text => self.take_text(text(value)),
            // Servers send one of the two; the other is null or empty.
            EventField::Refusal if self.text.as_ref().is_none_or(Text::is_empty) => {
                self.text = text(value).or(self.text.take());
            }
            EventField::Reasoning => self.reasoning = text(value),
            // A server may have several spellings in one event; only one of them has the text.
            EventField::ReasoningAlias => {
                let told = text(value).filter(|text| !text.is_empty());
                self.reasoning_alias = told.or(self.reasoning_alias.take());
            }
            EventField::ReasoningParts => {
                self.reasoning_parts = text(value);
            }
            EventField::WholeText => {
                self.marks.set(Marks::LAST);
                self.whole_text = text(value);
            }
            EventField::EndedText => self.whole_text = text(value),
            EventField::TokenIds => {
                if let JsonValue::Array(count, _) = value {
                    self.token_ids = Some(count);
                }
            }
            EventField::PromptTokens
            | EventField::CompletionTokens
            | EventField::TotalTokens
            | EventField::CachedTokens
            | EventField::PromptPart
            | EventField::CachedPart
            | EventField::ReasoningTokens => self.take_count(field, &value),
            EventField::EventType => self.event_type = text(value),
            EventField::Status => self.status = text(value),
            EventField::Prefill => self.timings.get_or_insert_default().prefill = span(&value),
            EventField::Decode => self.timings.get_or_insert_default().decode = span(&value),
            _ => self.take_mark(field, &value),
        }
    }

    fn take_text(&mut self, text: Option<Text<'a>>) {
        let is_known = self.text.as_ref().is_some_and(|known| !known.is_empty());
        if let Some(text) = text.filter(|text| !(is_known && text.is_empty())) {
            self.text = Some(text);
        }
    }

    fn take_count(&mut self, field: EventField, value: &JsonValue<'_>) {
        let JsonValue::Number(number) = value else { return };
        let Some(count) = whole_count(*number) else { return };
        let usage = self.usage.get_or_insert_default();
        match field {
            EventField::TotalTokens => self.total_tokens = Some(count),
            EventField::PromptTokens => usage.prompt_tokens = Some(count),
            EventField::CompletionTokens => usage.completion_tokens = Some(count),
            EventField::CachedTokens => usage.cached_tokens = Some(count),
            EventField::PromptPart | EventField::CachedPart => {
                let others = usage.prompt_tokens.unwrap_or(0);
                usage.prompt_tokens = Some(others.saturating_add(count));
                if matches!(field, EventField::CachedPart) {
                    usage.cached_tokens = Some(count);
                }
            }
            _ => usage.reasoning_tokens = Some(count),
        }
    }

    /// Adds the reasoning to the output tokens where the server counts it beside them, as xAI does. Its
    /// sum shows it: elsewhere the sum is that of prompt and output.
    pub(super) fn include_reasoning(&mut self) {
        let (Some(total), Some(usage)) = (self.total_tokens, &mut self.usage) else { return };
        let counts = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens);
        let (Some(prompt), Some(output), Some(reasoning @ 1..)) = counts else { return };
        if u64::from(total) == u64::from(prompt) + u64::from(output) + u64::from(reasoning) {
            usage.completion_tokens = Some(output + reasoning);
        }
    }

    fn take_mark(&mut self, field: EventField, value: &JsonValue<'_>) {
        let mark = match (field, value) {
            (EventField::Role, JsonValue::Text(_)) => Marks::ROLE,
            (EventField::ToolCalls, JsonValue::Array(1.., _))
            | (EventField::FunctionCall, JsonValue::Object { .. }) => Marks::TOOL_CALL,
            (EventField::ToolArguments, JsonValue::Text(part)) if !part.is_empty() => {
                Marks::TOOL_CALL
            }
            (EventField::Finish, JsonValue::Text(reason)) if is_no_reason(reason.as_bytes()) => {
                return;
            }
            (EventField::Finish, JsonValue::Text(reason)) if is_abort(reason.as_bytes()) => {
                Marks::FINISHED.and(Marks::ABORTED)
            }
            (EventField::Finish, _) => Marks::FINISHED,
            // Some servers have the field in every event and leave it empty.
            (EventField::Error, said) if said.is_nothing() => return,
            (EventField::Error, _) => Marks::ERROR,
            (EventField::ErrorCode, JsonValue::Number(code)) if !is_success_number(*code) => {
                Marks::ERROR
            }
            (EventField::ErrorCode, JsonValue::Text(code)) if !is_success_word(code.as_bytes()) => {
                Marks::ERROR
            }
            (EventField::Object, JsonValue::Text(kind)) if kind.is("error") => Marks::ERROR,
            (EventField::ChoiceIndex, JsonValue::Number(index)) if *index > 0.0 => Marks::FURTHER,
            (EventField::Last, JsonValue::Bool(true)) => Marks::LAST,
            (EventField::Special, JsonValue::Bool(true)) => Marks::SPECIAL,
            _ => return,
        };
        self.marks.set(mark);
    }
}
