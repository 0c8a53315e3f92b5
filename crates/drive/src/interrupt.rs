//! Requests from outside to stop the run.

use std::sync::atomic::{AtomicU32, Ordering};

/// Raised by the signal handler. Once: stop sending, drain, report. Twice: stop at once.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: AtomicU32,
}

impl Interrupt {
    /// Requests a stop; the second call requests an immediate one.
    pub fn raise(&self) {
        self.raised.fetch_add(1, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.times() > 0
    }

    pub fn times(&self) -> u32 {
        self.raised.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_interrupt_is_more_urgent_than_the_first() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.is_raised());
        interrupt.raise();
        assert!(interrupt.is_raised());
        interrupt.raise();
        assert_eq!(interrupt.times(), 2);
    }
}
