//! Limits the requests in flight, and queues the others.
//!
//! An open loop is a gate without a limit; a closed loop is a gate whose queue is never empty. The
//! worker that ends a request takes the next one from the queue and sends it at once, so that no
//! other thread has to be woken. Used once per request.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokometer_base::Nanos;

use crate::flight::Flight;

#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: Option<u32>,
    in_flight: u32,
    line: VecDeque<Box<Flight>>,
    waits: u64,
    /// From this time on no request is admitted.
    closes: Nanos,
}

impl Gate {
    pub(crate) fn new(limit: Option<u32>) -> Self {
        let line = VecDeque::new();
        let state = State { limit, in_flight: 0, line, waits: 0, closes: Nanos::MAX };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread cannot leave the state inconsistent: every change is one
        // statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the flight, or queues it until a place is free. After the gate has closed it stays
    /// queued until it is dismissed.
    pub(crate) fn admit(&self, mut flight: Box<Flight>, now: Nanos) -> Option<Box<Flight>> {
        let mut state = self.state();
        let is_full = state.limit.is_some_and(|limit| state.in_flight >= limit);
        if is_full || now >= state.closes {
            state.waits += u64::from(is_full);
            // A further attempt belongs to a request that had its turn before all others in line.
            if flight.timeline.identity.attempt > 0 {
                state.line.push_front(flight);
            } else {
                state.line.push_back(flight);
            }
            return None;
        }
        state.in_flight += 1;
        flight.timeline.times.admitted = now;
        Some(flight)
    }

    /// Releases a place. The next flight in the queue, if any, takes it.
    pub(crate) fn release(&self, now: Nanos) -> Option<Box<Flight>> {
        let mut state = self.state();
        let next = if now < state.closes { state.line.pop_front() } else { None };
        let Some(mut next) = next else {
            state.in_flight = state.in_flight.saturating_sub(1);
            return None;
        };
        next.timeline.times.admitted = now;
        Some(next)
    }

    /// Admits no flight from this time on.
    pub(crate) fn close_at(&self, time: Nanos) {
        let mut state = self.state();
        state.closes = state.closes.min(time);
    }

    /// Whether the gate is still open at this time.
    pub(crate) fn is_open_at(&self, time: Nanos) -> bool {
        time < self.state().closes
    }

    /// Empties the queue if the gate has closed. The flights returned will not be sent.
    pub(crate) fn dismiss(&self, now: Nanos) -> VecDeque<Box<Flight>> {
        let mut state = self.state();
        if now < state.closes {
            return VecDeque::new();
        }
        std::mem::take(&mut state.line)
    }

    /// Flights that had to wait in the queue since the last call.
    pub(crate) fn take_waits(&self) -> u64 {
        std::mem::take(&mut self.state().waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::tests::flight;

    fn index(flight: Option<Box<Flight>>) -> Option<u64> {
        flight.map(|flight| flight.timeline.identity.index)
    }

    #[test]
    fn a_full_gate_keeps_the_line_in_order_and_refills_places_at_once() {
        let gate = Gate::new(Some(2));
        let admitted: Vec<_> = (0..5).map(|i| index(gate.admit(flight(i), Nanos(i)))).collect();
        assert_eq!(admitted, [Some(0), Some(1), None, None, None]);
        assert_eq!(index(gate.release(Nanos(1))), Some(2));
        assert_eq!(index(gate.release(Nanos(1))), Some(3));
        assert_eq!(index(gate.release(Nanos(1))), Some(4));
        assert_eq!(index(gate.release(Nanos(1))), None);
        assert_eq!(
            index(gate.admit(flight(9), Nanos(2))),
            Some(9),
            "an ended request left its place"
        );
        assert_eq!((gate.take_waits(), gate.take_waits()), (3, 0));
    }

    #[test]
    fn a_further_attempt_is_first_in_line() {
        let gate = Gate::new(Some(1));
        let retry = flight(0).next_attempt();
        let admitted =
            [flight(1), flight(2), retry].map(|flight| index(gate.admit(flight, Nanos(1))));
        assert_eq!(admitted, [Some(1), None, None]);
        assert_eq!(index(gate.release(Nanos(2))), Some(0));
        assert_eq!(index(gate.release(Nanos(3))), Some(2));
    }

    #[test]
    fn a_closed_gate_dismisses_its_line() {
        let gate = Gate::new(Some(1));
        gate.admit(flight(0), Nanos(1));
        gate.admit(flight(1), Nanos(2));
        gate.close_at(Nanos(10));
        assert!(gate.dismiss(Nanos(9)).is_empty());
        assert_eq!(index(gate.release(Nanos(10))), None);
        assert_eq!(gate.dismiss(Nanos(10)).len(), 1);
        assert_eq!(index(gate.admit(flight(2), Nanos(10))), None, "nobody passes any more");
        assert_eq!(gate.dismiss(Nanos(10)).len(), 1);
    }

    #[test]
    fn a_gate_without_limit_admits_every_flight_at_once() {
        let gate = Gate::new(None);
        assert!((0..100).all(|i| gate.admit(flight(i), Nanos(i)).is_some()));
        assert_eq!(gate.take_waits(), 0);
    }
}
