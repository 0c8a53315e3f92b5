//! Since when the sockets of a lane may hold bytes that were not read.
//!
//! A wait reports every socket that has bytes, so what a later one reports has arrived since. The clock
//! after a wait does not say when it looked: the thread may have been stopped on its way back. Two times
//! are certainly not later: the one before the wait, and the arrival of single segments that it reported.

use tokometer_base::Nanos;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lookout {
    /// What is reported now has arrived after this time.
    empty_at: Nanos,
    /// The present wait looked at the sockets at this time or later.
    looked_at: Nanos,
}

impl Lookout {
    /// A wait begins; `now` may lie before it.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.looked_at = now;
    }

    /// A socket that the wait reported had received one segment, at this time.
    pub(crate) fn reported(&mut self, arrival: Nanos) {
        self.looked_at = self.looked_at.max(arrival);
    }

    /// Everything that the wait reported has been read, and it reported all that there was.
    pub(crate) fn end(&mut self) {
        self.empty_at = self.looked_at;
    }

    pub(crate) fn empty_at(&self) -> Nanos {
        self.empty_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrived_after_the_last_look_that_is_certain() {
        let mut lookout = Lookout::default();
        let at = |millis| Nanos::from_millis(millis);
        lookout.begin(at(10));
        lookout.end();
        assert_eq!(lookout.empty_at(), at(10));
        // A wait of 30 ms that a segment ended.
        lookout.begin(at(12));
        lookout.reported(at(42));
        lookout.reported(at(41));
        assert_eq!(lookout.empty_at(), at(10), "its own reports are from before");
        lookout.end();
        assert_eq!(lookout.empty_at(), at(42));
        // A wait that could not report everything proves nothing about the rest.
        lookout.begin(at(50));
        assert_eq!(lookout.empty_at(), at(42));
    }
}
