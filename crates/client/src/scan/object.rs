//! What a dialect declares about the JSON of its answers: the keys that mean something, and where they stand.

use super::fields::Fields;
use super::marks::Marks;
use crate::dialect::Quirk;

/// A JSON object with keys that a dialect knows. All other keys are skipped.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) role: Role,
    pub(crate) keys: &'static [Key],
    /// What single servers add.
    pub(crate) quirks: &'static [Quirk<Key>],
}

/// What the presence of an object says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// A choice. Those behind the first of a list are read too.
    Choice,
    Finish,
    Usage,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    name: &'static str,
    pub(super) meaning: KeyUse,
}

/// What a key's value is used for.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyUse {
    /// An object with fields inside, or an array whose first element is one.
    Enter(&'static Object),
    Take(Field),
    /// An object with fields inside, or a plain value.
    EnterOrTake(&'static Object, Field),
}

/// The key's value is a field.
pub(crate) const fn take(name: &'static str, field: Field) -> Key {
    Key { name, meaning: KeyUse::Take(field) }
}

/// The key's value has fields inside.
pub(crate) const fn enter(name: &'static str, object: &'static Object) -> Key {
    Key { name, meaning: KeyUse::Enter(object) }
}

/// The key's value is a field, or an object with the field inside.
pub(crate) const fn enter_or_take(
    name: &'static str,
    object: &'static Object,
    field: Field,
) -> Key {
    Key { name, meaning: KeyUse::EnterOrTake(object, field) }
}

/// A field of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// Text of the answer, as a string or as a list of parts, which may hold reasoning and tool calls.
    Text,
    /// Text of the reasoning, likewise.
    Reasoning,
    /// The text of the whole response, in the event that ends it.
    WholeText,
    /// The text of a part that has ended, which its pieces had before.
    EndedText,
    Role,
    ToolCalls,
    /// A piece of a tool call's arguments.
    ToolArguments,
    Finish,
    Error,
    /// A name of the document, which may be `error`.
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
    EventType,
    Status,
    Prefill,
    Decode,
}

impl Object {
    /// `None` for a key that means nothing here.
    #[inline]
    pub(super) fn meaning(&self, name: &[u8]) -> Option<KeyUse> {
        let quirks = self.quirks.iter().map(|quirk| &quirk.rule);
        let mut keys = self.keys.iter().chain(quirks);
        keys.find(|key| key.name.as_bytes() == name).map(|key| key.meaning)
    }

    /// Called at the start of such an object.
    pub(super) fn begin(&self, fields: &mut Fields<'_>) {
        match self.role {
            Role::Plain => {}
            Role::Choice => fields.marks.set(Marks::CHOICE),
            Role::Finish => fields.marks.set(Marks::FINISHED),
            Role::Usage => drop(fields.usage.get_or_insert_default()),
        }
    }
}
