//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! While a run is driven, the first signal asks it to stop sending and drain, the second to leave at
//! once. While nothing is driven there is nothing to save, and the first signal ends the program.

use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;
use tokometer_drive::Interrupt;

use crate::exit::Exit;

/// Catches signals for the rest of the program's life.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    driven: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The run under way.
    interrupt: Option<Arc<Interrupt>>,
    /// Whether a signal came during any run.
    is_interrupted: bool,
}

impl Signals {
    /// Starts catching. Without a handler the system's own behaviour stays, which is to die.
    pub(crate) fn catch() -> Self {
        let signals = Self::default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = (!is_ignored(SIGHUP, &status)).then_some(SIGHUP);
        if let Ok(mut caught) = Caught::new([SIGINT, SIGTERM].into_iter().chain(hangup)) {
            let state = Arc::clone(&signals.driven);
            let watch = move || {
                for _signal in caught.forever() {
                    raise(&state);
                }
            };
            // A thread that cannot be started leaves Ctrl-C without effect until the run ends.
            let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
        }
        signals
    }

    /// Directs signals to a run until the guard is dropped, then to where they went before.
    pub(crate) fn direct_to(&self, interrupt: &Arc<Interrupt>) -> Directed {
        let before = self.state().interrupt.replace(Arc::clone(interrupt));
        Directed { signals: self.clone(), before }
    }

    /// Whether a signal came during a run: a sweep then ends after it.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.state().is_interrupted
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signals go to a run while this lives.
#[derive(Debug)]
pub(crate) struct Directed {
    signals: Signals,
    before: Option<Arc<Interrupt>>,
}

impl Drop for Directed {
    fn drop(&mut self) {
        self.signals.state().interrupt = self.before.take();
    }
}

/// Whether the program was started with a signal ignored, as `nohup` does: catching it would end a run
/// that is meant to go on without its terminal.
fn is_ignored(signal: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn raise(state: &Mutex<State>) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.is_interrupted = true;
    match &state.interrupt {
        Some(interrupt) => interrupt.raise(),
        None => signal_hook::low_level::exit(Exit::Interrupted as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_the_starter_ignored_are_found_in_the_mask() {
        let status = "Name:\tx\nSigIgn:\t0000000000000003\nSigCgt:\t0000000000000000\n";
        assert!(is_ignored(SIGHUP, status));
        assert!(is_ignored(SIGINT, status));
        assert!(!is_ignored(SIGTERM, status));
        assert!(!is_ignored(SIGHUP, ""));
    }
}
