//! What a prefix cache may have of a prompt, from the names and lengths of its pieces alone.
//!
//! In: pieces of made text. Out: hashes of whole blocks for an engine's cache, and how much of a prompt
//! an unlimited cache would have. Needs no text and no tokenizer.

use std::collections::HashMap;

use tokometer_base::Seed;

use crate::session::{Answer, Piece, PieceName};
use crate::source::{PlannedPrompt, TurnPosition};

/// A stretch of a prompt by what its text depends on: equal names give equal text, a shorter one is the
/// beginning of a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedPiece {
    name: u64,
    tokens: u32,
}

impl NamedPiece {
    fn of(name: PieceName, tokens: u32) -> Self {
        let (stream, number) = name.source();
        Self { name: Seed(0).stream(stream).draw(number), tokens }
    }
}

impl PlannedPrompt {
    /// Its pieces, special tokens first. `None` where a piece is given text.
    pub fn named_pieces(&self) -> Option<Vec<NamedPiece>> {
        let specials = NamedPiece { name: 0, tokens: self.specials };
        let session = self.position.map_or(0, |position| position.session);
        let named = |piece: &Piece| match piece {
            Piece::Made { name, tokens } => Some(NamedPiece::of(*name, *tokens)),
            Piece::Answer(answer) => Some(NamedPiece::of(answer.name(session), answer.tokens)),
            Piece::Text(_) | Piece::Messages(_) | Piece::Given(_) => None,
        };
        std::iter::once(Some(specials)).chain(self.pieces.iter().map(named)).collect()
    }

    /// The answer of its turn, as later prompts that repeat the real answer name it.
    pub fn answer_piece(&self) -> Option<NamedPiece> {
        let TurnPosition { session, turn } = self.position?;
        let name = Answer::of(turn).name(session);
        self.output_tokens.map(|tokens| NamedPiece::of(name, tokens))
    }

    /// Whether a prompt with the same beginning may follow: one of a session, or with a shared piece.
    fn may_be_shared(&self) -> bool {
        let is_own =
            |piece: &Piece| matches!(piece, Piece::Made { name: PieceName::Content(_), .. });
        self.position.is_some() || !self.pieces.first().is_none_or(is_own)
    }
}

fn mixed(hash: u64, with: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = (hash ^ with).wrapping_mul(ODD);
    hash ^ hash >> 29
}

/// A hash per full block, each over everything before it: equal beginnings have equal hashes.
pub fn block_hashes(pieces: impl IntoIterator<Item = NamedPiece>, block: u32) -> Box<[u64]> {
    let block = block.max(1);
    let (mut hash, mut left, mut hashes) = (1, block, Vec::new());
    for NamedPiece { name, tokens } in pieces {
        let mut at = 0;
        while at < tokens {
            let taken = left.min(tokens - at);
            hash = mixed(mixed(hash, name), u64::from(at) << 32 | u64::from(taken));
            at += taken;
            left -= taken;
            if left == 0 {
                hashes.push(hash);
                left = block;
            }
        }
    }
    hashes.into()
}

/// Tokens of a block where a server does not say: vLLM's.
pub const USUAL_BLOCK: u32 = 16;

/// The beginnings of the prompts and answers so far, one entry per piece.
#[derive(Debug, Default)]
pub struct SeenPrefixes(HashMap<u64, u32>);

impl SeenPrefixes {
    /// Prompt tokens in whole blocks that earlier ones began with, and keeps the prompt, with its `answer`
    /// where later prompts repeat it. The last token of a prompt is always computed. `None` for given text.
    pub fn possible_tokens(
        &mut self,
        prompt: &PlannedPrompt,
        answer: Option<NamedPiece>,
        block: u32,
    ) -> Option<u32> {
        let pieces = prompt.named_pieces()?;
        if !prompt.may_be_shared() {
            return Some(0);
        }
        let all: u32 = pieces.iter().map(|piece| piece.tokens).sum();
        let shared = self.add(pieces.into_iter().chain(answer)).min(all.saturating_sub(1));
        Some(shared - shared % block.max(1))
    }

