//! The clock as a value that is passed in.
//!
//! `CLOCK_MONOTONIC` for every latency, `CLOCK_REALTIME` only for the calendar time of a run and for
//! turning the kernel's packet stamps, which are wall-clock times, into monotonic ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::time::{ClockId, clock_gettime};

use crate::time::{Nanos, WallNanos};

/// Reads time. Implementations never go backwards in [`Clock::now`].
pub trait Clock: Send + Sync {
    fn now(&self) -> Nanos;
    fn wall(&self) -> WallNanos;

    /// Sleeps for this time. A manual clock advances instead.
    fn sleep(&self, span: Nanos);

    /// Wall clock minus monotonic clock, from the tightest of several bracketed readings. Adding it
    /// to a monotonic time gives the wall time; a kernel packet stamp minus it is monotonic.
    fn wall_offset(&self) -> i64 {
        let bracket = || {
            let before = self.now();
            let wall = self.wall();
            let after = self.now();
            let middle = Nanos(before.0 / 2 + after.0 / 2 + (before.0 & after.0 & 1));
            (after - before, Nanos(wall.0).signed_since(middle))
        };
        (0..5).map(|_| bracket()).min_by_key(|(width, _)| *width).map_or(0, |(_, offset)| offset)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Nanos {
        self.as_ref().now()
    }

    fn wall(&self) -> WallNanos {
        self.as_ref().wall()
    }

    fn sleep(&self, span: Nanos) {
        self.as_ref().sleep(span);
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

fn read(id: ClockId) -> u64 {
    // A clock that Linux guarantees cannot fail to be read; zero would only make a figure absurd.
    let Ok(spec) = clock_gettime(id) else { return 0 };
    let secs = u64::try_from(spec.tv_sec()).unwrap_or(0);
    secs * 1_000_000_000 + u64::try_from(spec.tv_nsec()).unwrap_or(0)
}

impl Clock for MonotonicClock {
    fn now(&self) -> Nanos {
        Nanos(read(ClockId::CLOCK_MONOTONIC))
    }

    fn wall(&self) -> WallNanos {
        WallNanos(read(ClockId::CLOCK_REALTIME))
    }

    fn sleep(&self, span: Nanos) {
        std::thread::sleep(span.to_duration());
    }
}

/// A clock that advances only by calls. For tests and virtual time.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    wall_origin: u64,
}

impl ManualClock {
    /// Starts at monotonic zero, with the wall clock at `wall_origin`.
    pub fn new(wall_origin: WallNanos) -> Self {
        Self { now: AtomicU64::new(0), wall_origin: wall_origin.0 }
    }

    pub fn advance(&self, span: Nanos) {
        self.now.fetch_add(span.0, Ordering::SeqCst);
    }

    pub fn advance_to(&self, time: Nanos) {
        self.now.fetch_max(time.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> WallNanos {
        WallNanos(self.wall_origin + self.now().0)
    }

    fn sleep(&self, span: Nanos) {
        self.advance(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_offset_takes_a_wall_reading_back_to_the_monotonic_clock() {
        let clock = MonotonicClock;
        let offset = clock.wall_offset();
        let before = clock.now();
        let wall = clock.wall();
        let monotonic = Nanos(wall.0.wrapping_add_signed(-offset));
        // One second is far beyond any bracket error and far below any wrong clock.
        assert!(monotonic.signed_since(before).abs() < 1_000_000_000);
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(WallNanos(1_000));
        assert_eq!(clock.now(), Nanos::ZERO);
        clock.advance(Nanos(5));
        assert_eq!((clock.now(), clock.wall()), (Nanos(5), WallNanos(1_005)));
        clock.advance_to(Nanos(9));
        clock.advance_to(Nanos(7));
        clock.sleep(Nanos::ZERO);
        assert_eq!((clock.now(), clock.wall_offset()), (Nanos(9), 1_000));
    }
}
