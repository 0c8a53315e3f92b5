//! A control for the pacer: a bare thread that sleeps to the same times and does nothing else.
//!
//! On a machine whose hypervisor steals time even this is late by milliseconds. Shown beside the
//! lateness of sends, it tells the machine's part from ours.

use std::sync::Arc;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use tokometer_base::{Clock, MonotonicClock, Nanos};
use tokometer_record::health::DelayHistogram;
use tokometer_schedule::Offsets;

use crate::shared::Shared;

/// A sample of the pace is enough: the control must not become a load of its own.
const LEAST_GAP: Nanos = Nanos::from_millis(2);

/// Longest sleep in one piece, so that the end of the run is noticed.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(50);

fn sleep_until(at: Nanos) {
    let secs = i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(at.0 % 1_000_000_000).unwrap_or(0);
    let spec = TimeSpec::new(secs, nanos);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    // An interrupted sleep shows as an early wake-up, which counts as no delay.
    let _left = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &spec);
}

/// Sleeps to the offsets after `start` until the run stops, and says how late it woke.
pub(crate) fn run(shared: &Arc<Shared>, mut offsets: Offsets, start: Nanos) -> DelayHistogram {
    let _refused = nix::sys::prctl::set_timerslack(1);
    let mut lateness = DelayHistogram::default();
    let mut last = Nanos::ZERO;
    let extent = shared.config.limits.extent;
    let mut index = 0;
    while let Some(offset) = offsets.advance().filter(|offset| extent.admits(index, *offset)) {
        index += 1;
        if offset - last < LEAST_GAP {
            continue;
        }
        last = offset;
        let due = start + offset;
        while MonotonicClock.now() + LONGEST_SLEEP < due && !shared.is_stopping() {
            sleep_until(MonotonicClock.now() + LONGEST_SLEEP);
        }
        if shared.is_stopping() || shared.is_over() {
            break;
        }
        sleep_until(due);
        lateness.add(MonotonicClock.now() - due);
    }
    lateness
}
