//! The tokens of a run, kept in bounded memory: whole stretches of time, evenly spaced.

use std::collections::BTreeMap;
use std::iter;
use std::ops::RangeInclusive;

use tokometer_base::Nanos;

/// Limit on the tokens kept of a run. A step's duration needs all its tokens, but not all steps are
/// needed.
const TOKENS_MAX: usize = 2_000_000;

/// Length of a stretch, below 2³² ns. Every second, fourth, eighth stretch is kept when there are too
/// many tokens.
const STRETCH: Nanos = Nanos::from_secs(4);

/// Tokens are stored in lists of this many. Lists that grow as they are filled would leave holes in the
/// heap, which take more memory than the tokens.
const LIST_LENGTH: usize = 512;

#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) at: Nanos,
    /// Nanoseconds since the previous token of its stream, at most 4 s; zero marks a first token.
    pub(super) gap: u32,
    pub(super) context: u32,
}

/// The same in 12 bytes, because there are many. Tokens of one read stand together.
#[derive(Debug, Clone, Copy)]
struct PackedToken {
    /// Nanoseconds since its stretch began.
    offset: u32,
    gap: u32,
    /// Context of the first token, and in the upper byte the number of tokens after it that differ only
    /// in their context, which grows by one.
    context_and_more: u32,
}

/// Largest context that is kept; no model has a longer one.
const CONTEXT_MAX: u32 = (1 << 24) - 1;

impl PackedToken {
    fn new(offset: u32, gap: u32, context: u32) -> Self {
        Self { offset, gap, context_and_more: context.min(CONTEXT_MAX) }
    }

    fn context(self) -> u32 {
        self.context_and_more & CONTEXT_MAX
    }

    fn more(self) -> u32 {
        self.context_and_more >> 24
    }

    /// Adds a token that differs only in its context. False where it differs otherwise.
    fn extend(&mut self, offset: u32, gap: u32, context: u32) -> bool {
        let is_next = self.context() + self.more() + 1 == context && self.more() < 255;
        let is_alike = (self.offset, self.gap) == (offset, gap) && is_next;
        self.context_and_more += if is_alike { 1 << 24 } else { 0 };
        is_alike
    }

    fn gaps(self) -> impl Iterator<Item = u32> {
        iter::repeat_n(self.gap, self.more() as usize + 1)
    }

    /// The tokens of a stretch that begins at `begin`.
    fn tokens(self, begin: Nanos) -> impl Iterator<Item = Token> {
        let (at, gap) = (begin + Nanos(self.offset.into()), self.gap);
        let contexts = self.context()..=self.context() + self.more();
        contexts.map(move |context| Token { at, gap, context })
    }
}

/// The number of the stretch that a time lies in.
pub(super) fn stretch(at: Nanos) -> u64 {
    at.0 / STRETCH.0
}

#[derive(Debug, Clone)]
pub(super) struct Stretches {
    /// By number of the stretch, in the order of arrival.
    tokens: BTreeMap<u64, Vec<Vec<PackedToken>>>,
    count: usize,
    /// Every `stride`-th stretch is kept, counted from `base`.
    stride: u64,
    base: Option<u64>,
    tokens_max: usize,
}

impl Default for Stretches {
    fn default() -> Self {
        Self::of_at_most(TOKENS_MAX)
    }
}

impl Stretches {
    pub(super) fn of_at_most(tokens_max: usize) -> Self {
        Self { tokens: BTreeMap::new(), count: 0, stride: 1, base: None, tokens_max }
    }

    /// One in this many stretches is kept.
    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// Keeps a token if its stretch is kept.
    pub(super) fn add(&mut self, Token { at, gap, context }: Token) {
        let stretch = stretch(at);
        self.base.get_or_insert(stretch);
        if self.keeps(stretch) {
            let offset = u32::try_from(at.0 % STRETCH.0).unwrap_or(u32::MAX);
            let lists = self.tokens.entry(stretch).or_default();
            self.count += 1;
            let last = lists.last_mut().and_then(|list| list.last_mut());
            if last.is_some_and(|last| last.extend(offset, gap, context)) {
                return;
            }
            if lists.last().is_none_or(|list| list.len() == LIST_LENGTH) {
                lists.push(Vec::with_capacity(LIST_LENGTH));
            }
            if let Some(list) = lists.last_mut() {
                list.push(PackedToken::new(offset, gap, context));
            }
        }
    }

    /// Counted from the first token, so that one stretch always is kept.
    fn keeps(&self, stretch: u64) -> bool {
        stretch.abs_diff(self.base.unwrap_or(0)).is_multiple_of(self.stride)
    }

    /// Whether one of these is kept.
    pub(super) fn keeps_one_of(&self, mut stretches: RangeInclusive<u64>) -> bool {
        stretches.any(|stretch| self.keeps(stretch))
    }

    pub(super) fn is_full(&self) -> bool {
        self.count > self.tokens_max
    }

    pub(super) fn thin(&mut self) {
        self.stride *= 2;
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.retain(|stretch, _| self.keeps(*stretch));
        self.tokens = tokens;
        self.count = self.gaps().count();
        // All tokens may lie in one stretch, which is then kept.
        self.tokens_max = self.tokens_max.max(self.count * 2);
    }

    /// The gaps of all tokens, in any order.
    pub(super) fn gaps(&self) -> impl Iterator<Item = u32> + '_ {
        self.tokens.values().flatten().flatten().flat_map(|token| token.gaps())
    }

    /// The tokens in order, by groups of stretches that follow each other. Between two groups at least
    /// one stretch is missing. Each group is unpacked when it is asked for.
    pub(super) fn into_groups(self) -> impl Iterator<Item = Vec<Token>> {
        let mut stretches = self.tokens.into_iter().peekable();
        iter::from_fn(move || {
            let mut tokens = Vec::new();
            let mut next = stretches.peek()?.0;
            while let Some((stretch, packed)) = stretches.next_if(|(at, _)| *at == next) {
                let begin = Nanos(stretch * STRETCH.0);
                let from = tokens.len();
                tokens.extend(packed.iter().flatten().flat_map(|token| token.tokens(begin)));
                tokens[from..].sort_by_key(|token| token.at);
                next += 1;
            }
            Some(tokens)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens of one read are stored together, and come back one by one.
    #[test]
    fn tokens_that_stand_together_are_not_lost() {
        let at = |millis: u64| Nanos::from_millis(millis);
        let token = |at: Nanos, gap: u32, context: u32| Token { at, gap, context };
        let mut given = vec![token(at(1), 0, 10), token(at(9), 8_000_000, 11)];
        given.extend((12..700).map(|context| token(at(9), 1, context)));
        // Another stream at the same time, and a context that does not follow.
        given.extend([token(at(9), 1, 5), token(at(9), 1, 7), token(at(5_000), 1, 8)]);
        let mut stretches = Stretches::default();
        for token in &given {
            stretches.add(*token);
        }
        assert!(stretches.tokens.values().flatten().map(Vec::len).sum::<usize>() < 10);
        assert_eq!(stretches.gaps().count(), given.len());
        let found: Vec<_> = stretches.into_groups().flatten().collect();
        let key = |token: &Token| (token.at, token.gap, token.context);
        assert_eq!(
            found.iter().map(key).collect::<Vec<_>>(),
            given.iter().map(key).collect::<Vec<_>>()
        );
    }
}
