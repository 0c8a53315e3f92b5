//! Limits the requests in flight, and queues the others.
//!
//! An open loop is a gate without a limit; a closed loop is a gate whose queue is never empty. The
//! worker that ends a request takes the next one from the queue and sends it at once, so that no
//! other thread has to be woken. Used once per request. Where several processes share one limit, slots
//! are lent: the limit then rises and falls during the run.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokometer_base::Nanos;

use crate::cap::CapReport;
use crate::flight::Flight;

#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: Option<u32>,
    in_flight: u32,
    queue: VecDeque<Box<Flight>>,
    /// Flights that had to wait for a slot since they were last asked for.
    waits: u64,
    closes: Nanos,
    lent: LentSlots,
}

/// Slots that other processes ask for; all zero where the limit is this process's own.
#[derive(Debug, Default)]
struct LentSlots {
    /// To be given up as requests end, although others wait in the queue here.
    recalled: u32,
    /// To be given up once nothing waits for them here.
    offered: u32,
    freed: u32,
}

impl Gate {
    pub(crate) fn new(limit: Option<u32>) -> Self {
        let state = State {
            limit,
            in_flight: 0,
            queue: VecDeque::new(),
            waits: 0,
            closes: Nanos::MAX,
            lent: LentSlots::default(),
        };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread cannot leave the state inconsistent: every change is one
        // statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the flight, or queues it until a slot is free. After the gate has closed it stays
    /// queued until it is dismissed.
    pub(crate) fn admit(&self, mut flight: Box<Flight>, now: Nanos) -> Option<Box<Flight>> {
        let mut state = self.state();
        let is_full = state.limit.is_some_and(|limit| state.in_flight >= limit);
        if is_full || now >= state.closes {
            state.waits += u64::from(is_full);
            // A further attempt belongs to a request that had its turn before all others in the queue.
            if flight.timeline.identity.attempt > 0 {
                state.queue.push_front(flight);
            } else {
                state.queue.push_back(flight);
            }
            return None;
        }
        state.in_flight += 1;
        flight.timeline.times.admitted = now;
        Some(flight)
    }

    /// Takes a slot for a flight of the first wave before it is sent. False when there is none.
    pub(crate) fn reserve(&self) -> bool {
        let mut state = self.state();
        let is_free = state.limit.is_none_or(|limit| state.in_flight < limit);
        state.in_flight += u32::from(is_free);
        is_free
    }

    /// Releases a slot. The next flight in the queue, if any, takes it.
    pub(crate) fn release(&self, now: Nanos) -> Option<Box<Flight>> {
        let mut state = self.state();
        if state.lent.recalled > 0 {
            state.lent.recalled -= 1;
            state.in_flight = state.in_flight.saturating_sub(1);
            state.give_up(1);
            return None;
        }
        let next = if now < state.closes { state.queue.pop_front() } else { None };
        let Some(mut next) = next else {
            state.in_flight = state.in_flight.saturating_sub(1);
            state.give_up_idle();
            return None;
        };
        next.timeline.times.admitted = now;
        Some(next)
    }

    /// Adds slots that another process gave up. Returns the flights that take them.
    pub(crate) fn grant(&self, slots: u32, now: Nanos) -> VecDeque<Box<Flight>> {
        let mut state = self.state();
        state.limit = state.limit.map(|limit| limit.saturating_add(slots));
        let mut admitted = VecDeque::new();
        while now < state.closes && state.idle() > 0 {
            let Some(mut next) = state.queue.pop_front() else { break };
            state.in_flight += 1;
            next.timeline.times.admitted = now;
            admitted.push_back(next);
        }
        admitted
    }

    /// Gives slots up: at once where they are not used, the others as requests end.
    pub(crate) fn recall(&self, slots: u32) {
        let mut state = self.state();
        let now = slots.min(state.idle());
        state.give_up(now);
        state.lent.recalled += slots - now;
    }

    /// Gives up to so many slots up, now or later, as far as nothing waits for them here.
    pub(crate) fn offer(&self, slots: u32) {
        let mut state = self.state();
        state.lent.offered = state.lent.offered.saturating_add(slots);
        state.give_up_idle();
    }

    /// Slots given up since the last call, and flights that wait for a slot.
    pub(crate) fn take_report(&self) -> CapReport {
        let mut state = self.state();
        let freed = std::mem::take(&mut state.lent.freed);
        CapReport { freed, waiting: u32::try_from(state.queue.len()).unwrap_or(u32::MAX) }
    }

    pub(crate) fn close_at(&self, time: Nanos) {
        let mut state = self.state();
        state.closes = state.closes.min(time);
    }

    pub(crate) fn is_open_at(&self, time: Nanos) -> bool {
        time < self.state().closes
    }

    /// Empties the queue if the gate has closed. The flights returned will not be sent.
    pub(crate) fn dismiss(&self, now: Nanos) -> VecDeque<Box<Flight>> {
        let mut state = self.state();
        if now < state.closes {
            return VecDeque::new();
        }
        std::mem::take(&mut state.queue)
    }

    /// Flights that had to wait in the queue since the last call.
    pub(crate) fn take_waits(&self) -> u64 {
        std::mem::take(&mut self.state().waits)
    }
}

impl State {
    /// Slots that nothing uses; zero without a limit.
    fn idle(&self) -> u32 {
        self.limit.map_or(0, |limit| limit.saturating_sub(self.in_flight))
    }

