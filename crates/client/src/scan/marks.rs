//! Boolean facts about an event, in one word.

/// A set of boolean facts about an event or a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(u32);

impl Marks {
    /// It has an entry in `choices`, or the protocol's equivalent.
    pub(crate) const CHOICE: Self = Self(1);
    pub(crate) const ROLE: Self = Self(1 << 1);
    /// A choice has a part of a tool call.
    pub(crate) const TOOL_CALL: Self = Self(1 << 2);
    pub(crate) const FINISHED: Self = Self(1 << 3);
    pub(crate) const ERROR: Self = Self(1 << 4);
    pub(crate) const LAST: Self = Self(1 << 5);
    /// Its token is a special token, which is not part of the text.
    pub(crate) const SPECIAL: Self = Self(1 << 6);
    pub(crate) const CONTENT: Self = Self(1 << 7);
    /// The end mark, such as `[DONE]`, has been seen.
    pub(crate) const DONE: Self = Self(1 << 8);
    /// Its finish reason reports a failure.
    pub(crate) const ABORTED: Self = Self(1 << 9);
    pub(crate) const FURTHER: Self = Self(1 << 10);
    /// Its type stands only in the event's name, so that its data alone does not say what it means.
    pub(crate) const TYPED_BY_NAME: Self = Self(1 << 11);
    /// It may name a tool call whose arguments follow, without being content.
    pub(crate) const NAMES_CALL: Self = Self(1 << 12);
    /// Its text is that of a part that came without pieces.
    pub(crate) const WHOLE_PART: Self = Self(1 << 13);
    /// It has new tokens as ids, and no text.
    pub(crate) const ONLY_IDS: Self = Self(1 << 14);
    /// Its text is all text so far.
    pub(crate) const CUMULATIVE: Self = Self(1 << 15);

    pub(crate) const fn has(self, marks: Self) -> bool {
        self.0 & marks.0 == marks.0
    }

    /// Whether a mark outside of `marks` is set.
    pub(crate) const fn has_beyond(self, marks: Self) -> bool {
        self.0 & !marks.0 != 0
    }

    pub(crate) const fn and(self, marks: Self) -> Self {
        Self(self.0 | marks.0)
    }

    pub(crate) fn set(&mut self, marks: Self) {
        self.0 |= marks.0;
    }
}
