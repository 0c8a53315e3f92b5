//! What is asked, as people and programs ask it: sessions of turns that wait for one another.
//!
//! In: turns in any order, as a dataset or the reader of a trace has them. Out: a [`Session`] whose
//! turns stand behind all turns that they wait for. A prompt is a list of pieces without text, so
//! that lengths, shared prefixes and block hashes are known before any text is made. Knows nothing
//! of tokenizers, files or servers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};
use tokometer_base::{Message, Nanos, PromptContent};

/// The turns of one user or one program. A single request is a session of one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unordered")]
pub struct Session {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Box<str>>,
    /// When its first turns are due, counted from the start of the run or of the trace. `None`
    /// leaves it to the arrivals.
    #[serde(rename = "start_ns", skip_serializing_if = "Option::is_none")]
    pub start: Option<Nanos>,
    turns: Vec<Turn>,
}

/// A session as a file has it, before its graph is known to be sound.
#[derive(Deserialize)]
struct Unordered {
    class: Option<Box<str>>,
    #[serde(rename = "start_ns")]
    start: Option<Nanos>,
    turns: Vec<Turn>,
}

/// One request of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    /// The whole prompt, history included.
    pub pieces: Vec<Piece>,
    /// `None` leaves the length to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_tokens: Option<u32>,
    /// Turns that must have ended before, beside those whose answers it repeats.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<u32>,
    /// From the end of the last turn that it waits for; for a first turn from the session's start.
    #[serde(rename = "delay_ns")]
    pub delay: Nanos,
    /// The session id on the wire where it differs from the session's: that of a sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedTimes>,
    /// The recorded answer, where its text is known.
    #[serde(skip)]
    pub answer: Option<Box<Message>>,
    /// A JSON object that is merged into the body of the request.
    #[serde(skip)]
    pub extra_body: Option<Box<str>>,
}

/// A stretch of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Equal names give equal text; a shorter one is the beginning of a longer one.
    Made {
        name: PieceName,
        tokens: u32,
    },
    Text(Box<str>),
    Messages(Vec<Message>),
    /// The answer of an earlier turn, real or made.
    Answer(Answer),
    /// Content of a dataset that is not made of pieces.
    #[serde(skip)]
    Given(Box<Given>),
}

/// The answer of a turn in a later prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Answer {
    pub turn: u32,
    /// The length asked for; [`Session::new`] knows it. 1 where the server decides.
    pub tokens: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub content: PromptContent,
    /// `None` where only a tokenizer or the server knows.
    pub tokens: Option<u32>,
    /// The length it was to have; `None` for content that is taken as it is.
    pub asked: Option<u32>,
}

impl Answer {
    pub fn of(turn: u32) -> Self {
        Self { turn, tokens: 1 }
    }

    /// What its made text depends on.
    pub fn name(self, session: u64) -> PieceName {
        PieceName::Answer(session << 32 | u64::from(self.turn))
    }
}

impl From<u32> for Answer {
    fn from(turn: u32) -> Self {
        Self::of(turn)
    }
}

impl From<Answer> for u32 {
    fn from(answer: Answer) -> Self {
        answer.turn
    }
}

/// What the text of a made piece depends on, beside the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceName {
    /// Text of one prompt alone.
    Content(u64),
    /// Text that prompts of a group begin with.
    Prefix(u64),
    /// A block of a trace, by its hash id. Readers mix the session into ids that are local to it.
    Block(u64),
    /// The answer of a turn whose text was not recorded.
    Answer(u64),
}

/// When a recorded turn happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordedTimes {
    /// When it was sent, from the start of its session.
    #[serde(rename = "sent_ns")]
    pub sent: Nanos,
    /// From its start to the end of its answer.
    #[serde(rename = "duration_ns", default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Nanos>,
    #[serde(rename = "ttft_ns", default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<Nanos>,
}

/// Why turns make no session. Turns are numbered from 0, as they were handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GraphFault {
    #[error("a session needs at least one turn")]
    Empty,
    #[error("turn {turn} waits for turn {parent}, which does not exist")]
    UnknownParent { turn: usize, parent: u32 },
    #[error("turn {turn} waits for itself, directly or through other turns")]
    Cycle { turn: usize },
}

impl GraphFault {
    /// The turn to blame, by which the reader of a file finds the row.
    pub fn turn(self) -> usize {
        match self {
            Self::Empty => 0,
            Self::UnknownParent { turn, .. } | Self::Cycle { turn } => turn,
        }
    }
}

