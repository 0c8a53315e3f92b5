//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! While a run is driven, the first signal asks it to stop sending and drain, the second to abandon what
//! is in flight. As long as nothing was measured there is nothing to save, and the first signal ends the
//! program. The third one always does.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
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
    interrupt: Option<Arc<Interrupt>>,
    count: u32,
    /// Whether something was measured that is still to be reported.
    has_results: bool,
    /// The folder of the run, which is removed at an exit while it is empty.
    folder: Option<PathBuf>,
}

impl State {
    /// Notifies the run, or lets the next check between two runs find it. Says whether the program ends at
    /// once.
    fn signal(&mut self) -> bool {
        self.count += 1;
        let has_nothing_to_save = self.interrupt.is_none() && !self.has_results;
        if self.count >= 3 || has_nothing_to_save {
            return true;
        }
        if let Some(interrupt) = &self.interrupt {
            interrupt.raise();
        }
        false
    }
}

impl Signals {
    /// Starts catching, once for the program: two watchers would react twice. Without a handler the
    /// system's own behaviour stays, which is to end the program.
    pub(crate) fn catch() -> Self {
        let signals = Self::default();
        // Beyond a limit on file sizes a write then fails as on a full disk, instead of ending the program.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        if let Ok(mut caught) = Caught::new(heeded()) {
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
        let mut state = self.state();
        // One that came just before must not be lost.
        if state.count > 0 {
            interrupt.raise();
        }
        let before = state.interrupt.replace(Arc::clone(interrupt));
        drop(state);
        Directed { signals: self.clone(), before }
    }

    /// Names the folder of the run. A signal that ends the program before anything was recorded leaves
    /// no empty folder behind.
    pub(crate) fn use_folder(&self, folder: &Path) {
        self.state().folder = Some(folder.to_owned());
    }

    /// Marks the end of a run: from then on there is something to report.
    pub(crate) fn at_end_of_run(&self) -> EndOfRun {
        EndOfRun { signals: self.clone() }
    }

    /// Whether a signal came: a sweep then ends before its next point.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.state().count > 0
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

/// Dropped when a run has ended.
#[derive(Debug)]
pub(crate) struct EndOfRun {
    signals: Signals,
}

impl Drop for EndOfRun {
    fn drop(&mut self) {
        self.signals.state().has_results = true;
    }
}

pub(crate) fn heeded() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!is_ignored(SIGHUP, &status)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup).collect()
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
    if state.signal() {
        if let Some(folder) = &state.folder {
            // Only an empty folder can be removed this way.
            let _ = std::fs::remove_dir(folder);
        }
        signal_hook::low_level::exit(Exit::Interrupted as i32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exits(state: &mut State, count: usize) -> Vec<bool> {
        (0..count).map(|_| state.signal()).collect()
    }

    #[test]
    fn the_first_signal_exits_only_while_there_is_nothing_to_save_and_the_third_always() {
        assert_eq!(exits(&mut State::default(), 1), [true]);
        let mut between = State { has_results: true, ..State::default() };
        assert_eq!(exits(&mut between, 3), [false, false, true]);
        let interrupt = Arc::new(Interrupt::default());
        let mut driven = State { interrupt: Some(Arc::clone(&interrupt)), ..State::default() };
        assert_eq!(exits(&mut driven, 3), [false, false, true]);
        assert!(interrupt.is_raised());
    }

    /// A signal between two runs used to be forgotten by the next one.
    #[test]
    fn a_signal_before_a_run_reaches_it() {
        let signals = Signals::default();
        signals.state().count = 1;
        let interrupt = Arc::new(Interrupt::default());
        drop(signals.direct_to(&interrupt));
        assert!(interrupt.is_raised() && signals.is_interrupted());
    }

    #[test]
    fn signals_that_the_starter_ignored_are_found_in_the_mask() {
        let status = "Name:\tx\nSigIgn:\t0000000000000003\nSigCgt:\t0000000000000000\n";
        assert!(is_ignored(SIGHUP, status));
        assert!(is_ignored(SIGINT, status));
        assert!(!is_ignored(SIGTERM, status));
        assert!(!is_ignored(SIGHUP, ""));
    }
}
