//! The limit of a control request, however slowly its bytes come.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokometer_base::{Clock, MonotonicClock, Nanos};

/// A wait that can be cancelled looks this often whether it was.
const LOOK: Nanos = Nanos::from_millis(100);

/// Tells whether the answer is no longer wanted.
#[derive(Clone)]
pub(crate) struct Cancel(pub(crate) Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancel")
    }
}

/// The end of an exchange.
#[derive(Debug, Clone)]
pub(crate) struct ExchangeDeadline {
    span: Nanos,
    deadline: Nanos,
    cancel: Option<Cancel>,
}

impl ExchangeDeadline {
    /// `span` from now on, or until `cancel` says so.
    pub(crate) fn new(span: Nanos, cancel: Option<Cancel>) -> Self {
        Self { span, deadline: MonotonicClock.now() + span, cancel }
    }

    /// The longest wait in one piece; an error once the time for `what` is over.
    pub(super) fn step(&self, what: &str) -> io::Result<Nanos> {
        if self.cancel.as_ref().is_some_and(|Cancel(is_cancelled)| is_cancelled()) {
            return Err(io::Error::other("interrupted"));
        }
        let left = self.deadline - MonotonicClock.now();
        if left == Nanos::ZERO {
            let message = format!("timed out: no {what} within {}", self.span);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        Ok(if self.cancel.is_some() { left.min(LOOK) } else { left })
    }
}
