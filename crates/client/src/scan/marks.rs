//! Boolean facts about an event, in one word.

/// A set of boolean facts about an event or a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks(u16);

impl Marks {
    /// It has an entry in `choices`, or the protocol's equivalent.
    pub const CHOICE: Self = Self(1);
    /// A choice has a role.
    pub const ROLE: Self = Self(1 << 1);
    /// A choice has a part of a tool call.
    pub const TOOL_CALL: Self = Self(1 << 2);
    /// It has a finish reason.
    pub const FINISHED: Self = Self(1 << 3);
    /// It has an error object or message.
    pub const ERROR: Self = Self(1 << 4);
    /// It is marked as the last event.
    pub const LAST: Self = Self(1 << 5);
    /// Its token is a special token, which is not part of the text.
    pub const SPECIAL: Self = Self(1 << 6);
    /// Content has been seen.
    pub const CONTENT: Self = Self(1 << 7);
    /// The end mark, such as `[DONE]`, has been seen.
    pub const DONE: Self = Self(1 << 8);
    /// Its finish reason reports a failure.
    pub const ABORTED: Self = Self(1 << 9);
    /// Its choice is not the first one.
    pub const FURTHER: Self = Self(1 << 10);
    /// A choice has a `delta`.
    pub const INCREMENT: Self = Self(1 << 11);
    /// A choice has a `message` and no `delta`.
    pub const MESSAGE: Self = Self(1 << 12);
    /// Its type stands only in the event's name, so that its data alone does not say what it means.
    pub const TYPED_BY_NAME: Self = Self(1 << 13);

    /// Whether all of `marks` are set.
    pub fn has(self, marks: Self) -> bool {
        self.0 & marks.0 == marks.0
    }

    /// Whether a mark outside of `marks` is set.
    pub fn has_beyond(self, marks: Self) -> bool {
        self.0 & !marks.0 != 0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, marks: Self) -> Self {
        Self(self.0 | marks.0)
    }

    pub(super) fn clear(&mut self, marks: Self) {
        self.0 &= !marks.0;
    }

    /// Adds `marks` to the set.
    pub fn set(&mut self, marks: Self) {
        self.0 |= marks.0;
    }
}
