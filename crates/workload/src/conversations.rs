//! Prompts of any dataset as the turns of conversations.
//!
//! Conversation `s` takes one prompt of the dataset per turn, and repeats those of its earlier turns
//! with their answers. First turns have the lowest indexes, then all second turns, and so on, so that
//! a run begins with first turns; a conversation with few turns is missing among the later ones.

use tokometer_base::seed::whole_between;
use tokometer_base::{Nanos, Seed};

use crate::session::{Answer, Piece, PieceName};
use crate::source::SESSION_HEADER;
use crate::{DatasetNote, PlannedPrompt, PlannedTurn, Result, Source, TurnPosition, Turns};

pub(crate) struct Conversations {
    first: Box<dyn Source>,
    later: Option<Box<dyn Source>>,
    /// For each turn, the conversations that have it, in their order.
    levels: Vec<Vec<u64>>,
    turns: Turns,
}

impl Conversations {
    /// `later` has the prompts of later turns; without it, `first` has all.
    pub(crate) fn new(
        first: Box<dyn Source>,
        later: Option<Box<dyn Source>>,
        levels: Vec<Vec<u64>>,
        turns: Turns,
    ) -> Self {
        Self { first, later, levels, turns }
    }

    /// The turn and the conversation of an index. Beyond the last, conversations repeat.
    fn turn_at(&self, index: u64) -> (u32, u64) {
        let mut left = index % self.len().max(1);
        for (turn, level) in (0..).zip(&self.levels) {
            match usize::try_from(left).ok().and_then(|at| level.get(at)) {
                Some(session) => return (turn, *session),
                None => left -= level.len() as u64,
            }
        }
        (0, 0)
    }

    /// The prompt of a turn alone.
    fn own(&self, turn: u32, index: u64) -> Result<PlannedPrompt> {
        self.later.as_ref().filter(|_| turn > 0).unwrap_or(&self.first).prompt(index)
    }

    fn think(&self) -> Nanos {
        Nanos::from_secs_f64(self.turns.think_ms.max(0.0) / 1e3)
    }

    /// The pieces of a turn with its beginning replaced by what all turns and those of its
    /// conversation have in common.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of a u32")]
    fn shared(&self, pieces: Vec<Piece>, session: u64) -> Vec<Piece> {
        let all: u32 = pieces.iter().filter_map(Piece::tokens).sum();
        let of = |share: f64| (f64::from(all) * share) as u32;
        let common = of(self.turns.global_ratio);
        let own = of(self.turns.conversation_ratio).min(all - common);
        let shared = [(PieceName::Prefix(1), common), (PieceName::Prefix(2 + session), own)];
        // What is its own stands last.
        let rest = pieces.into_iter().next_back().map(|piece| match piece {
            Piece::Made { name, .. } => (name, all - common - own),
            _ => (PieceName::Prefix(0), 0),
        });
        let pieces = shared.into_iter().chain(rest).filter(|(_, tokens)| *tokens > 0);
        pieces.map(|(name, tokens)| Piece::Made { name, tokens }).collect()
    }

    /// The index of each turn of a conversation.
    fn indexes(&self, session: u64) -> impl Iterator<Item = u64> {
        let mut before = 0;
        self.levels.iter().map_while(move |level| {
            let index = before + level.binary_search(&session).ok()? as u64;
            before += level.len() as u64;
            Some(index)
        })
    }
}

/// For each turn, the conversations that have it, in their order.
pub(crate) fn levels(conversations: u64, turns: &Turns, seed: Seed) -> Vec<Vec<u64>> {
    let mut levels = vec![Vec::new(); turns.most as usize];
    let stream = seed.stream("turns");
    for session in 0..conversations {
        let drawn = whole_between(&mut stream.at(session), turns.least.into(), turns.most.into());
        for level in levels.iter_mut().take(usize::try_from(drawn).unwrap_or(1)) {
            level.push(session);
        }
    }
    levels
}

