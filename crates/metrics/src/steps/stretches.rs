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

/// One content event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) at: Nanos,
    /// Nanoseconds since the previous token of its stream, at most 4 s; zero marks a first token.
    pub(super) gap: u32,
    pub(super) context: u32,
}

/// The same in 12 bytes, because there are many.
#[derive(Debug, Clone, Copy)]
struct PackedToken {
    /// Nanoseconds since its stretch began.
    offset: u32,
    gap: u32,
    context: u32,
}

/// The number of the stretch that a time lies in.
pub(super) fn stretch(at: Nanos) -> u64 {
    at.0 / STRETCH.0
}

/// Tokens by stretch.
#[derive(Debug, Clone)]
pub(super) struct Stretches {
    /// By number of the stretch, in the order of arrival.
    tokens: BTreeMap<u64, Vec<Vec<PackedToken>>>,
    /// Tokens in all stretches.
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
            if lists.last().is_none_or(|list| list.len() == LIST_LENGTH) {
                lists.push(Vec::with_capacity(LIST_LENGTH));
            }
            if let Some(list) = lists.last_mut() {
                list.push(PackedToken { offset, gap, context });
            }
            self.count += 1;
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

    /// Whether there are more tokens than allowed.
    pub(super) fn is_full(&self) -> bool {
        self.count > self.tokens_max
    }

    /// Drops every second stretch.
    pub(super) fn thin(&mut self) {
        self.stride *= 2;
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.retain(|stretch, _| self.keeps(*stretch));
        self.tokens = tokens;
        self.count = self.tokens.values().flatten().map(Vec::len).sum();
        // All tokens may lie in one stretch, which is then kept.
        self.tokens_max = self.tokens_max.max(self.count * 2);
    }

    /// The gaps of all tokens, in any order.
    pub(super) fn gaps(&self) -> impl Iterator<Item = u32> + '_ {
        self.tokens.values().flatten().flatten().map(|token| token.gap)
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
                tokens.extend(packed.iter().flatten().map(|token| Token {
                    at: begin + Nanos(token.offset.into()),
                    gap: token.gap,
                    context: token.context,
                }));
                tokens[from..].sort_by_key(|token| token.at);
                next += 1;
            }
            Some(tokens)
        })
    }
}
