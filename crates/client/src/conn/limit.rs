//! The time limit of a control request, however slowly its bytes come.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokometer_base::{Clock, Nanos};

/// A wait that can be cancelled looks this often whether it was.
const LOOK: Nanos = Nanos::from_millis(100);

/// How long an exchange may take, and by which clock.
#[derive(Clone)]
pub(crate) struct TimeLimit {
    pub(crate) clock: Arc<dyn Clock>,
    /// From connecting to the last byte of the response.
    pub(crate) span: Nanos,
    pub(crate) is_cancelled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeLimit").field("span", &self.span).finish_non_exhaustive()
    }
}

impl TimeLimit {
    pub(crate) fn start(&self) -> ExchangeDeadline {
        ExchangeDeadline { deadline: self.clock.now() + self.span, limit: self.clone() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ExchangeDeadline {
    limit: TimeLimit,
    deadline: Nanos,
}

impl ExchangeDeadline {
    /// The same, which ends after `span` at the latest.
    pub(super) fn within(&self, span: Nanos) -> Self {
        Self { limit: self.limit.clone(), deadline: self.deadline.min(self.now() + span) }
    }

    pub(super) fn now(&self) -> Nanos {
        self.limit.clock.now()
    }

    /// The longest wait in one piece; an error once the time for `what` is over.
    pub(super) fn step(&self, what: &str) -> io::Result<Nanos> {
        if self.limit.is_cancelled.as_ref().is_some_and(|is_cancelled| is_cancelled()) {
            return Err(io::Error::other("interrupted"));
        }
        let left = self.deadline - self.now();
        if left == Nanos::ZERO {
            let message = format!("timed out: no {what} within {}", self.limit.span);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        Ok(if self.limit.is_cancelled.is_some() { left.min(LOOK) } else { left })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokometer_base::ManualClock;

    use super::*;

    #[test]
    fn an_exchange_ends_at_its_deadline_by_the_clock_that_was_passed_in() {
        let clock = Arc::new(ManualClock::default());
        let passed = Arc::clone(&clock);
        let span = Nanos::from_secs(3);
        let deadline = TimeLimit { clock: passed, span, is_cancelled: None }.start();
        clock.advance(Nanos::from_secs(2));
        assert_eq!(deadline.step("response").unwrap(), Nanos::from_secs(1));
        clock.advance(Nanos::from_secs(1));
        let error = deadline.step("response").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "timed out: no response within 3.00 s");
    }

    #[test]
    fn a_wait_that_can_be_cancelled_is_cut_in_pieces() {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let limit = TimeLimit {
            clock: Arc::new(ManualClock::default()),
            span: Nanos::from_secs(3),
            is_cancelled: Some(Arc::new(move || seen.load(Ordering::SeqCst))),
        };
        let deadline = limit.start();
        assert_eq!(deadline.step("response").unwrap(), LOOK);
        stop.store(true, Ordering::SeqCst);
        assert_eq!(deadline.step("response").unwrap_err().to_string(), "interrupted");
    }
}
