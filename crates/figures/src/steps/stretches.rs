//! The tokens of a run, kept in bounded memory: whole stretches of time, evenly spaced.

use std::collections::BTreeMap;
use std::iter;
use std::ops::RangeInclusive;

use tokometer_base::Nanos;

/// Limit on the tokens kept of a run. A step's duration needs all its tokens, but not all steps are
/// needed.
const TOKENS_MAX: usize = 2_000_000;

/// Length of a stretch. Every second, fourth, eighth stretch is kept when there are too
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

impl Token {
    /// Whether it is the first of its stream since `begin`.
    pub(super) fn is_new_since(&self, begin: Nanos) -> bool {
        self.gap == 0 || self.at.saturating_sub(Nanos(self.gap.into())) < begin
    }
}

/// The number of the stretch that a time lies in.
pub(super) fn stretch(at: Nanos) -> u64 {
    at.0 / STRETCH.0
}

#[derive(Debug, Clone)]
pub(super) struct Stretches {
    /// By number of the stretch, in the order of arrival.
    tokens: BTreeMap<u64, Vec<Vec<Token>>>,
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

    pub(super) fn add(&mut self, token: Token) {
        let stretch = stretch(token.at);
        self.base.get_or_insert(stretch);
        if self.keeps(stretch) {
            let lists = self.tokens.entry(stretch).or_default();
            self.count += 1;
            if lists.last().is_none_or(|list| list.len() == LIST_LENGTH) {
                lists.push(Vec::with_capacity(LIST_LENGTH));
            }
            if let Some(list) = lists.last_mut() {
                list.push(token);
            }
        }
    }

    /// Counted from the first token, so that one stretch always is kept.
    fn keeps(&self, stretch: u64) -> bool {
        stretch.abs_diff(self.base.unwrap_or(0)).is_multiple_of(self.stride)
    }

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
        self.tokens.values().flatten().flatten().map(|token| token.gap)
    }

    /// The tokens in order, by groups of stretches that follow each other. Between two groups at least
    /// one stretch is missing.
    pub(super) fn into_groups(self) -> impl Iterator<Item = Vec<Token>> {
        let mut stretches = self.tokens.into_iter().peekable();
        iter::from_fn(move || {
            let mut tokens = Vec::new();
            let mut next = stretches.peek()?.0;
            while let Some((_, lists)) = stretches.next_if(|(at, _)| *at == next) {
                let from = tokens.len();
                tokens.extend(lists.into_iter().flatten());
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

    #[test]
    fn tokens_come_back_in_order() {
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
        assert_eq!(stretches.gaps().count(), given.len());
        let found: Vec<_> = stretches.into_groups().flatten().collect();
        let key = |token: &Token| (token.at, token.gap, token.context);
        assert_eq!(
            found.iter().map(key).collect::<Vec<_>>(),
            given.iter().map(key).collect::<Vec<_>>()
        );
    }
}