    fn give_up(&mut self, slots: u32) {
        self.limit = self.limit.map(|limit| limit.saturating_sub(slots));
        self.lent.freed += slots;
    }

    fn give_up_idle(&mut self) {
        if self.lent.offered > 0 && self.queue.is_empty() {
            let slots = self.lent.offered.min(self.idle());
            self.lent.offered -= slots;
            self.give_up(slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::tests::flight;

    fn index(flight: Option<Box<Flight>>) -> Option<u64> {
        flight.map(|flight| flight.timeline.identity.index)
    }

    fn report(freed: u32, waiting: u32) -> CapReport {
        CapReport { freed, waiting }
    }

    #[test]
    fn a_full_gate_keeps_the_line_in_order_and_refills_slots_at_once() {
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
            "an ended request left its slot"
        );
        assert_eq!((gate.take_waits(), gate.take_waits()), (3, 0));
    }

    #[test]
    fn a_slot_that_is_reserved_is_taken() {
        let gate = Gate::new(Some(2));
        assert!(gate.reserve());
        assert_eq!(index(gate.admit(flight(1), Nanos(1))), Some(1));
        assert!(!gate.reserve());
        assert_eq!(index(gate.admit(flight(2), Nanos(1))), None);
        assert_eq!(index(gate.release(Nanos(2))), Some(2), "the reserved slot becomes free");
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
        assert_eq!(gate.take_waits(), 1, "the last one did not wait for a slot");
    }

    #[test]
    fn a_recalled_slot_that_nobody_uses_leaves_at_once() {
        let gate = Gate::new(Some(3));
        let _ = gate.admit(flight(0), Nanos(1));
        gate.recall(3);
        assert_eq!(gate.take_report(), report(2, 0), "the third is in use");
        assert_eq!(index(gate.release(Nanos(2))), None);
        assert_eq!(gate.take_report(), report(1, 0));
    }

    #[test]
    fn a_recalled_slot_leaves_when_it_is_free_although_others_wait() {
        let gate = Gate::new(Some(2));
        for at in 0..4 {
            let _ = gate.admit(flight(at), Nanos(1));
        }
        gate.recall(1);
        assert_eq!(gate.take_report(), report(0, 2), "both slots are used");
        assert_eq!(index(gate.release(Nanos(2))), None, "the slot leaves");
        assert_eq!(gate.take_report(), report(1, 2));
        assert_eq!(index(gate.release(Nanos(3))), Some(2), "the other one stays");
        let admitted: Vec<_> =
            gate.grant(2, Nanos(4)).into_iter().map(|flight| index(Some(flight))).collect();
        assert_eq!(admitted, [Some(3)]);
        assert_eq!(index(gate.admit(flight(9), Nanos(5))), Some(9), "three slots, two used");
        assert_eq!(index(gate.admit(flight(10), Nanos(5))), None);
    }

    #[test]
    fn an_offered_slot_leaves_only_while_nothing_waits() {
        let gate = Gate::new(Some(3));
        let _ = gate.admit(flight(0), Nanos(1));
        gate.offer(3);
        assert_eq!(gate.take_report(), report(2, 0), "two are not used");
        let _ = gate.admit(flight(1), Nanos(1));
        assert_eq!(index(gate.release(Nanos(2))), Some(1), "somebody waited for it");
        assert_eq!(gate.take_report(), report(0, 0));
        assert_eq!(index(gate.release(Nanos(3))), None);
        assert_eq!(gate.take_report(), report(1, 0));
        assert_eq!(index(gate.admit(flight(2), Nanos(4))), None, "no slot is left");
        gate.recall(1);
        gate.close_at(Nanos(5));
        assert!(gate.grant(1, Nanos(6)).is_empty(), "nobody passes any more");
    }

    #[test]
    fn a_gate_without_limit_admits_every_flight_at_once() {
        let gate = Gate::new(None);
        assert!((0..100).all(|i| gate.admit(flight(i), Nanos(i)).is_some()));
        assert_eq!(gate.take_waits(), 0);
    }
}
