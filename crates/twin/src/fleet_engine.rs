//! One engine of a fleet, with what lies between it and the network. A replica has one, or several where
//! prefill and decode are disaggregated ([`crate::replica_engines`]).

use std::collections::VecDeque;

use base::Nanos;
use sim::engine::{Counters, Engine, Job};
use sim::profile::FrontEnd;
use tokometer_base as base;
use tokometer_sim as sim;

use crate::figures::PredictedFigures;

pub(crate) struct FleetEngine {
    pub(crate) inner: Engine,
    /// What it had counted when its last step began.
    pub(crate) counters: Counters,
    /// Tokens that the step under way gives to decoding requests.
    pub(crate) decodes: u32,
    /// When its decoding requests last got a token.
    pub(crate) advanced_at: Nanos,
    /// Requests that began to decode since then.
    pub(crate) joiners: Vec<Joiner>,
    held: HeldEvents,
    /// Requests between the network and the engine's queue, in order of arrival.
    pub(crate) inbox: VecDeque<Arrival>,
    serial_free_at: Nanos,
    /// Slots of cancelled requests, which the step under way may still name.
    pub(crate) leaving: Vec<usize>,
    pub(crate) is_stepping: bool,
    pub(crate) wake_at: Nanos,
}

/// A request that began to decode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joiner {
    pub(crate) since: Nanos,
    pub(crate) slot: usize,
}

/// A request on its way to the engine's queue.
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    pub(crate) job: Job,
}

/// Events that wait to travel with the next one.
#[derive(Debug, Clone, Copy, Default)]
struct HeldEvents {
    count: u32,
    /// The gap that they have waited.
    gap: Nanos,
}

/// Which events of a step wait for the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coalescing {
    /// Share of the events.
    pub(crate) share: f64,
    /// A number from 0 to 1 that rounds their expected number up or down.
    pub(crate) rounding: f64,
}

impl FleetEngine {
    pub(crate) fn new(inner: Engine) -> Self {
        Self {
            inner,
            counters: Counters::default(),
            decodes: 0,
            advanced_at: Nanos::ZERO,
            joiners: Vec::new(),
            held: HeldEvents::default(),
            inbox: VecDeque::new(),
            serial_free_at: Nanos::ZERO,
            leaving: Vec::new(),
            is_stepping: false,
            wake_at: Nanos::MAX,
        }
    }

    /// When a request that reaches the front end at `at` reaches the engine's queue.
    pub(crate) fn queued_at(&mut self, at: Nanos, front_end: &FrontEnd) -> Nanos {
        let serial = Nanos::from_millis_f64(front_end.serial_ms);
        self.serial_free_at = self.serial_free_at.max(at) + serial;
        self.serial_free_at + Nanos::from_millis_f64(front_end.arrival_ms)
    }

    /// Puts a request into the inbox, and returns when to wake an idle engine earlier than planned.
    pub(crate) fn expect(&mut self, at: Nanos, job: Job) -> Option<Nanos> {
        let index = self.inbox.partition_point(|arrival| arrival.at <= at);
        self.inbox.insert(index, Arrival { at, job });
        let is_earlier = !self.is_stepping && at < self.wake_at;
        is_earlier.then(|| {
            self.wake_at = at;
            at
        })
    }

    /// Lets a share of the tokens wait for the next one, and hands on those that waited, two in one event.
    /// Returns how many of `together` neither wait nor waited.
    pub(crate) fn hold(
        &mut self,
        together: u32,
        gap: Nanos,
        coalescing: Coalescing,
        figures: &mut PredictedFigures,
    ) -> u32 {
        let held = self.held.count.min(together);
        figures.gaps(self.held.gap + gap, held);
        let ends = self.inner.produced().iter().filter(|produced| produced.is_last).count();
        let ends = u32::try_from(ends).unwrap_or(u32::MAX);
        let free = (together - held).saturating_sub(ends);
        // The expected number, rounded at random: one draw per step instead of one per event.
        let expected = coalescing.share * f64::from(free) + coalescing.rounding;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between zero and the number of running requests"
        )]
        let waits = (expected as u32).min(free);
        self.held = HeldEvents { count: waits, gap };
        together - held - waits
    }

    /// Drops a request wherever it is, as a server does whose client has closed the connection.
    pub(crate) fn cancel(&mut self, slot: usize) {
        if !self.inner.cancel(slot as u64) {
            self.inbox.retain(|arrival| arrival.job.id != slot as u64);
        }
        self.leaving.push(slot);
    }

    /// Requests that it has been given and not answered.
    pub(crate) fn load(&self) -> u64 {
        let load = self.inner.load();
        u64::from(load.running) + u64::from(load.waiting) + self.inbox.len() as u64
    }
}
