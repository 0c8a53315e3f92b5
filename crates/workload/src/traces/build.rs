//! A session of gathered calls: what each waits for, how long, and the pieces of its prompt.

use std::collections::HashMap;

use tokometer_base::{Fingerprint, Message, Nanos};

use super::call::{Blocks, Call, Content, Order};
use super::flaw::{Flaw, FlawKind};
use super::read_ahead::{Gathered, Place, PlacedCall};
use crate::conversation_rows;
use crate::session::{Answer, Piece, PieceName, RecordedTimes, Session, Turn};

/// The session of these calls. `origin` is the start of the trace; without it sessions have no times.
pub(super) fn build(gathered: Gathered, origin: Option<Nanos>) -> Result<Session, (Place, Flaw)> {
    let Gathered { key, mut calls } = gathered;
    let place = calls.first().map_or(Place { file: 0, line: 1 }, |placed| placed.place);
    let by_time = |placed: &PlacedCall| placed.call.order == Order::ByTime;
    if calls.iter().all(|placed| by_time(placed) && placed.call.start.is_some()) {
        calls.sort_by_key(|placed| placed.call.start);
    }
    let start = calls.iter().filter_map(|placed| placed.call.start).min();
    let class = calls.first_mut().and_then(|placed| placed.call.class.take());
    let graph = CallGraph::of(key, &calls);
    let mut turns: Vec<Turn> = Vec::with_capacity(calls.len());
    for (at, placed) in calls.iter_mut().enumerate() {
        let mut turn =
            turn(placed, &turns, graph.previous[at]).map_err(|flaw| (placed.place, flaw))?;
        turn.agent = graph.agent_name(at, key);
        turns.push(turn);
    }
    for (at, turn) in turns.iter_mut().enumerate() {
        turn.parents.clone_from(&graph.parents[at]);
        turn.delay = graph.delay(at, &calls, start);
        turn.recorded = calls[at].call.start.zip(start).map(|(own, start)| RecordedTimes {
            sent: own.saturating_sub(start),
            duration: calls[at].call.duration,
            ttft: calls[at].call.ttft,
        });
    }
    let mut session = Session::new(turns)
        .map_err(|fault| (place, FlawKind::CyclicParent.with(fault.to_string())))?;
    session.class = class.map(String::into_boxed_str);
    session.start = origin.zip(start).map(|(origin, start)| start.saturating_sub(origin));
    Ok(session)
}

/// Which calls follow which. Calls are numbered as they are gathered.
struct CallGraph {
    parents: Vec<Vec<u32>>,
    /// The call whose prompt and answer a call may repeat.
    previous: Vec<Option<usize>>,
    agents: Vec<u64>,
    ends: HashMap<u64, AgentEnds>,
}

/// The first and the last call of an agent.
#[derive(Clone, Copy)]
struct AgentEnds {
    first: usize,
    last: usize,
}

impl CallGraph {
    fn of(session: u64, calls: &[PlacedCall]) -> Self {
        let agent_of = |call: &Call| call.agent.map_or(session, |agent| agent.key);
        let agents: Vec<u64> = calls.iter().map(|placed| agent_of(&placed.call)).collect();
        let mut ends = HashMap::new();
        for (at, agent) in agents.iter().enumerate() {
            ends.entry(*agent).or_insert(AgentEnds { first: at, last: at }).last = at;
        }
        let mut graph = Self { parents: Vec::new(), previous: Vec::new(), agents, ends };
        let (mut ids, mut last_of_agent) = (HashMap::new(), HashMap::new());
        for (at, placed) in calls.iter().enumerate() {
            let previous = match placed.call.order {
                Order::After { id, parent } => {
                    ids.insert(id, at);
                    parent.and_then(|parent| ids.get(&parent).copied())
                }
                Order::ByTime => last_of_agent.insert(graph.agents[at], at),
            };
            let parents = match placed.call.order {
                Order::After { .. } => previous.into_iter().collect(),
                Order::ByTime => graph.ended_before(at, calls),
            };
            let parents = parents.into_iter().filter_map(|at| u32::try_from(at).ok()).collect();
            graph.parents.push(parents);
            graph.previous.push(previous);
        }
        graph
    }

