//! Connecting to one of several addresses of a server ("happy eyeballs", RFC 8305).
//!
//! An address that refuses gives way to the next at once. One that is silent keeps its attempt, and
//! the next address is tried beside it after [`HEAD_START`]. The first connection that is made wins and
//! the other attempts are closed. In: the order of the addresses, the time, and a way to connect. A race
//! never waits by itself: the caller calls [`Race::step`] when an attempt has news and when time has
//! passed.

use std::collections::VecDeque;
use std::io;

use tokometer_base::Nanos;

use super::socket::Wire;

/// An address that has not answered after this time gets a rival.
pub const HEAD_START: Nanos = Nanos::from_millis(250);

/// The attempts at one connection. Addresses are indexes into [`super::Endpoint::addresses`].
#[derive(Debug)]
pub struct Race<W> {
    untried: VecDeque<usize>,
    attempts: Vec<Attempt<W>>,
    failed: Vec<usize>,
    failure: Option<io::Error>,
    latest: Nanos,
    is_crowded: bool,
}

#[derive(Debug)]
struct Attempt<W> {
    address: usize,
    begin: Nanos,
    wire: W,
}

#[derive(Debug)]
pub enum RaceStep<W> {
    Pending,
    Won {
        address: usize,
        wire: W,
    },
    /// No address could be connected; this is why the last one could not.
    Lost(io::Error),
}

impl<W: Wire> Race<W> {
    pub fn new(order: impl IntoIterator<Item = usize>) -> Self {
        Self {
            untried: order.into_iter().collect(),
            attempts: Vec::new(),
            failed: Vec::new(),
            failure: None,
            latest: Nanos::ZERO,
            is_crowded: false,
        }
    }

