//! Prompts of any dataset as the turns of conversations.
//!
//! Conversation `s` takes one prompt of the dataset per turn. First turns have the lowest indexes,
//! then all second turns, and so on, so that a run begins with first turns; a conversation with few
//! turns is missing among the later ones.

use serde::Serialize;
use tokometer_base::seed::whole_between;
use tokometer_base::{Nanos, Seed};

use crate::{
    DatasetContext, DatasetNote, Error, History, Item, PlannedTurn, Result, Source, Spec,
    TurnPosition,
};

tokometer_base::partial! {
    #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
    pub struct Turns / PartialTurns {
        pub least: u32,
        pub most: u32,
        /// Milliseconds between an answer and the next question.
        pub think_ms: f64 = 0.0,
        /// Prompt length of later turns, for `random`; absent: as in the first.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub later_input_len: Option<u32> = None,
    }
}

/// The header by which a router recognises the conversation of a request.
pub(crate) const SESSION_HEADER: &str = "x-session-id";

pub(crate) struct ConversationSource {
    first: Box<dyn Source>,
    later: Option<Box<dyn Source>>,
    /// For each turn, the conversations that have it, in their order.
    levels: Vec<Vec<u64>>,
    think: Nanos,
}

impl ConversationSource {
    pub(crate) fn open(spec: &Spec, context: &DatasetContext, turns: &Turns) -> Result<Self> {
        let refused = |reason: String| Error::Options { dataset: spec.name(), reason };
        if turns.least == 0 || turns.least > turns.most {
            let Turns { least, most, .. } = turns;
            return Err(refused(format!(
                "conversations cannot have from {least} to {most} turns: the minimum must be at least 1 and not above the maximum"
            )));
        }
        if context.count == 0 {
            return Err(refused(
                "the number of conversations is unknown; set `--num-prompts`".into(),
            ));
        }
        let levels = levels(context.count, turns, context.seed);
        let total: usize = levels.iter().map(Vec::len).sum();
        let context = DatasetContext { count: total as u64, turns: None, ..context.clone() };
        let later = match (turns.later_input_len, spec) {
            (None, _) => None,
            (Some(input_len), Spec::Random(options)) => {
                let options = crate::datasets::random::Options { input_len, ..options.clone() };
                Some(Spec::Random(options).source(&context)?)
            }
            (Some(_), _) => {
                return Err(refused(
                    "only `random` supports a different length for later turns".into(),
                ));
            }
        };
        let think = Nanos::from_secs_f64(turns.think_ms.max(0.0) / 1e3);
        Ok(Self { first: spec.source(&context)?, later, levels, think })
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
}

fn levels(conversations: u64, turns: &Turns, seed: Seed) -> Vec<Vec<u64>> {
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

impl Source for ConversationSource {
    fn len(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64).sum()
    }

    fn item(&self, index: u64) -> Result<Item> {
        let (turn, session) = self.turn_at(index);
        let source =
            if turn == 0 { &self.first } else { self.later.as_ref().unwrap_or(&self.first) };
        let mut item = source.item(index)?;
        item.prompt.headers.push((SESSION_HEADER.to_owned(), session.to_string()));
        Ok(Item { after: Some(TurnPosition { session, turn, history: History::Added }), ..item })
    }

    fn session(&self, number: u64) -> Vec<PlannedTurn> {
        let mut before = 0;
        let indexes = self.levels.iter().map_while(|level| {
            let index = before + level.binary_search(&number).ok()? as u64;
            before += level.len() as u64;
            Some(index)
        });
        PlannedTurn::chain(indexes, self.think)
    }

    fn asks_tokenizer(&self) -> bool {
        self.first.asks_tokenizer()
            || self.later.as_ref().is_some_and(|later| later.asks_tokenizer())
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let (conversations, requests) = (self.levels[0].len(), self.len());
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
    use crate::open;
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

    const THREE: Turns = Turns { least: 3, most: 3, think_ms: 50.0, later_input_len: Some(8) };

    #[test]
    fn first_turns_come_first_and_each_waits_for_the_one_before() {
        let workload = workload(THREE).unwrap();
        assert_eq!(workload.len(), 12);
        let item = workload.item(1).unwrap();
        assert_eq!(item.after, Some(TurnPosition { session: 1, turn: 0, history: History::Added }));
        assert_eq!(item.prompt.prompt_tokens, Some(20));
        let item = workload.item(5).unwrap();
        assert_eq!(item.after, Some(TurnPosition { session: 1, turn: 1, history: History::Added }));
        assert_eq!(item.prompt.prompt_tokens, Some(8));
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
    fn turns_that_make_no_sense_are_refused() {
        assert!(workload(Turns { least: 0, ..THREE }).is_err());
        assert!(workload(Turns { least: 4, ..THREE }).is_err());
    }
}