    /// The calls that had ended when one began: the last of its own agent, of the one that began its
    /// agent, and of each that its agent began and that may join.
    fn ended_before(&self, at: usize, calls: &[PlacedCall]) -> Vec<usize> {
        let own = self.agents[at];
        let Call { start, agent, .. } = calls[at].call;
        let parent = agent.and_then(|agent| agent.parent).filter(|_| self.ends[&own].first == at);
        let is_candidate = |other: &usize| {
            let of = self.agents[*other];
            let joins = || {
                let agent = calls[*other].call.agent;
                agent.is_some_and(|agent| agent.joins && agent.parent == Some(own))
                    && self.ends[&of].last == *other
            };
            let has_ended = match (end(&calls[*other].call), start) {
                (Some(end), Some(start)) => end <= start,
                _ => of == own,
            };
            has_ended && (of == own || Some(of) == parent || joins())
        };
        let mut last: Vec<usize> = Vec::new();
        for other in (0..at).rev().filter(is_candidate) {
            // Of calls side by side all are waited for; one that ended before another began is behind it.
            let is_behind = |later: &usize| {
                self.agents[*later] == self.agents[other]
                    && calls[*later].call.start >= end(&calls[other].call)
            };
            if !last.iter().any(is_behind) {
                last.push(other);
            }
        }
        last
    }

    /// The recorded pause before a call, as far as it is known.
    fn delay(&self, at: usize, calls: &[PlacedCall], session: Option<Nanos>) -> Nanos {
        let call = &calls[at].call;
        let parents = self.parents[at].iter().map(|parent| &calls[*parent as usize].call);
        if self.parents[at].is_empty() {
            let offset = call.start.zip(session).map(|(own, start)| own.saturating_sub(start));
            return offset.or(call.pause_before).unwrap_or_default();
        }
        let ends: Option<Vec<Nanos>> = parents.clone().map(end).collect();
        let measured = ends.and_then(|ends| ends.into_iter().max()).zip(call.start);
        let stated = call.pause_before.or(parents.filter_map(|parent| parent.pause_after).max());
        measured.map(|(end, start)| start.saturating_sub(end)).or(stated).unwrap_or_default()
    }

    /// The name of an agent that is not the first of its session.
    fn agent_name(&self, at: usize, session: u64) -> Option<Box<str>> {
        let agent = self.agents[at];
        (agent != session).then(|| format!("{agent:016x}").into_boxed_str())
    }
}

fn end(call: &Call) -> Option<Nanos> {
    call.start.zip(call.duration).map(|(start, duration)| start.saturating_add(duration))
}

/// A turn with its pieces; behind those of the turn before it, where it adds to them.
fn turn(placed: &mut PlacedCall, turns: &[Turn], previous: Option<usize>) -> Result<Turn, Flaw> {
    let name = PieceName::Content(placed.name);
    let input = placed.call.input;
    let needed = || input.ok_or(FlawKind::ZeroLength.with("it has no prompt length"));
    let after = |adds: bool, own: Vec<Piece>| {
        let previous = previous.filter(|_| adds);
        let pieces = previous.map_or(&[][..], |number| &turns[number].pieces);
        let answer = previous.and_then(answer_of);
        pieces.iter().cloned().chain(answer).chain(own).collect()
    };
    let pieces: Vec<Piece> = match std::mem::take(&mut placed.call.prompt) {
        Content::Fresh => block_pieces(&Blocks::default(), needed()?, name),
        Content::Blocks(blocks) => block_pieces(&blocks, needed()?, name),
        Content::Keeps(kept) => {
            kept_pieces(kept, needed()?, name, Before { turns, number: previous })
        }
        Content::Adds(blocks) => {
            let own = block_pieces(&blocks.unwrap_or_default(), needed()?, name);
            let first = previous.and_then(|number| turns[number].pieces.first());
            let repeats = first.is_some_and(|first| made_name(first) == made_name(&own[0]));
            after(!repeats, own)
        }
        Content::Text { text, adds } => after(adds, vec![Piece::Text(text.into_boxed_str())]),
        Content::Messages { list, adds } => {
            let mut list = messages(&list)?;
            let repeated = previous.filter(|_| !adds).and_then(|at| repeated(turns, at, &list));
            if let Some(repeated) = repeated {
                list.drain(..repeated);
            }
            after(adds || repeated.is_some(), vec![Piece::Messages(list)])
        }
    };
    let answer = placed.call.answer.take();
    let answer = answer.map(|answer| messages(&format!("[{answer}]"))).transpose()?;
    Ok(Turn {
        pieces,
        answer_tokens: placed.call.output,
        answer: answer.and_then(|mut answer| answer.pop()).map(Box::new),
        extra_body: placed.call.extra_body.take().map(String::into_boxed_str),
        ..Turn::default()
    })
}

