//! Counters of a run in progress, for a display.
//!
//! Each worker writes to its own slot, so counting is a plain store. The reader adds the slots up,
//! and may see one worker slightly ahead of another. Counts cover the current phase.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tokometer_base::Nanos;
use tokometer_record::{Outcome, Phase};

use crate::config::MOST_WORKERS;

/// One worker's counters, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    sent: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    tokens: AtomicU64,
    first_contents: AtomicU64,
    first_content_nanos: AtomicU64,
}

/// Adds without an atomic read-modify-write: a slot has one writer.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl WorkerCounters {
    pub(crate) fn sent(&self) {
        add(&self.sent, 1);
    }

    pub(crate) fn ended(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Success => &self.succeeded,
            Outcome::Cancelled => &self.cancelled,
            Outcome::Failed(_) | Outcome::Abandoned => &self.failed,
        };
        add(counter, 1);
    }

    /// Removes a request that will be retried from those in flight, without counting a failure.
    pub(crate) fn retried(&self) {
        add(&self.sent, u64::MAX);
    }

    pub(crate) fn tokens(&self, count: u64) {
        add(&self.tokens, count);
    }

    pub(crate) fn first_content(&self, latency: Nanos) {
        add(&self.first_contents, 1);
        add(&self.first_content_nanos, latency.0);
    }

    fn reset(&self) {
        let all = [
            &self.sent,
            &self.succeeded,
            &self.failed,
            &self.cancelled,
            &self.tokens,
            &self.first_contents,
            &self.first_content_nanos,
        ];
        for counter in all {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
pub struct Live {
    slots: Vec<WorkerCounters>,
    others: WorkerCounters,
    phase: AtomicU8,
    began: AtomicU64,
    /// Zero while there is something to send.
    all_sent: AtomicU64,
    /// Other processes that must become ready before the run begins.
    awaited: AtomicU64,
    /// Until when the last of the attempts waits that a server wants to have later. Zero: none did.
    wanted_later: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveCounts {
    /// Requests whose first byte was sent.
    pub sent: u64,
    pub succeeded: u64,
    /// Requests that failed after their last attempt.
    pub failed: u64,
    /// Requests that their user cancelled, as the plan says.
    pub cancelled: u64,
    /// Content events so far: equal to tokens where the server sends one per event.
    pub tokens: u64,
    /// Mean time from the first byte sent to the first content. `None` before the first content.
    pub ttft_mean: Option<Nanos>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    pub tokens_per_s: f64,
    pub requests_per_s: f64,
}

impl LiveCounts {
    pub fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.ended())
    }

    pub fn ended(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled
    }

    /// What happened per second since an earlier reading; zero where no time has passed.
    pub fn rates_since(&self, before: &Self, span: Nanos) -> Rates {
        let rate = |now: u64, before: u64| {
            let seconds = span.as_secs_f64();
            if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
        };
        Rates {
            tokens_per_s: rate(self.tokens, before.tokens),
            requests_per_s: rate(self.ended(), before.ended()),
        }
    }
}

impl Default for Live {
    fn default() -> Self {
        let slots = (0..MOST_WORKERS).map(|_| WorkerCounters::default()).collect();
        Self {
            slots,
            others: WorkerCounters::default(),
            phase: AtomicU8::new(0),
            began: AtomicU64::new(0),
            all_sent: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            wanted_later: AtomicU64::new(0),
        }
    }
}

impl Live {
    pub fn counts(&self) -> LiveCounts {
        let sum = |pick: fn(&WorkerCounters) -> &AtomicU64| {
            self.slots
                .iter()
                .chain([&self.others])
                .map(|slot| pick(slot).load(Ordering::Relaxed))
                .fold(0, u64::wrapping_add)
        };
        let first_contents = sum(|slot| &slot.first_contents);
        LiveCounts {
            // Ends are read before sends, so that no request seems to end before it was sent.
            succeeded: sum(|slot| &slot.succeeded),
            failed: sum(|slot| &slot.failed),
            cancelled: sum(|slot| &slot.cancelled),
            sent: sum(|slot| &slot.sent),
            tokens: sum(|slot| &slot.tokens),
            ttft_mean: sum(|slot| &slot.first_content_nanos).checked_div(first_contents).map(Nanos),
        }
    }

    /// Counts the requests of other processes as well, instead of what was set before.
    pub fn set_others(&self, counts: &LiveCounts) {
        let values = [
            (&self.others.sent, counts.sent),
            (&self.others.succeeded, counts.succeeded),
            (&self.others.failed, counts.failed),
            (&self.others.cancelled, counts.cancelled),
            (&self.others.tokens, counts.tokens),
        ];
        for (counter, value) in values {
            counter.store(value, Ordering::Relaxed);
        }
    }

    pub fn set_awaited(&self, processes: u64) {
        self.awaited.store(processes, Ordering::Relaxed);
    }

    /// Notes that an attempt waits until then, as the server asked.
    pub fn note_wait(&self, until: Nanos) {
        let _before = self.wanted_later.fetch_max(until.0, Ordering::Relaxed);
    }

    /// Until when attempts wait because a server asked for it (`Retry-After`). `None`: none do.
    pub fn wanted_later(&self, now: Nanos) -> Option<Nanos> {
        Some(Nanos(self.wanted_later.load(Ordering::Relaxed))).filter(|until| *until > now)
    }

    /// Other processes that must become ready before the run begins.
    pub fn awaited(&self) -> u64 {
        self.awaited.load(Ordering::Relaxed)
    }

    /// The current phase. `None` before the first request.
    pub fn phase(&self) -> Option<Phase> {
        match self.phase.load(Ordering::Relaxed) {
            1 => Some(Phase::Warmup),
            2 => Some(Phase::Measure),
            _ => None,
        }
    }

    /// Start of the current phase on the monotonic clock. `None` before the first one.
    pub fn began(&self) -> Option<Nanos> {
        self.phase().map(|_| Nanos(self.began.load(Ordering::Relaxed)))
    }

    /// Since when the phase under way has nothing more to send and waits for what is in flight.
    /// `None` while there is something to send.
    pub fn all_sent(&self) -> Option<Nanos> {
        Some(Nanos(self.all_sent.load(Ordering::Relaxed))).filter(|at| *at > Nanos::ZERO)
    }

    /// Notes that there is nothing more to send. Only the first time counts.
    pub(crate) fn note_all_sent(&self, at: Nanos) {
        let at = at.0.max(1);
        let _before = self.all_sent.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Notes that a phase has ended: until the next one begins, nobody waits for what was sent.
    pub(crate) fn end_phase(&self) {
        self.all_sent.store(0, Ordering::Relaxed);
    }

    pub(crate) fn slot(&self, worker: u16) -> &WorkerCounters {
        &self.slots[usize::from(worker.min(MOST_WORKERS - 1))]
    }

    /// Resets the counters for a phase. Called while no request is in flight.
    pub(crate) fn begin(&self, phase: Phase, at: Nanos) {
        self.slots.iter().chain([&self.others]).for_each(WorkerCounters::reset);
        self.all_sent.store(0, Ordering::Relaxed);
        self.began.store(at.0, Ordering::Relaxed);
        self.phase.store(if phase == Phase::Warmup { 1 } else { 2 }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_the_reading_before() {
        let before = LiveCounts { succeeded: 2, tokens: 100, ..LiveCounts::default() };
        let now = LiveCounts { succeeded: 5, failed: 1, tokens: 400, ..LiveCounts::default() };
        let rates = now.rates_since(&before, Nanos::from_secs(2));
        assert_eq!(rates, Rates { tokens_per_s: 150.0, requests_per_s: 2.0 });
        assert_eq!(now.rates_since(&before, Nanos::ZERO), Rates::default());
        // A new phase starts the counts again.
        assert_eq!(before.rates_since(&now, Nanos::from_secs(1)), Rates::default());
    }

    #[test]
    fn counts_add_up_over_workers_and_start_again_with_a_phase() {
        let live = Live::default();
        assert_eq!((live.phase(), live.counts().ttft_mean), (None, None));
        live.begin(Phase::Warmup, Nanos(1));
        live.slot(0).sent();
        live.slot(1).sent();
        live.slot(1).sent();
        live.slot(1).ended(&Outcome::Success);
        live.slot(0).first_content(Nanos(10));
        live.slot(1).first_content(Nanos(30));
        let counts = live.counts();
        assert_eq!((counts.sent, counts.in_flight(), counts.ended()), (3, 2, 1));
        assert_eq!(counts.ttft_mean, Some(Nanos(20)));
        live.set_others(&LiveCounts { sent: 10, succeeded: 8, ..LiveCounts::default() });
        assert_eq!((live.counts().sent, live.counts().ended()), (13, 9));
        live.note_all_sent(Nanos(7));
        live.note_all_sent(Nanos(8));
        assert_eq!(live.all_sent(), Some(Nanos(7)));
        live.begin(Phase::Measure, Nanos(2));
        assert_eq!((live.counts(), live.all_sent()), (LiveCounts::default(), None));
        assert_eq!((live.phase(), live.began()), (Some(Phase::Measure), Some(Nanos(2))));
    }
}
