//! A background thread that ends when its guard is dropped.
//!
//! The work gets a [`StopSignal`] to wait on instead of sleeping, so that dropping the guard ends it
//! at once and never after a whole interval.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A background thread. Dropping it asks the thread to stop and waits for its end.
#[derive(Debug)]
pub struct Background {
    stop: Option<Sender<()>>,
    /// Nothing is ever sent: the channel closes when the thread ends, however it ends.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
    /// How long to wait for the end; `None` waits as long as it takes.
    timeout: Option<Duration>,
}

impl Background {
    /// Starts `work` on a thread of this name. Without a thread (the system has none left) the work
    /// is not done: what runs in the background must be something a run can do without.
    pub fn start(name: &str, work: impl FnOnce(&StopSignal) + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let (at_end, ended) = channel();
        let body = move || {
            // Dropped with the thread, also when the work panics.
            let _at_end: Sender<()> = at_end;
            work(&StopSignal(stopped));
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body).ok();
        Self { stop: Some(stop), ended, thread, timeout: None }
    }

    /// Leaves a thread behind that has not ended this long after it was asked to, such as one that
    /// waits for a server.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        let has_ended = self.timeout.is_none_or(|timeout| {
            self.ended.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
        });
        if let Some(thread) = self.thread.take().filter(|_| has_ended) {
            // A panic of the thread was reported by the panic hook when it happened.
            drop(thread.join());
        }
    }
}

#[derive(Debug)]
pub struct StopSignal(Receiver<()>);

impl StopSignal {
    /// Waits up to `pause`; true if the thread must stop.
    pub fn is_raised_within(&self, pause: Duration) -> bool {
        self.0.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn dropping_the_guard_ends_a_thread_that_waits_for_an_hour() {
        let rounds = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&rounds);
        let background = Background::start("test", move |stop| {
            while !stop.is_raised_within(Duration::from_hours(1)) {}
            counted.store(1, Ordering::SeqCst);
        });
        drop(background);
        assert_eq!(rounds.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_thread_that_does_not_listen_is_left_behind() {
        let (release, released) = channel::<()>();
        let background = Background::start("test", move |_stop| {
            let _ = released.recv_timeout(Duration::from_secs(30));
        });
        drop(background.with_timeout(Duration::from_millis(1)));
        // Still there to be released: the drop above did not wait for it.
        assert_eq!(release.send(()), Ok(()));
    }
}
