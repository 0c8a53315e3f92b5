//! The wish to stop, from outside.

use std::sync::atomic::{AtomicU32, Ordering};

/// Raised by whoever catches signals. Once: stop sending, drain, report. Twice: leave now.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: AtomicU32,
}

/// What a run should do about interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Nothing was raised.
    None,
    /// Send no more, and let what is in flight end for a while.
    Drain,
    /// Leave at once.
    Leave,
}

impl Interrupt {
    /// Asks for a stop; more urgently each time.
    pub fn raise(&self) {
        self.raised.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_raised(&self) -> bool {
        self.urgency() != Urgency::None
    }

    pub(crate) fn urgency(&self) -> Urgency {
        match self.raised.load(Ordering::Relaxed) {
            0 => Urgency::None,
            1 => Urgency::Drain,
            _ => Urgency::Leave,
        }
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
        assert_eq!(interrupt.urgency(), Urgency::Drain);
        interrupt.raise();
        interrupt.raise();
        assert_eq!(interrupt.urgency(), Urgency::Leave);
    }
}
