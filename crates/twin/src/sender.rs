//! The client's behaviour: which request is sent next, and when.
//!
//! Open loop, closed loop, a rate with a cap, traces and conversations are one rule: a request is due
//! at a time, and it is admitted when a slot is free. The driver asks for the time of the
//! next send and reports when answers end, so coordinated omission shows as it does in a measurement.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use schedule::{Arrivals, Offsets, SendLimit};
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
    free_slots: u64,
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
            free_slots: workload.max_concurrency.map_or(u64::MAX, |cap| u64::from(cap.max(1))),
            given_back: VecDeque::new(),
            share,
        };
        if workload.arrivals == Arrivals::Traced {
            sender.order = Some(trace_order(workload));
        }
        if workload.asks.has_sessions() {
            for index in 0..count {
                let after = workload.asks.ask(index).after;
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
            if !ask.after.is_empty() {
                self.position += 1;
                continue;
            }
            let intended = match self.workload.arrivals {
                Arrivals::Traced => Some(ask.due.unwrap_or(Nanos::ZERO)),
                _ => self.offsets.advance(),
            };
            self.position += 1;
            let at = intended.unwrap_or(Nanos::ZERO);
            self.head = Some(Due { index, ask, intended, at });
            return;
        }
        self.head = None;
    }

    fn due(&self) -> Option<Nanos> {
        let turn = self.turns.peek().map(|Reverse((at, _))| *at);
        let head = self.head.as_ref().map(|due| due.at);
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

    /// Takes the request that [`Sender::next_at`] announced.
    pub(crate) fn take(&mut self) -> Option<Due> {
        if self.free_slots == 0 {
            self.given_back.pop_front();
        } else {
            self.free_slots -= 1;
        }
        let is_turn = match (self.turns.peek(), &self.head) {
            (Some(Reverse((at, _))), Some(head)) => *at <= head.at,
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
        due
    }

    /// A response ended at `at`: its slot is free, and the think time of its successors begins.
    pub(crate) fn ended(&mut self, index: u64, at: Nanos) {
        if self.workload.max_concurrency.is_some() {
            self.given_back.push_back(at);
        }
        for follower in self.followers.remove(&index).unwrap_or_default() {
            let left = self.joins.remove(&follower).unwrap_or(1) - 1;
            if left > 0 {
                self.joins.insert(follower, left);
                continue;
            }
            // Ends come in the order of time: this one is the last.
            let ask = self.workload.asks.ask(follower);
            let own = ask.due.filter(|_| self.workload.arrivals == Arrivals::Traced);
            self.turns.push(Reverse(((at + ask.delay).max(own.unwrap_or_default()), follower)));
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