    /// Looks at the attempts and begins the next where it is due.
    pub fn step(
        &mut self,
        now: Nanos,
        mut connect: impl FnMut(usize) -> io::Result<W>,
    ) -> RaceStep<W> {
        self.is_crowded = false;
        if let Some(winner) = self.look() {
            let Attempt { address, wire, .. } = self.attempts.swap_remove(winner);
            // What was overtaken after its head start is no better than refused.
            let slow = self.attempts.iter().filter(|attempt| now - attempt.begin >= HEAD_START);
            self.failed.extend(slow.map(|attempt| attempt.address));
            return RaceStep::Won { address, wire };
        }
        while self.attempts.is_empty() || now >= self.latest + HEAD_START {
            let Some(address) = self.untried.pop_front() else { break };
            match connect(address) {
                Ok(wire) => {
                    self.latest = now;
                    self.attempts.push(Attempt { address, begin: now, wire });
                }
                // A Unix-domain socket whose backlog is full: there is room again later.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.untried.push_front(address);
                    self.is_crowded = true;
                    return RaceStep::Pending;
                }
                Err(error) => self.fail(address, error),
            }
        }
        if self.attempts.is_empty() {
            let nowhere = || io::Error::from(io::ErrorKind::AddrNotAvailable);
            return RaceStep::Lost(self.failure.take().unwrap_or_else(nowhere));
        }
        RaceStep::Pending
    }

    /// The index of an attempt that is connected. Attempts that failed are removed.
    fn look(&mut self) -> Option<usize> {
        let mut index = 0;
        while index < self.attempts.len() {
            match self.attempts[index].wire.connected() {
                Ok(()) => return Some(index),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => index += 1,
                Err(error) => {
                    let Attempt { address, .. } = self.attempts.remove(index);
                    self.fail(address, error);
                }
            }
        }
        None
    }

    fn fail(&mut self, address: usize, error: io::Error) {
        self.failed.push(address);
        self.failure = Some(error);
    }

    /// Addresses that refused, or were overtaken by one that was tried later.
    pub fn failed(&self) -> &[usize] {
        &self.failed
    }

    pub fn open(&self) -> impl Iterator<Item = usize> {
        self.attempts.iter().map(|attempt| attempt.address)
    }

    pub fn wires(&self) -> impl Iterator<Item = &W> {
        self.attempts.iter().map(|attempt| &attempt.wire)
    }

    /// Whether the next attempt waits for room in the server's backlog. Nothing reports that room, so
    /// the next step should come soon.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// When the next address is due; `None` when all have been tried.
    pub fn next_at(&self) -> Option<Nanos> {
        (!self.untried.is_empty()).then_some(self.latest + HEAD_START)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::conn::{ByteSource, ReadBuffer, Received, TransportInfo};

    /// What becomes of connecting to an address.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Fate {
        Silent,
        Refused,
        Unroutable,
        Crowded,
        ConnectedAt(u64),
    }

    #[derive(Debug)]
    struct Line {
        fate: Fate,
        now_ms: u64,
    }

    impl ByteSource for Line {
        fn receive(&mut self, _buffer: &mut ReadBuffer) -> io::Result<Received> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn transmit(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    impl Wire for Line {
        fn connected(&self) -> io::Result<()> {
            match self.fate {
                Fate::ConnectedAt(at) if at <= self.now_ms => Ok(()),
                Fate::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
                _ => Err(io::ErrorKind::NotConnected.into()),
            }
        }

        fn info(&self) -> Option<TransportInfo> {
            None
        }

        fn acknowledge_quickly(&self) {}
    }

    /// Steps every 50 ms. What came of it at which time, the tries with their times, and the failed.
    fn run(order: &[usize], fates: &[Fate]) -> (String, Vec<(u64, usize)>, Vec<usize>) {
        let tries = RefCell::new(Vec::new());
        let mut race = Race::<Line>::new(order.iter().copied());
        for now_ms in (0..=2_000).step_by(50) {
            for attempt in &mut race.attempts {
                attempt.wire.now_ms = now_ms;
            }
            let step = race.step(Nanos::from_millis(now_ms), |address| {
                tries.borrow_mut().push((now_ms, address));
                match fates[address] {
                    Fate::Unroutable => Err(io::ErrorKind::NetworkUnreachable.into()),
                    Fate::Crowded => Err(io::ErrorKind::WouldBlock.into()),
                    fate => Ok(Line { fate, now_ms }),
                }
            });
            let failed = race.failed().to_vec();
            match step {
                RaceStep::Pending => {}
                RaceStep::Won { address, .. } => {
                    return (format!("{address} at {now_ms}"), tries.take(), failed);
                }
                RaceStep::Lost(error) => {
                    return (format!("{:?} at {now_ms}", error.kind()), tries.take(), failed);
                }
            }
        }
        ("pending".to_owned(), tries.take(), race.failed().to_vec())
    }

    #[test]
    fn a_refusal_gives_way_at_once_and_silence_after_its_head_start() {
        use Fate::{ConnectedAt, Refused, Silent, Unroutable};
        let check = |order: &[usize], fates: &[Fate], end: &str, tries: &[(u64, usize)]| {
            let (ended, tried, _failed) = run(order, fates);
            assert_eq!((ended.as_str(), tried.as_slice()), (end, tries), "{fates:?}");
        };
        check(&[0], &[ConnectedAt(100)], "0 at 100", &[(0, 0)]);
        check(&[0, 1], &[ConnectedAt(0), ConnectedAt(0)], "0 at 50", &[(0, 0)]);
        check(&[1, 0], &[ConnectedAt(0), Refused], "0 at 100", &[(0, 1), (50, 0)]);
        check(&[0, 1], &[Unroutable, ConnectedAt(0)], "1 at 50", &[(0, 0), (0, 1)]);
        check(&[0, 1], &[Silent, ConnectedAt(0)], "1 at 300", &[(0, 0), (250, 1)]);
        // A slow address still wins if it connects before its rival.
        check(&[0, 1], &[ConnectedAt(400), Silent], "0 at 400", &[(0, 0), (250, 1)]);
        check(&[0, 1], &[Refused, Refused], "ConnectionRefused at 100", &[(0, 0), (50, 1)]);
        check(&[0, 1], &[Silent, Silent], "pending", &[(0, 0), (250, 1)]);
        check(&[], &[], "AddrNotAvailable at 0", &[]);
    }

    #[test]
    fn refused_and_overtaken_addresses_count_as_failed_and_a_rival_cut_short_does_not() {
        use Fate::{ConnectedAt, Refused, Silent};
        assert_eq!(run(&[0, 1, 2], &[Silent, Refused, ConnectedAt(300)]).2, [1, 0]);
        assert!(run(&[0, 1], &[ConnectedAt(300), Silent]).2.is_empty());
    }

    #[test]
    fn a_full_backlog_is_tried_again_and_is_no_failure() {
        let (ended, tries, failed) = run(&[0], &[Fate::Crowded]);
        assert_eq!((ended.as_str(), tries.len(), failed.len()), ("pending", 41, 0));
    }
}
