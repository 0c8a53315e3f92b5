//! Calls of one session are spread over a file; this gathers them, within bounded memory.
//!
//! Sessions leave in the order of their starts. The one that began first leaves when the read-ahead is full: what
//! the file says of it later comes too late, and is a flaw of that row.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokometer_base::Nanos;

use super::call::{Call, Content, Order};
use super::flaw::{Flaw, FlawKind};

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedCall {
    pub(super) call: Call,
    pub(super) place: Place,
    /// Differs between all calls of a trace.
    pub(super) name: u64,
}

/// Calls that make up a session, parents first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gathered {
    pub(super) key: u64,
    pub(super) calls: Vec<PlacedCall>,
}

/// What identifies a session while it is gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SessionKey {
    /// A row that stands alone.
    Row(u64),
    Named(u64),
}

/// The weight of a row beside that of its blocks, of 8 bytes each.
const ROW_WEIGHT: usize = 40;

/// Keys of sessions that left, of which so many are remembered.
const REMEMBERED: usize = 1 << 20;

pub(super) struct ReadAhead {
    most: usize,
    weight: usize,
    sessions: HashMap<SessionKey, Gathering>,
    /// Sessions by their start, then by their first row.
    starts: BTreeMap<(Nanos, u64), SessionKey>,
    ids: HashMap<u64, (SessionKey, Option<Nanos>)>,
    /// The session of each agent that is not the first of its own.
    agents: HashMap<u64, u64>,
    /// Calls whose parent has not been read, by its id.
    waiting: BTreeMap<u64, Vec<PlacedCall>>,
    left: [HashSet<u64>; 2],
    last_start: Nanos,
    rows: u64,
}

struct Gathering {
    calls: Vec<PlacedCall>,
    start: Nanos,
    row: u64,
}

