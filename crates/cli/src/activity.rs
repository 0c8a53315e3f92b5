//! Signs of life of commands that take longer than a second.
//!
//! On a terminal one line on stderr, redrawn every second and removed before anything else is written.
//! Elsewhere a line every ten seconds, so that a log shows that the program works.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokometer_base::{Background, StopSignal};

use crate::terminal::{draw_line, print_message};

const TICK: Duration = Duration::from_secs(1);

/// Ticks between two lines where there is no terminal.
const LINE_TICKS: u64 = 10;

/// Work that is under way. Dropping it removes its line.
pub(crate) struct Activity {
    state: Arc<WorkState>,
    _thread: Background,
}

/// How far some work has come.
pub(crate) struct WorkState {
    what: Mutex<&'static str>,
    done: AtomicUsize,
    total: AtomicUsize,
    unit: Mutex<&'static str>,
}

impl Activity {
    /// Says from the first second on that `what` is under way.
    pub(crate) fn start(what: &'static str) -> Self {
        let state = Arc::new(WorkState {
            what: Mutex::new(what),
            done: AtomicUsize::new(0),
            total: AtomicUsize::new(0),
            unit: Mutex::new(""),
        });
        let shown = Arc::clone(&state);
        let thread = Background::start("activity", move |stop| shown.follow(stop));
        Self { state, _thread: thread }
    }

    /// What threads report their work to.
    pub(crate) fn state(&self) -> Arc<WorkState> {
        Arc::clone(&self.state)
    }
}

impl WorkState {
    /// What is under way from now on.
    pub(crate) fn rename(&self, what: &'static str) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// How much of the work is done.
    pub(crate) fn set(&self, done: usize, total: usize, unit: &'static str) {
        *self.unit.lock().unwrap_or_else(PoisonError::into_inner) = unit;
        self.total.store(total, Ordering::Relaxed);
        // Threads report in any order.
        let _earlier = self.done.fetch_max(done, Ordering::Relaxed);
    }

    fn follow(&self, stop: &StopSignal) {
        let is_terminal = std::io::stderr().is_terminal();
        let mut seconds = 0;
        while !stop.is_raised_within(TICK) {
            seconds += TICK.as_secs();
            let line = self.line(seconds);
            if is_terminal {
                draw_line(&line);
            } else if seconds.is_multiple_of(LINE_TICKS) {
                print_message(&line);
            }
        }
        if is_terminal {
            draw_line("");
        }
    }

    /// `calibrate: fitting the reports, 12 of 63 searches (40 s)`.
    fn line(&self, seconds: u64) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let unit = *self.unit.lock().unwrap_or_else(PoisonError::into_inner);
        let part = if total > 0 { format!(", {done} of {total} {unit}") } else { String::new() };
        let what = *self.what.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{what}{part} ({seconds} s)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_and_for_how_long() {
        let activity = Activity::start("calibrate: fitting");
        assert_eq!(activity.state.line(1), "calibrate: fitting (1 s)");
        activity.state().set(12, 63, "searches");
        activity.state().set(11, 63, "searches");
        assert_eq!(activity.state.line(40), "calibrate: fitting, 12 of 63 searches (40 s)");
        activity.state().rename("calibrate: checking");
        assert_eq!(activity.state.line(50), "calibrate: checking, 12 of 63 searches (50 s)");
    }
}