/// How many of these messages repeat a turn and its answer; `None` unless something follows.
fn repeated(turns: &[Turn], turn: usize, list: &[Message]) -> Option<usize> {
    let mut said: Vec<&Message> = Vec::new();
    for piece in &turns[turn].pieces {
        match piece {
            Piece::Messages(messages) => said.extend(messages),
            Piece::Answer(answer) => said.push(turns[answer.turn as usize].answer.as_deref()?),
            _ => return None,
        }
    }
    said.push(turns[turn].answer.as_deref()?);
    let is_same = said.len() < list.len() && said.iter().zip(list).all(|(said, it)| *said == it);
    is_same.then_some(said.len())
}

/// The turns so far, and the one before this.
#[derive(Clone, Copy)]
struct Before<'a> {
    turns: &'a [Turn],
    number: Option<usize>,
}

/// The beginning of the turn before and of its answer, then something new. An answer is kept whole or not at all.
fn kept_pieces(kept: u32, input: u32, name: PieceName, before: Before<'_>) -> Vec<Piece> {
    let mut left = kept.min(input);
    let mut pieces = Vec::new();
    let answer = before.number.and_then(answer_of);
    let earlier = before.number.map_or(&[][..], |number| &before.turns[number].pieces);
    for piece in earlier.iter().cloned().chain(answer) {
        let tokens = match piece {
            Piece::Made { tokens, .. } => tokens,
            Piece::Answer(answer) => {
                before.turns[answer.turn as usize].answer_tokens.unwrap_or(u32::MAX)
            }
            Piece::Text(_) | Piece::Messages(_) | Piece::Given(_) => u32::MAX,
        };
        match piece {
            Piece::Made { name, .. } if left > 0 => {
                pieces.push(Piece::Made { name, tokens: tokens.min(left) });
            }
            Piece::Answer(_) if tokens <= left => pieces.push(piece),
            _ => break,
        }
        left = left.saturating_sub(tokens);
    }
    let new = left + (input - kept.min(input));
    pieces.extend((new > 0).then_some(Piece::Made { name, tokens: new }));
    pieces
}

fn answer_of(turn: usize) -> Option<Piece> {
    u32::try_from(turn).ok().map(|turn| Piece::Answer(Answer::of(turn)))
}

fn made_name(piece: &Piece) -> Option<PieceName> {
    match piece {
        Piece::Made { name, .. } => Some(*name),
        _ => None,
    }
}

fn messages(list: &str) -> Result<Vec<Message>, Flaw> {
    Ok(conversation_rows::messages(serde_json::from_str(list)?)?)
}

/// The blocks of a prompt, the last one perhaps shorter; then what they do not cover.
fn block_pieces(blocks: &Blocks, input: u32, name: PieceName) -> Vec<Piece> {
    let mut left = input;
    let mut pieces: Vec<Piece> = Vec::with_capacity(blocks.ids.len() + 1);
    for id in &blocks.ids {
        let tokens = blocks.tokens.min(left);
        left -= tokens;
        if tokens > 0 {
            pieces.push(Piece::Made { name: block_name(*id, blocks.scope), tokens });
        }
    }
    if left > 0 {
        pieces.push(Piece::Made { name, tokens: left });
    }
    pieces
}

fn block_name(id: u64, scope: u64) -> PieceName {
    if scope == 0 {
        return PieceName::Block(id);
    }
    let both = [scope.to_le_bytes(), id.to_le_bytes()].concat();
    PieceName::Block(Fingerprint::default().with(&both).value())
}
