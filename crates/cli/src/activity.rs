//! Signs of life of commands that take longer than a second.
//!
//! On a terminal one line on stderr, redrawn every second and removed before anything else is written.
//! Elsewhere a line every ten seconds, so that a log shows that the program works.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokometer_base::{Background, StopSignal};

use crate::terminal::{draw_line, print_message};

const TICK: Duration = Duration::from_secs(1);

/// Ticks between two lines where there is no terminal.
const LINE_TICKS: u64 = 10;

/// Work that is under way. Dropping it removes its line.
pub(crate) struct Activity {
    work: Arc<Mutex<Work>>,
    _thread: Background,
}

struct Work {
    what: &'static str,
    done: usize,
    total: usize,
    unit: &'static str,
}

fn locked(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Activity {
    /// Says from the first second on that `what` is under way.
    pub(crate) fn start(what: &'static str) -> Self {
        let work = Arc::new(Mutex::new(Work { what, done: 0, total: 0, unit: "" }));
        let shown = Arc::clone(&work);
        let thread = Background::start("activity", move |stop| follow(&shown, stop));
        Self { work, _thread: thread }
    }

    pub(crate) fn rename(&self, what: &'static str) {
        locked(&self.work).what = what;
    }

    /// What threads report to: how much is done of how much, in which unit.
    pub(crate) fn reporter(&self) -> impl Fn(usize, usize, &'static str) + Sync + use<> {
        let work = Arc::clone(&self.work);
        move |done, total, unit| {
            let mut work = locked(&work);
            // Threads report in any order.
            *work = Work { done: work.done.max(done), total, unit, ..*work };
        }
    }
}

fn follow(work: &Mutex<Work>, stop: &StopSignal) {
    let is_terminal = std::io::stderr().is_terminal();
    let mut seconds = 0;
    while !stop.is_raised_within(TICK) {
        seconds += TICK.as_secs();
        let line = locked(work).line(seconds);
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

impl Work {
    /// `calibrate: fitting the reports, 12 of 63 searches (40 s)`.
    fn line(&self, seconds: u64) -> String {
        let Self { what, done, total, unit } = self;
        let part = if *total > 0 { format!(", {done} of {total} {unit}") } else { String::new() };
        format!("{what}{part} ({seconds} s)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_and_for_how_long() {
        let activity = Activity::start("calibrate: fitting");
        let line = |seconds: u64| locked(&activity.work).line(seconds);
        assert_eq!(line(1), "calibrate: fitting (1 s)");
        activity.reporter()(12, 63, "searches");
        activity.reporter()(11, 63, "searches");
        assert_eq!(line(40), "calibrate: fitting, 12 of 63 searches (40 s)");
        activity.rename("calibrate: checking");
        assert_eq!(line(50), "calibrate: checking, 12 of 63 searches (50 s)");
    }
}