    /// Tokens that an earlier one began with.
    fn add(&mut self, pieces: impl Iterator<Item = NamedPiece>) -> u32 {
        let (mut before, mut shared, mut is_shared) = (1, 0, true);
        for NamedPiece { name, tokens } in pieces {
            let place = mixed(before, name);
            let longest = self.0.entry(place).or_default();
            if is_shared {
                shared += tokens.min(*longest);
                is_shared = *longest >= tokens;
            }
            *longest = tokens.max(*longest);
            before = mixed(place, u64::from(tokens));
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn prompt(pieces: &[(u64, u32)]) -> PlannedPrompt {
        let made = |(name, tokens): &(u64, u32)| Piece::Made {
            name: PieceName::Block(*name),
            tokens: *tokens,
        };
        PlannedPrompt { pieces: pieces.iter().map(made).collect(), ..PlannedPrompt::default() }
    }

    /// The text of a prompt, each token by its piece and its place in it.
    fn text(pieces: &[(u64, u32)]) -> Vec<(u64, u32)> {
        pieces.iter().flat_map(|(name, tokens)| (0..*tokens).map(|at| (*name, at))).collect()
    }

    proptest! {
        /// Names say of any prompts what their texts would say.
        #[test]
        fn names_share_blocks_as_texts_do(
            prompts in prop::collection::vec(prop::collection::vec((0_u64..3, 1_u32..9), 1..5), 1..12),
            block in 1_u32..6,
        ) {
            let (mut seen, mut texts) = (SeenPrefixes::default(), Vec::<Vec<(u64, u32)>>::new());
            let (mut hashes, mut blocks) = (HashSet::new(), HashSet::new());
            for pieces in &prompts {
                let (planned, text) = (prompt(pieces), text(pieces));
                let equal = |other: &Vec<(u64, u32)>| {
                    text.iter().zip(other).take_while(|(a, b)| a == b).count()
                };
                let shared = texts.iter().map(equal).max().unwrap_or(0).min(text.len() - 1);
                let expected = shared - shared % block as usize;
                let found = seen.possible_tokens(&planned, None, block).unwrap();
                prop_assert_eq!(found as usize, expected);
                let own = block_hashes(planned.named_pieces().unwrap(), block);
                prop_assert_eq!(own.len(), text.len() / block as usize);
                for (at, hash) in own.iter().enumerate() {
                    let is_new = blocks.insert(text[..(at + 1) * block as usize].to_vec());
                    prop_assert_eq!(hashes.insert(*hash), is_new);
                }
                texts.push(text);
            }
        }
    }

    #[test]
    fn a_turn_finds_the_answer_before_it_where_real_answers_are_repeated() {
        let content = |number| Piece::Made { name: PieceName::Content(number), tokens: 40 };
        let position = |turn| Some(TurnPosition { session: 7, turn });
        let first = PlannedPrompt {
            pieces: vec![content(1)],
            output_tokens: Some(20),
            position: position(0),
            ..PlannedPrompt::default()
        };
        let answer = Piece::Answer(Answer { turn: 0, tokens: 20 });
        let second = PlannedPrompt {
            pieces: vec![content(1), answer, content(2)],
            position: position(1),
            ..PlannedPrompt::default()
        };
        let found = |answer: Option<NamedPiece>| {
            let mut seen = SeenPrefixes::default();
            assert_eq!(seen.possible_tokens(&first, answer, 16), Some(0));
            seen.possible_tokens(&second, None, 16)
        };
        assert_eq!((found(first.answer_piece()), found(None)), (Some(48), Some(32)));
        let given = PlannedPrompt { pieces: vec![Piece::Text("a".into())], ..first.clone() };
        assert_eq!(SeenPrefixes::default().possible_tokens(&given, None, 16), None);
    }
}
