//! What a dialect declares about the JSON of its answers: the keys that mean something, and what stands below them.
//! All other keys are skipped.

use super::fields::Fields;
use super::marks::Marks;
use crate::quirk::Quirk;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    name: &'static str,
    meaning: KeyUse,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum KeyUse {
    /// An object with fields inside, or an array whose first element is one.
    Enter(ObjectRole, &'static [Key]),
    Take(Field),
    EnterOrTake(&'static [Key], Field),
    /// No key: what single servers add to this object.
    Quirks(&'static [Quirk<Key>]),
}

/// What the presence of an object says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectRole {
    Plain,
    /// A choice. Those behind the first of a list are read too.
    Choice,
    Finish,
    Usage,
}

pub(crate) const fn take(name: &'static str, field: Field) -> Key {
    Key { name, meaning: KeyUse::Take(field) }
}

pub(crate) const fn enter(name: &'static str, keys: &'static [Key]) -> Key {
    Key { name, meaning: KeyUse::Enter(ObjectRole::Plain, keys) }
}

pub(crate) const fn choices(name: &'static str, keys: &'static [Key]) -> Key {
    Key { name, meaning: KeyUse::Enter(ObjectRole::Choice, keys) }
}

pub(crate) const fn usage(name: &'static str, keys: &'static [Key]) -> Key {
    Key { name, meaning: KeyUse::Enter(ObjectRole::Usage, keys) }
}

/// The key's value is a finish reason, or an object with the reason inside.
pub(crate) const fn finish(name: &'static str, keys: &'static [Key]) -> Key {
    Key { name, meaning: KeyUse::EnterOrTake(keys, Field::Finish) }
}

pub(crate) const fn also(quirks: &'static [Quirk<Key>]) -> Key {
    Key { name: "", meaning: KeyUse::Quirks(quirks) }
}

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

/// The use of the key `name` among `keys`. `None` for a key that means nothing there.
#[inline]
pub(super) fn meaning(keys: &[Key], name: &[u8]) -> Option<KeyUse> {
    for key in keys {
        if let KeyUse::Quirks(quirks) = key.meaning {
            let mut keys = quirks.iter().map(|quirk| &quirk.rule);
            return keys.find(|key| key.name.as_bytes() == name).map(|key| key.meaning);
        }
        if key.name.as_bytes() == name {
            return Some(key.meaning);
        }
    }
    None
}

impl ObjectRole {
    /// Called at the start of such an object.
    pub(super) fn begin(self, fields: &mut Fields<'_>) {
        match self {
            Self::Plain => {}
            Self::Choice => fields.marks.set(Marks::CHOICE),
            Self::Finish => fields.marks.set(Marks::FINISHED),
            Self::Usage => drop(fields.usage.get_or_insert_default()),
        }
    }
}