impl Session {
    /// A session of these turns, each moved behind all that it waits for.
    pub fn new(turns: Vec<Turn>) -> Result<Self, GraphFault> {
        let order = order(&turns)?;
        let turns = if order.is_sorted() { turns } else { reordered(turns, &order) };
        let mut session = Self { class: None, start: None, turns };
        session.know_answers();
        Ok(session)
    }

    /// Gives each repeated answer the length of the answer.
    pub(crate) fn know_answers(&mut self) {
        let length = |turn: &Turn| turn.answer_tokens.unwrap_or(1);
        let lengths: Vec<_> = self.turns.iter().map(length).collect();
        for piece in self.turns.iter_mut().flat_map(|turn| &mut turn.pieces) {
            if let Piece::Answer(answer) = piece {
                answer.tokens = lengths[answer.turn as usize];
            }
        }
    }

    /// In an order in which every turn stands behind all turns that it waits for.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// From its start to the end of its last answer, when it was recorded. `None` where a turn that may
    /// have been the last has no times.
    pub fn recorded_length(&self) -> Option<Nanos> {
        let times = || self.turns.iter().filter_map(|turn| turn.recorded);
        let last_sent = times().map(|times| times.sent).max()?;
        let ends = times().filter_map(|times| Some(times.sent + times.duration?));
        ends.max().filter(|end| *end >= last_sent)
    }

    /// Leaves out the turns behind the first `most`; none of those that stay waits for them.
    pub(crate) fn truncate(&mut self, most: usize) {
        self.turns.truncate(most.max(1));
    }

    pub(crate) fn turns_mut(&mut self) -> impl Iterator<Item = &mut Turn> {
        self.turns.iter_mut()
    }

    /// The pieces of all prompts. Which answers they repeat is to stay as it is.
    pub(crate) fn pieces_mut(&mut self) -> impl Iterator<Item = &mut Piece> {
        self.turns.iter_mut().flat_map(|turn| &mut turn.pieces)
    }
}

impl TryFrom<Unordered> for Session {
    type Error = GraphFault;

    fn try_from(file: Unordered) -> Result<Self, GraphFault> {
        Ok(Self { class: file.class, start: file.start, ..Self::new(file.turns)? })
    }
}

impl Turn {
    /// The turns that must have ended before this one is due. May name a turn twice.
    pub fn waits_for(&self) -> impl Iterator<Item = u32> {
        let answers = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Answer(answer) => Some(answer.turn),
            _ => None,
        });
        self.parents.iter().copied().chain(answers)
    }
}

impl Piece {
    /// `None` where text has to be counted.
    pub fn tokens(&self) -> Option<u32> {
        match self {
            Self::Made { tokens, .. } => Some(*tokens),
            Self::Answer(answer) => Some(answer.tokens),
            Self::Given(given) => given.tokens,
            Self::Text(_) | Self::Messages(_) => None,
        }
    }
}

impl PieceName {
    /// The seed's stream that the text is drawn from, and the number in it.
    pub fn source(self) -> (&'static str, u64) {
        match self {
            Self::Content(number) => ("content", number),
            Self::Prefix(number) => ("prefix", number),
            Self::Block(number) => ("block", number),
            Self::Answer(number) => ("answer", number),
        }
    }
}

