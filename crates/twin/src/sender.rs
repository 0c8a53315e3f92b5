//! The client's behaviour: which request is sent next, and when.
//!
//! Open loop, closed loop, a rate with a cap, traces and conversations are one rule: a request is due
//! at a time, and it is admitted when a slot is free. The driver asks for the time of the
//! next send and reports when answers end, so coordinated omission shows as it does in a measurement.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use schedule::{Arrivals, Offsets, SendLimit, Upcoming};
use tokometer_base::{Nanos, Seed};
use tokometer_schedule as schedule;

use crate::Error;
use crate::workload::{Ask, RequestLoad};

/// A request that is about to be sent.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) index: u64,
    pub(crate) ask: Ask,
    /// When it is scheduled; `None` without a schedule.
    pub(crate) intended: Option<Nanos>,
    at: Nanos,
}

pub(crate) struct Sender<'a> {
    workload: &'a RequestLoad,
    offsets: Offsets,
    /// The order in which a trace sends, where it is not the order of the requests.
    order: Option<Vec<u64>>,
    position: u64,
    head: Option<Due>,
    /// Turns whose predecessors have ended.
    turns: BinaryHeap<Reverse<(Nanos, u64)>>,
    followers: BTreeMap<u64, Vec<u64>>,
    /// Predecessors that have not ended, of turns with several.
    joins: BTreeMap<u64, usize>,
    /// Further first turns of sessions that have not begun.
    roots: BTreeMap<u64, Vec<u64>>,
    /// Turns left of each session in progress.
    sessions: BTreeMap<u64, u32>,
    most_sessions: usize,
    free_slots: u64,
    /// Requests sent and not answered, where a closed loop of a stage counts them.
    in_progress: u64,
    /// The stage that the request at the head waits in for the end of another.
    closed_loop: Option<ClosedLoop>,
    /// When slots that were given back can be used, in order.
    given_back: VecDeque<Nanos>,
    share: FleetShare,
}

/// The part of a fleet that one driver computes, where requests go to replicas one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FleetShare {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) of: u64,
}

/// A stage with a number of sessions in progress.
#[derive(Debug, Clone, Copy)]
struct ClosedLoop {
    begin: Nanos,
    end: Nanos,
    sessions: u64,
}

impl FleetShare {
    pub(crate) const WHOLE: Self = Self { first: 0, count: 1, of: 1 };

    fn has(self, position: u64) -> bool {
        (self.first..self.first + self.count).contains(&(position % self.of))
    }
}

impl<'a> Sender<'a> {
    /// The sender of the requests that belong to `share`.
    pub(crate) fn new(
        workload: &'a RequestLoad,
        seed: Seed,
        share: FleetShare,
    ) -> Result<Self, Error> {
        let count = workload.asks.count();
        // A run that ends by time has no last request that a ramp could count to.
        let count_known = workload.duration.is_none().then_some(count);
        let extent = SendLimit { count: count_known, duration: workload.duration };
        let mut sender = Self {
            workload,
            offsets: Offsets::new(&workload.arrivals, extent, seed)?,
            order: None,
            position: 0,
            head: None,
            turns: BinaryHeap::new(),
            followers: BTreeMap::new(),
            joins: BTreeMap::new(),
            roots: BTreeMap::new(),
            sessions: BTreeMap::new(),
            most_sessions: workload.max_sessions.map_or(usize::MAX, |most| most.max(1) as usize),
            free_slots: workload.max_concurrency.map_or(u64::MAX, |cap| u64::from(cap.max(1))),
            in_progress: 0,
            closed_loop: None,
            given_back: VecDeque::new(),
            share,
        };
        if workload.arrivals.pace().is_some_and(schedule::Pace::has_closed_stages)
            && workload.asks.has_sessions()
        {
            return Err(Error::StagedSessions);
        }
        if workload.arrivals == Arrivals::Traced {
            sender.order = Some(trace_order(workload));
        }
        if workload.asks.has_sessions() {
            for index in 0..count {
                let Ask { after, place, .. } = workload.asks.ask(index);
                if let Some(place) = place.filter(|place| after.is_empty() && place.turn > 0) {
                    sender.roots.entry(place.session).or_default().push(index);
                }
                for request in &after {
                    sender.followers.entry(*request).or_default().push(index);
                }
                if after.len() > 1 {
                    sender.joins.insert(index, after.len());
                }
            }
        }
        sender.pull();
        Ok(sender)
    }

