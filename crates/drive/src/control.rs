//! A reference for the pacer: a thread that sleeps until the same times and does nothing else.
//!
//! On a machine with stolen CPU time even this thread is milliseconds late. Reported beside the
//! lateness of sends, it separates the machine's share from the client's.

use std::sync::Arc;

use tokometer_base::{Clock, Nanos};
use tokometer_record::health::DelayHistogram;
use tokometer_schedule::Offsets;

use crate::platform::Platform;
use crate::shared::Shared;

/// A sample of the schedule is enough: the reference thread must not add load.
const LEAST_GAP: Nanos = Nanos::from_millis(2);

/// Longest single sleep, so that the thread notices the end of the run.
const LONGEST_SLEEP: Nanos = Nanos::from_millis(50);

/// Sleeps until each offset after `start` until the run stops. Returns how late it woke.
pub(crate) fn run(
    platform: &impl Platform,
    shared: &Arc<Shared>,
    mut offsets: Offsets,
    start: Nanos,
) -> DelayHistogram {
    let clock = platform.clock();
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
        while clock.now() + LONGEST_SLEEP < due && !shared.is_stopping() {
            platform.sleep_until(clock.now() + LONGEST_SLEEP);
        }
        if shared.is_stopping() || shared.is_over() {
            break;
        }
        platform.sleep_until(due);
        lateness.add(clock.now() - due);
    }
    lateness
}
