//! A reference for the pacer and for the machine: a thread that sleeps and does nothing else.
//!
//! It wakes at the times of the schedule, and at short intervals between them. On a machine with stolen
//! CPU time even this thread is milliseconds late. Reported beside the lateness of sends, it separates
//! the machine's share from the client's: if it was late too, the machine or the whole process stalled.

use std::sync::Arc;

use tokometer_base::{Clock, Nanos};
use tokometer_record::health::{DelayHistogram, ThreadStall};
use tokometer_schedule::Offsets;

use crate::platform::Platform;
use crate::shared::Shared;

/// A sample of the schedule is enough: the reference thread must not add load.
const LEAST_GAP: Nanos = Nanos::from_millis(2);

/// Longest single sleep: a stall that falls between two wake-ups and ends before the next is not seen.
const TICK: Nanos = Nanos::from_millis(20);

/// Delays up to this length are normal for a sleeping thread.
const STALL: Nanos = Nanos::from_millis(2);

const MOST_STALLS: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct ControlRecord {
    pub(crate) lateness: DelayHistogram,
    /// Delays of any wake-up, the longest ones.
    pub(crate) stalls: Vec<ThreadStall>,
    last: Nanos,
}

impl ControlRecord {
    fn woke(&mut self, due: Nanos, now: Nanos) {
        // Several times of the schedule may pass during one stall.
        let begin = due.max(self.last);
        self.last = now;
        if now - begin <= STALL {
            return;
        }
        self.stalls.push(ThreadStall { begin, end: now });
        if self.stalls.len() >= 2 * MOST_STALLS {
            self.keep_longest();
        }
    }

    /// Drops the shortest stalls beyond the limit; the rest stays in order of time.
    fn keep_longest(&mut self) {
        if self.stalls.len() > MOST_STALLS {
            self.stalls.sort_by_key(|stall| std::cmp::Reverse(stall.end - stall.begin));
            self.stalls.truncate(MOST_STALLS);
            self.stalls.sort_by_key(|stall| stall.begin);
        }
    }
}

/// Sleeps until each offset after `start`, where there is a schedule, and until the run stops.
pub(crate) fn run(
    platform: &impl Platform,
    shared: &Arc<Shared>,
    offsets: Option<Offsets>,
    start: Nanos,
) -> ControlRecord {
    let clock = platform.clock();
    let mut control = ControlRecord::default();
    let mut schedule = Schedule { offsets, index: 0, last: Nanos::ZERO };
    let mut next = schedule.next(shared);
    loop {
        let tick = clock.now() + TICK;
        let due = next.map_or(tick, |offset| tick.min(start + offset));
        platform.sleep_until(due);
        if shared.is_stopping() || shared.is_over() {
            break;
        }
        let now = clock.now();
        control.woke(due, now);
        if let Some(planned) = next.map(|offset| start + offset).filter(|planned| *planned <= now) {
            control.lateness.add(now - planned);
            next = schedule.next(shared);
        }
    }
    control.keep_longest();
    control
}

/// The times of the plan that are far enough apart.
struct Schedule {
    offsets: Option<Offsets>,
    index: u64,
    last: Nanos,
}

impl Schedule {
    fn next(&mut self, shared: &Shared) -> Option<Nanos> {
        let extent = shared.config.limits.extent;
        loop {
            let offset = self.offsets.as_mut()?.advance();
            let offset = offset.filter(|offset| extent.admits(self.index, *offset))?;
            self.index += 1;
            if offset - self.last >= LEAST_GAP {
                self.last = offset;
                return Some(offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_delays_are_kept_and_of_too_many_the_longest() {
        let mut control = ControlRecord::default();
        control.woke(Nanos::from_millis(10), Nanos::from_millis(12));
        assert!(control.stalls.is_empty(), "two milliseconds are normal");
        for second in 0..10_000 {
            let due = Nanos::from_secs(second);
            control.woke(due, due + Nanos::from_millis(3 + second % 100));
        }
        control.keep_longest();
        assert_eq!(control.stalls.len(), MOST_STALLS);
        let least = control.stalls.iter().map(|stall| stall.end - stall.begin).min().unwrap();
        assert!(least >= Nanos::from_millis(50), "{least}");
        assert!(control.stalls.is_sorted_by_key(|stall| stall.begin));
    }
}
