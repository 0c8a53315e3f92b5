//! What happens later, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::Nanos;
use tokometer_base as base;

/// What a timer is for. Keys that are gone by then are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    Step,
    Arrival(u64),
    /// A stream with its own schedule gets a token.
    Token(u64),
    Comment(u64),
    Release(u64),
    /// A connection that did nothing since then is closed.
    Idle(u64),
    Accept,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The number keeps alarms of one instant in the order in which they were set.
    heap: BinaryHeap<Reverse<(Nanos, u64, Alarm)>>,
    count: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: Nanos, alarm: Alarm) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, alarm)));
    }

    pub(super) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(super) fn due(&mut self, now: Nanos) -> Option<(Nanos, Alarm)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, alarm))| (at, alarm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_order_of_time_and_then_of_setting() {
        let mut timers = Timers::default();
        timers.set(Nanos(5), Alarm::Token(1));
        timers.set(Nanos(3), Alarm::Token(2));
        timers.set(Nanos(5), Alarm::Step);
        assert_eq!(timers.due(Nanos(2)), None);
        assert_eq!(timers.due(Nanos(9)), Some((Nanos(3), Alarm::Token(2))));
        assert_eq!(timers.due(Nanos(9)), Some((Nanos(5), Alarm::Token(1))));
        assert_eq!((timers.next(), timers.due(Nanos(4))), (Some(Nanos(5)), None));
        assert_eq!(timers.due(Nanos(5)), Some((Nanos(5), Alarm::Step)));
    }
}