impl ReadAhead {
    /// A read-ahead of about `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            most: bytes / 8,
            weight: 0,
            sessions: HashMap::new(),
            starts: BTreeMap::new(),
            ids: HashMap::new(),
            agents: HashMap::new(),
            waiting: BTreeMap::new(),
            left: [HashSet::new(), HashSet::new()],
            last_start: Nanos::ZERO,
            rows: 0,
        }
    }

    pub(super) fn add(&mut self, placed: PlacedCall) -> Result<(), Flaw> {
        let mut placed = placed;
        if let Some(session) = self.session_of(&placed.call) {
            placed.call.session = Some(session);
        }
        let Order::After { id, parent } = placed.call.order else {
            let key = placed.call.session.map(SessionKey::Named);
            return self.gather(key.unwrap_or(SessionKey::Row(placed.name)), placed);
        };
        let mut ready = vec![(id, parent, placed)];
        while let Some((id, parent, placed)) = ready.pop() {
            if self.ids.contains_key(&id) {
                return Err(FlawKind::RepeatedId.with("another row has its id".to_owned()));
            }
            let key = match parent.map(|parent| (parent, self.ids.get(&parent))) {
                None => placed.call.session.map_or(SessionKey::Row(placed.name), SessionKey::Named),
                Some((_, Some((key, start)))) => {
                    if placed.call.start.zip(*start).is_some_and(|(own, parents)| own < parents) {
                        let text = "it starts before the call that it follows";
                        return Err(FlawKind::OutOfOrder.with(text));
                    }
                    *key
                }
                Some((parent, None)) => {
                    self.weight += weight(&placed.call);
                    self.waiting.entry(parent).or_default().push(placed);
                    continue;
                }
            };
            let start = placed.call.start;
            self.gather(key, placed)?;
            self.ids.insert(id, (key, start));
            for child in self.waiting.remove(&id).unwrap_or_default() {
                self.weight -= weight(&child.call);
                if let Order::After { id, parent } = child.call.order {
                    ready.push((id, parent, child));
                }
            }
        }
        Ok(())
    }

    /// The session of a call that names its agent: that of the agent that began it.
    fn session_of(&mut self, call: &Call) -> Option<u64> {
        let agent = call.agent.filter(|_| call.session.is_none())?;
        let Some(parent) = agent.parent else { return Some(agent.key) };
        let session = self.agents.get(&parent).copied().unwrap_or(parent);
        self.agents.insert(agent.key, session);
        Some(session)
    }

    fn gather(&mut self, key: SessionKey, placed: PlacedCall) -> Result<(), Flaw> {
        if let SessionKey::Named(name) = key
            && self.left.iter().any(|left| left.contains(&name))
        {
            let text =
                "its session left the read-ahead before; sort the file by session or by time";
            return Err(FlawKind::LateTurn.with(text));
        }
        let start = placed.call.start.unwrap_or(Nanos::ZERO);
        let known = self.sessions.get(&key).map(|session| session.start);
        if placed.call.start.is_some() && start < self.last_start && known.is_none() {
            let text = "it starts before a session that left the read-ahead; sort the file by time";
            return Err(FlawKind::OutOfOrder.with(text));
        }
        self.weight += weight(&placed.call);
        let row = self.rows;
        self.rows += 1;
        let session = self.sessions.entry(key).or_insert_with(|| {
            self.starts.insert((start, row), key);
            Gathering { calls: Vec::with_capacity(1), start, row }
        });
        if start < session.start && placed.call.start.is_some() {
            self.starts.remove(&(session.start, session.row));
            self.starts.insert((start, session.row), key);
            session.start = start;
        }
        session.calls.push(placed);
        Ok(())
    }

    /// The session that began first, once the read-ahead is full.
    pub(super) fn full(&mut self) -> Option<Gathered> {
        (self.weight > self.most).then(|| self.first()).flatten()
    }

    /// The session that began first.
    pub(super) fn first(&mut self) -> Option<Gathered> {
        let ((start, row), key) = self.starts.pop_first()?;
        let session = self.sessions.remove(&key)?;
        self.last_start = self.last_start.max(start);
        for placed in &session.calls {
            self.weight -= weight(&placed.call);
            if let Order::After { id, .. } = placed.call.order {
                self.ids.remove(&id);
            }
            if let Some(agent) = placed.call.agent {
                self.agents.remove(&agent.key);
            }
        }
        let key = match key {
            SessionKey::Named(name) => {
                if self.left[0].len() >= REMEMBERED {
                    self.left.swap(0, 1);
                    self.left[0].clear();
                }
                self.left[0].insert(name);
                name
            }
            SessionKey::Row(_) => session.calls.first().map_or(row, |placed| placed.name),
        };
        Some(Gathered { key, calls: session.calls })
    }

    /// Calls whose parent never came, once the trace has ended or they alone fill the read-ahead.
    pub(super) fn orphans(&mut self) -> Vec<(Place, Flaw)> {
        let waiting = std::mem::take(&mut self.waiting);
        let parents: BTreeMap<u64, u64> = waiting
            .values()
            .flatten()
            .filter_map(|placed| match placed.call.order {
                Order::After { id, parent } => Some((id, parent?)),
                Order::ByTime => None,
            })
            .collect();
        let orphans = waiting.into_iter().flat_map(|(parent, calls)| {
            let is_cyclic = is_cyclic(parent, &parents);
            calls.into_iter().map(move |placed| (placed, parent, is_cyclic))
        });
        let mut flaws: Vec<(Place, Flaw)> = Vec::new();
        for (placed, parent, is_cyclic) in orphans {
            self.weight -= weight(&placed.call);
            let flaw = if is_cyclic {
                FlawKind::CyclicParent.with(format!("its parent {parent} follows it in turn"))
            } else {
                FlawKind::UnknownParent
                    .with(format!("its parent {parent} is not in the read-ahead"))
            };
            flaws.push((placed.place, flaw));
        }
        flaws.sort_by_key(|(place, _)| *place);
        flaws
    }

    pub(super) fn is_full_of_orphans(&self) -> bool {
        self.weight > self.most && self.starts.is_empty()
    }
}

/// Whether the parents of a call lead back to one of them.
fn is_cyclic(id: u64, parents: &BTreeMap<u64, u64>) -> bool {
    let mut at = id;
    for _ in 0..=parents.len() {
        match parents.get(&at) {
            Some(parent) => at = *parent,
            None => return false,
        }
    }
    true
}

fn weight(call: &Call) -> usize {
    let content = match &call.prompt {
        Content::Blocks(blocks) | Content::Adds(Some(blocks)) => blocks.ids.len(),
        Content::Messages { list: text, .. } | Content::Text { text, .. } => text.len() / 8,
        Content::Fresh | Content::Keeps(_) | Content::Adds(None) => 0,
    };
    ROW_WEIGHT + content
}