/// The turns' numbers in an order that can be sent; the one that they have, if it can.
fn order(turns: &[Turn]) -> Result<Vec<usize>, GraphFault> {
    if turns.is_empty() {
        return Err(GraphFault::Empty);
    }
    let mut children = vec![Vec::new(); turns.len()];
    let mut waits = vec![0_usize; turns.len()];
    for (turn, it) in turns.iter().enumerate() {
        for parent in it.waits_for() {
            let of_parent = children.get_mut(parent as usize);
            of_parent.ok_or(GraphFault::UnknownParent { turn, parent })?.push(turn);
            waits[turn] += 1;
        }
    }
    let mut ready: BinaryHeap<_> =
        (0..turns.len()).filter(|at| waits[*at] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(turns.len());
    while let Some(Reverse(turn)) = ready.pop() {
        order.push(turn);
        for child in &children[turn] {
            waits[*child] -= 1;
            if waits[*child] == 0 {
                ready.push(Reverse(*child));
            }
        }
    }
    match waits.iter().position(|left| *left > 0) {
        Some(turn) => Err(GraphFault::Cycle { turn }),
        None => Ok(order),
    }
}

fn reordered(mut turns: Vec<Turn>, order: &[usize]) -> Vec<Turn> {
    let mut places = vec![0_u32; turns.len()];
    for (place, turn) in (0..).zip(order) {
        places[*turn] = place;
    }
    let moved = |turn: &mut u32| *turn = places[*turn as usize];
    for turn in &mut turns {
        turn.parents.iter_mut().for_each(moved);
        for piece in &mut turn.pieces {
            if let Piece::Answer(answer) = piece {
                moved(&mut answer.turn);
            }
        }
    }
    order.iter().map(|turn| std::mem::take(&mut turns[*turn])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn turn(number: u64, parents: &[u32], answers: &[u32]) -> Turn {
        let made = Piece::Made { name: PieceName::Content(number), tokens: 8 };
        let answers = answers.iter().map(|turn| Piece::Answer(Answer::of(*turn)));
        Turn {
            pieces: std::iter::once(made).chain(answers).collect(),
            parents: parents.to_vec(),
            ..Turn::default()
        }
    }

    /// The content that a turn was made with, and the contents of the turns that it waits for.
    fn edges(session: &Session) -> Vec<(u64, Vec<u64>)> {
        let number = |turn: &Turn| match turn.pieces[0] {
            Piece::Made { name, .. } => name.source().1,
            _ => panic!("no made piece"),
        };
        let turns = session.turns();
        let of = |turn: &Turn| {
            let mut waits: Vec<u64> =
                turn.waits_for().map(|parent| number(&turns[parent as usize])).collect();
            waits.sort_unstable();
            (number(turn), waits)
        };
        let mut edges: Vec<_> = turns.iter().map(of).collect();
        edges.sort();
        edges
    }

    proptest! {
        /// Edges from higher to lower numbers cannot make a cycle; the turns are then shuffled.
        #[test]
        fn turns_in_any_order_make_the_same_graph_with_parents_first(
            links in prop::collection::vec((0_u32..9, 0_u32..9, any::<bool>()), 0..20),
            shuffle in Just((0..9_u64).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let place = |number: u64| {
                (0..).zip(&shuffle).find(|(_, other)| **other == number).map_or(0, |(at, _)| at)
            };
            let links = links.into_iter().filter(|(from, to, _)| from > to);
            let links: Vec<_> = links.collect();
            let made = |place: &dyn Fn(u64) -> u32, number: u64| {
                let of = |is_answer| {
                    let own = links.iter().filter(|(from, _, kind)| {
                        u64::from(*from) == number && *kind == is_answer
                    });
                    own.map(|(_, to, _)| place(u64::from(*to))).collect::<Vec<_>>()
                };
                turn(number, &of(false), &of(true))
            };
            let straight = |number: u64| u32::try_from(number).unwrap();
            let sorted = Session::new((0..9).map(|at| made(&straight, at)).collect()).unwrap();
            let mixed = shuffle.iter().map(|at| made(&place, *at)).collect();
            let mixed = Session::new(mixed).unwrap();
            prop_assert_eq!(edges(&sorted), edges(&mixed));
            for (at, turn) in (0..).zip(mixed.turns()) {
                prop_assert!(turn.waits_for().all(|parent| parent < at));
            }
            let text = serde_json::to_string(&mixed).unwrap();
            prop_assert_eq!(serde_json::from_str::<Session>(&text).unwrap(), mixed);
        }

        #[test]
        fn a_closed_ring_is_refused_wherever_it_lies(length in 1_u32..6, before in 0_u32..4) {
            let chain = (0..before).map(|at| turn(0, &at.checked_sub(1).into_iter().collect::<Vec<_>>(), &[]));
            let ring = (0..length).map(|at| turn(0, &[before + (at + 1) % length], &[]));
            let fault = Session::new(chain.chain(ring).collect()).unwrap_err();
            prop_assert_eq!(fault, GraphFault::Cycle { turn: before as usize });
        }
    }

    #[test]
    fn turns_that_wait_for_nothing_that_exists_are_named() {
        let fault = |turns| Session::new(turns).unwrap_err();
        assert_eq!(fault(vec![]), GraphFault::Empty);
        let unknown = fault(vec![turn(0, &[], &[]), turn(1, &[0], &[7])]);
        assert_eq!(
            (unknown, unknown.turn()),
            (GraphFault::UnknownParent { turn: 1, parent: 7 }, 1)
        );
        let line = r#"{"turns": [{"pieces": [{"text": "a"}], "parents": [0]}]}"#;
        let error = serde_json::from_str::<Session>(line).unwrap_err().to_string();
        assert!(error.contains("turn 0 waits for itself"), "{error}");
    }

    #[test]
    fn a_session_on_a_line_says_what_it_must_and_nothing_else() {
        let line = r#"{"turns":[{"pieces":[{"made":{"name":{"block":7},"tokens":64}}],"answer_tokens":9,"delay_ns":0}]}"#;
        let session: Session = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&session).unwrap(), line);
    }
}