    /// Puts the next request without a predecessor at the head of the queue.
    fn pull(&mut self) {
        let count = self.workload.asks.count();
        while self.position < count {
            if !self.share.has(self.position) {
                self.position += 1;
                self.offsets.advance();
                continue;
            }
            let index = match &self.order {
                Some(order) => order[usize::try_from(self.position).unwrap_or(usize::MAX)],
                None => self.position,
            };
            let ask = self.workload.asks.ask(index);
            // Further first turns begin with their session.
            if !ask.after.is_empty() || ask.place.as_ref().is_some_and(|place| place.turn > 0) {
                self.position += 1;
                continue;
            }
            self.closed_loop = None;
            let intended = match (&self.workload.arrivals, self.offsets.upcoming()) {
                (Arrivals::Traced, _) => Some(ask.due.unwrap_or(Nanos::ZERO)),
                (_, Upcoming::End) => break,
                (_, Upcoming::ClosedLoop { begin, end, sessions }) => {
                    self.closed_loop = Some(ClosedLoop { begin, end, sessions: sessions.into() });
                    None
                }
                (_, Upcoming::Request) => self.offsets.advance(),
            };
            self.position += 1;
            let at = intended.unwrap_or(Nanos::ZERO);
            self.head = Some(Due { index, ask, intended, at });
            return;
        }
        self.head = None;
    }

    fn head_at(&self, head: &Due) -> Nanos {
        match self.closed_loop {
            Some(stage) if self.in_progress < stage.sessions => stage.begin,
            Some(stage) => stage.end,
            None => head.at,
        }
    }

    fn due(&self) -> Option<Nanos> {
        let turn = self.turns.peek().map(|Reverse((at, _))| *at);
        let head = self.head.as_ref().filter(|_| !self.is_full()).map(|due| self.head_at(due));
        let due = [turn, head].into_iter().flatten().min()?;
        self.workload.duration.is_none_or(|duration| due < duration).then_some(due)
    }

    /// When the next request can be sent, not before `now`. `None`: nothing is due, or no slot will
    /// be free before an answer ends.
    pub(crate) fn next_at(&self, now: Nanos) -> Option<Nanos> {
        let due = self.due()?.max(now);
        let at = match (self.free_slots, self.given_back.front()) {
            (0, None) => return None,
            (0, Some(free)) => due.max(*free),
            _ => due,
        };
        self.workload.duration.is_none_or(|duration| at < duration).then_some(at)
    }

    /// Takes the request that [`Sender::next_at`] announced for now. `None`: a closed loop is over, and the
    /// next request has another time.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Due> {
        if self.closed_loop.is_some_and(|stage| now >= stage.end) {
            self.offsets.leave_stage();
            self.position -= 1;
            self.pull();
            return None;
        }
        self.in_progress += 1;
        if self.free_slots == 0 {
            self.given_back.pop_front();
        } else {
            self.free_slots -= 1;
        }
        let is_turn = match (self.turns.peek(), self.head.as_ref().filter(|_| !self.is_full())) {
            (Some(Reverse((at, _))), Some(head)) => *at <= self.head_at(head),
            (Some(_), None) => true,
            _ => false,
        };
        if is_turn {
            let Reverse((at, index)) = self.turns.pop()?;
            let ask = self.workload.asks.ask(index);
            return Some(Due { index, ask, intended: Some(at), at });
        }
        let due = self.head.take();
        self.pull();
        self.begin_session(due.as_ref()?);
        due
    }

    /// Whether the next request begins a session while the most are in progress.
    fn is_full(&self) -> bool {
        let head = self.head.as_ref().and_then(|head| head.ask.place.as_ref());
        head.is_some() && self.sessions.len() >= self.most_sessions
    }

    fn begin_session(&mut self, first: &Due) {
        let Some(place) = &first.ask.place else { return };
        self.sessions.insert(place.session, place.turns);
        for root in self.roots.remove(&place.session).unwrap_or_default() {
            self.turns.push(Reverse((self.own_due(root).unwrap_or(first.at), root)));
        }
    }

    /// When the trace has it.
    fn own_due(&self, index: u64) -> Option<Nanos> {
        let is_traced = self.workload.arrivals == Arrivals::Traced;
        self.workload.asks.ask(index).due.filter(|_| is_traced)
    }

    fn end_turn(&mut self, index: u64) {
        let Some(place) = self.workload.asks.ask(index).place else { return };
        let left = self.sessions.get(&place.session).map_or(0, |left| left.saturating_sub(1));
        if left == 0 {
            self.sessions.remove(&place.session);
        } else {
            self.sessions.insert(place.session, left);
        }
    }

    /// A response ended at `at`: its slot is free, and the think time of its successors begins.
    pub(crate) fn ended(&mut self, index: u64, at: Nanos) {
        self.in_progress -= 1;
        if self.workload.max_concurrency.is_some() {
            self.given_back.push_back(at);
        }
        if self.workload.max_sessions.is_some() {
            self.end_turn(index);
        }
        for follower in self.followers.remove(&index).unwrap_or_default() {
            let left = self.joins.remove(&follower).unwrap_or(1) - 1;
            if left > 0 {
                self.joins.insert(follower, left);
                continue;
            }
            // Ends come in the order of time: this one is the last.
            let ask = self.workload.asks.ask(follower);
            let own = self.own_due(follower).unwrap_or_default();
            self.turns.push(Reverse(((at + ask.delay).max(own), follower)));
        }
    }
}

fn trace_order(workload: &RequestLoad) -> Vec<u64> {
    let mut order: Vec<(Nanos, u64)> = (0..workload.asks.count())
        .map(|index| (workload.asks.ask(index).due.unwrap_or(Nanos::ZERO), index))
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, index)| index).collect()
}
