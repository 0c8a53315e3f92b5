//! A connection whose whole exchange has a limit, however slowly its bytes come.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tokometer_base::{Clock, MonotonicClock, Nanos};

/// A wait that can be cancelled looks this often whether it was.
const LOOK: Nanos = Nanos::from_millis(100);

/// Tells whether the answer is no longer wanted.
#[derive(Clone)]
pub(super) struct Cancel(pub(super) Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancel")
    }
}

/// The end of an exchange.
#[derive(Debug, Clone)]
pub(super) struct Limit {
    span: Nanos,
    deadline: Nanos,
    cancel: Option<Cancel>,
}

impl Limit {
    /// `span` from now on, or until `cancel` says so.
    pub(super) fn new(span: Nanos, cancel: Option<Cancel>) -> Self {
        Self { span, deadline: MonotonicClock.now() + span, cancel }
    }

    /// What is left of the time; an error when that is nothing.
    fn left(&self) -> io::Result<Nanos> {
        if self.cancel.as_ref().is_some_and(|Cancel(is_cancelled)| is_cancelled()) {
            return Err(io::Error::other("interrupted"));
        }
        let left = self.deadline - MonotonicClock.now();
        if left == Nanos::ZERO {
            let message = format!("timed out: no complete response within {}", self.span);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        Ok(left)
    }

    /// The longest wait in one piece. The system takes zero for no limit.
    fn step(&self) -> io::Result<Duration> {
        let left = self.left()?;
        let step = if self.cancel.is_some() { left.min(LOOK) } else { left };
        Ok(step.max(Nanos::from_micros(10)).to_duration())
    }

    /// Connects within the limit.
    pub(super) fn connect(&self, address: &SocketAddr) -> io::Result<Limited> {
        let stream = TcpStream::connect_timeout(address, self.left()?.to_duration())?;
        Ok(Limited { stream, limit: self.clone() })
    }
}

/// A connection with a limit.
#[derive(Debug)]
pub(super) struct Limited {
    stream: TcpStream,
    limit: Limit,
}

fn is_over(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(self.limit.step()?))?;
            match self.stream.read(buffer) {
                Err(error) if is_over(&error) => {}
                done => return done,
            }
        }
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.stream.set_write_timeout(Some(self.limit.step()?))?;
            match self.stream.write(bytes) {
                Err(error) if is_over(&error) => {}
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