impl Source for Conversations {
    fn len(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64).sum()
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let (turn, session) = self.turn_at(index);
        let mut planned = self.own(turn, index)?;
        let mut history = Vec::new();
        let repeated = if self.turns.are_alone() { 0 } else { turn };
        if self.turns.are_alone() {
            planned.pieces = self.shared(planned.pieces, session);
        }
        for (earlier, index) in (0..repeated).zip(self.indexes(session)) {
            let PlannedPrompt { pieces, output_tokens, specials, .. } = self.own(earlier, index)?;
            history.extend(pieces);
            history
                .push(Piece::Answer(Answer { turn: earlier, tokens: output_tokens.unwrap_or(1) }));
            planned.specials = specials;
        }
        history.append(&mut planned.pieces);
        planned.headers.push((SESSION_HEADER.to_owned(), session.to_string()));
        let position = Some(TurnPosition { session, turn });
        Ok(PlannedPrompt { pieces: history, position, ..planned })
    }

    fn sessions(&self) -> u64 {
        self.levels.first().map_or(0, |level| level.len() as u64)
    }

    fn session(&self, number: u64) -> Vec<PlannedTurn> {
        PlannedTurn::chain(self.indexes(number), self.think())
    }

    fn asks_tokenizer(&self) -> bool {
        self.first.asks_tokenizer()
            || self.later.as_ref().is_some_and(|later| later.asks_tokenizer())
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let (conversations, requests) = (self.sessions(), self.len());
        let text = format!("{conversations} conversations make {requests} requests");
        let mut notes = self.first.notes();
        notes.push(DatasetNote::new("conversations", text));
        notes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{DatasetContext, Spec, open};
    use tokometer_base::Conventions;
    use tokometer_tokenize::{BuiltIn, Encoding};

    fn workload(turns: Turns) -> Result<crate::Workload> {
        let tokenizer = Arc::new(BuiltIn::new(Encoding::Cl100k));
        let spec = Spec::defaults("random", Conventions::Vllm).unwrap();
        let Spec::Random(options) = spec else { panic!("not random") };
        let options = crate::datasets::random::Options { input_len: 20, output_len: 5, ..options };
        let context =
            DatasetContext { turns: Some(turns), ..DatasetContext::new(tokenizer, Seed(1), 4) };
        open(&Spec::Random(options), &context)
    }

    const THREE: Turns = Turns { think_ms: 50.0, later_input_len: Some(8), ..Turns::exactly(3) };

    #[test]
    fn first_turns_come_first_and_each_waits_for_the_one_before() {
        let workload = workload(THREE).unwrap();
        assert_eq!(workload.len(), 12);
        let item = workload.item(1).unwrap();
        assert_eq!(item.after, Some(TurnPosition { session: 1, turn: 0 }));
        assert_eq!(item.prompt.prompt_tokens, Some(20));
        let item = workload.item(5).unwrap();
        assert_eq!(item.after, Some(TurnPosition { session: 1, turn: 1 }));
        assert_eq!(item.prompt.prompt_tokens, Some(20 + 5 + 8));
        let turns = workload.session(1);
        assert_eq!(turns, PlannedTurn::chain([1, 5, 9], Nanos::from_millis(50)));
        assert_eq!((turns[0].waits_for.len(), &*turns[2].waits_for), (0, &[1][..]));
        assert!(workload.session(4).is_empty());
        assert_eq!(item.prompt.headers, [("x-session-id".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn conversations_of_different_lengths_end_at_their_own_turn() {
        let workload = workload(Turns { least: 1, most: 6, ..THREE }).unwrap();
        let mut seen = Vec::new();
        for session in 0..4 {
            for turn in workload.session(session) {
                assert_eq!(workload.item(turn.index).unwrap().after.unwrap().session, session);
                seen.push(turn.index);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..workload.len()).collect::<Vec<_>>(), "every request once");
        assert!((5..24).contains(&workload.len()));
    }

    #[test]
    fn a_later_turn_repeats_real_or_made_answers() {
        let workload = workload(THREE).unwrap();
        let text = |item: crate::Item| match item.prompt.content {
            tokometer_base::PromptContent::Text(text) => text,
            other => panic!("{other:?}"),
        };
        let [first, made] = [0, 4].map(|index| workload.item(index).unwrap());
        let real = workload.item_after(4, &[Some(" Because.".to_owned())]).unwrap();
        assert_eq!(real.prompt.prompt_tokens, None, "only the server can count it");
        let (first, made, real) = (text(first), text(made), text(real));
        assert!(made.starts_with(&first));
        assert!(real.starts_with(&format!("{first} Because.\n\n")), "{real}");
    }

    #[test]
    fn turns_with_shared_shares_repeat_nothing_else() {
        let turns =
            Turns { global_ratio: 0.25, conversation_ratio: 0.5, later_input_len: None, ..THREE };
        let workload = workload(turns).unwrap();
        let names = |index| {
            let pieces = workload.planned(index).unwrap().pieces;
            let of = |piece: &Piece| match piece {
                Piece::Made { name, tokens } => (*name, *tokens),
                other => panic!("{other:?}"),
            };
            pieces.iter().map(of).collect::<Vec<_>>()
        };
        let [first, same, other] = [0, 4, 1].map(names);
        assert_eq!(first.iter().map(|(_, tokens)| *tokens).collect::<Vec<_>>(), [5, 10, 5]);
        assert_eq!((&first[..2], first[0]), (&same[..2], other[0]));
        assert!(first[2] != same[2] && first[1] != other[1]);
        assert_eq!(workload.session(0)[1].waits_for, [0]);
    }

    #[test]
    fn turns_that_make_no_sense_are_refused() {
        assert!(workload(Turns { least: 0, ..THREE }).is_err());
        assert!(workload(Turns { least: 4, ..THREE }).is_err());
    }
}
